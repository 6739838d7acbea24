//! The cases of patching.md, section 3, column "ours", as far as one file and one patch go: what fits, and what doesn't.
//! Patches that are refused whatever the file is are in `patch_refused`, cases that need the file system in `patch_places`.

use rocm_fixup::patch::conflict::{Conflict, HunkConflict, Only};
use rocm_fixup::patch::fit::Why;
use rocm_fixup::patch::lint::{Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};
use rocm_fixup::patch::sha::Sha256;
use rocm_fixup::patch::verdict::{Known, Verdict, judge};

/// Judges one file against the only section of a patch.
pub fn judged(patch: &[u8], file: Option<&[u8]>, known: Option<Known>) -> Verdict {
    let linted = lint(patch, Origin::User).unwrap();
    let files = parse(&linted, Strip::FromHeader).unwrap();
    assert_eq!(files.len(), 1);
    judge(file, &files[0], known)
}

pub fn plain(patch: &str, file: &str) -> Verdict {
    judged(patch.as_bytes(), Some(file.as_bytes()), None)
}

fn known(before: &str, after: &str) -> Option<Known> {
    Some(Known { before: Some(Sha256::of(before.as_bytes())), after: Some(Sha256::of(after.as_bytes())) })
}

pub fn hunk(verdict: Verdict) -> HunkConflict {
    match verdict {
        Verdict::Conflict(conflict) => match *conflict {
            Conflict::Hunk(hunk) => hunk,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

pub fn conflict(verdict: Verdict) -> Conflict {
    match verdict {
        Verdict::Conflict(conflict) => *conflict,
        other => panic!("{other:?}"),
    }
}

pub fn applied(verdict: Verdict) -> (String, i64) {
    match verdict {
        Verdict::Apply { content: Some(content), offset, .. } => {
            (String::from_utf8(content).unwrap(), offset)
        }
        other => panic!("{other:?}"),
    }
}

pub fn lines(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|n| format!("line {n}\n")).collect()
}

/// Changes line 10 of twenty.
pub const MIDDLE: &str = "--- a/x\n+++ b/x\n@@ -7,7 +7,7 @@\n line 7\n line 8\n line 9\n-line 10\n+LINE 10\n line 11\n \
                      line 12\n line 13\n";

const ALREADY: Verdict = Verdict::Already { verified: false };

#[test]
fn case_01_already_applied() {
    let after = lines(1..=20).replace("line 10\n", "LINE 10\n");
    assert_eq!(plain(MIDDLE, &after), ALREADY);
    let known = known(&lines(1..=20), &after);
    assert_eq!(judged(MIDDLE.as_bytes(), Some(after.as_bytes()), known), Verdict::Already { verified: true });
}

#[test]
fn case_02_a_pure_insertion_is_not_doubled_in_the_middle_at_the_top_or_at_the_end() {
    let middle = "--- a/x\n+++ b/x\n@@ -4,4 +4,5 @@\n line 4\n line 5\n+new\n line 6\n line 7\n";
    let top = "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n+new\n line 1\n line 2\n line 3\n";
    let end = "--- a/x\n+++ b/x\n@@ -18,3 +18,4 @@\n line 18\n line 19\n line 20\n+new\n";
    for patch in [middle, top, end] {
        let (once, offset) = applied(plain(patch, &lines(1..=20)));
        assert_eq!((once.matches("new\n").count(), offset), (1, 0));
        assert_eq!(plain(patch, &once), ALREADY, "{patch}");
    }
}

#[test]
fn case_05_an_offset_is_allowed_where_unique_and_is_told() {
    let file = format!("one\ntwo\n{}", lines(1..=20));
    let (content, offset) = applied(plain(MIDDLE, &file));
    assert_eq!((content, offset), (file.replace("line 10\n", "LINE 10\n"), 2));
}

#[test]
fn case_06_context_drift_is_refused_with_the_first_line_that_differs() {
    let file = lines(1..=20).replace("line 8\n", "line eight\n");
    let hunk = hunk(plain(MIDDLE, &file));
    let near = hunk.nearest.clone().unwrap();
    assert_eq!((hunk.why.clone(), near.line, near.equal, near.of), (Why::NoMatch, 7, 6, 7));
    let text = Conflict::Hunk(hunk).to_string();
    assert!(
        text.contains("line 8 expected: `line 8`") && text.contains("line 8 found:    `line eight`"),
        "{text}"
    );
    let spaces = lines(1..=20).replace("line 8\n", "line   8 \n");
    assert_eq!(self::hunk(plain(MIDDLE, &spaces)).only, Some(Only::Whitespace));
}

#[test]
fn case_06_only_whitespace_is_not_said_where_a_line_was_added_too() {
    // At the end and at the start, where a line more moves the hunk from its place; in the middle it would move along.
    let end = "--- a/x\n+++ b/x\n@@ -17,4 +17,4 @@\n line 17\n line 18\n line 19\n-line 20\n+LINE 20\n";
    let start = "--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n-line 1\n+LINE 1\n line 2\n line 3\n line 4\n";
    let whole = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-line 1\n-line 2\n+LINE 1\n+LINE 2\n";
    for (patch, count, more) in
        [(end, 20, ["", "line 21\n"]), (start, 20, ["licence\n", ""]), (whole, 2, ["", "line 3\n"])]
    {
        for (from, to, only) in [
            ("line 2\n", "line  2\n", Only::Whitespace),
            ("line 18\n", "line  18\n", Only::Whitespace),
            ("\n", "\r\n", Only::LineEndings),
        ] {
            let changed = lines(1..=count).replace(from, to);
            let touched =
                !matches!(judged(patch.as_bytes(), Some(changed.as_bytes()), None), Verdict::Apply { .. });
            if touched {
                assert_eq!(hunk(plain(patch, &changed)).only, Some(only), "{changed}");
                let [above, below] = more;
                let added = format!("{above}{changed}{below}");
                assert_eq!(hunk(plain(patch, &added)).only, None, "{added}");
            }
        }
    }
    let spaces = lines(1..=20).replace("line 8\n", "line   8 \n");
    assert_eq!(hunk(plain(MIDDLE, &format!("above\n{spaces}"))).only, Some(Only::Whitespace));
    assert_eq!(hunk(plain(MIDDLE, &spaces.replace("line 9\n", "line 9\nadded\n"))).only, None);
}

#[test]
fn case_07_asymmetric_context_in_mid_file_needs_a_known_hash_and_is_warned_of() {
    let patch = "--- a/x\n+++ b/x\n@@ -8,4 +8,4 @@\n line 8\n line 9\n-line 10\n+LINE 10\n line 11\n";
    let file = lines(1..=20);
    assert_eq!(hunk(plain(patch, &file)).why, Why::NotAtEnd(8));
    let after = file.replace("line 10\n", "LINE 10\n");
    let verdict = judged(patch.as_bytes(), Some(file.as_bytes()), known(&file, &after));
    assert_eq!(applied(verdict), (after, 0));
    let early = "--- a/x\n+++ b/x\n@@ -9,4 +9,4 @@\n line 9\n-line 10\n+LINE 10\n line 11\n line 12\n";
    assert_eq!(lint(early.as_bytes(), Origin::User).unwrap().warnings[0].rule, "asymmetric-context");
    assert_eq!(lint(early.as_bytes(), Origin::Shipped).unwrap_err().rule, "asymmetric-context");
}

#[test]
fn case_08_a_hunk_from_line_1_belongs_to_the_start_unless_the_hash_is_known() {
    let patch = "--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n line 1\n line 2\n-line 3\n+LINE 3\n line 4\n line 5\n"
        .replace("-1,4 +1,4", "-1,5 +1,5");
    let file = format!("licence\n{}", lines(1..=20));
    assert_eq!(hunk(plain(&patch, &file)).why, Why::NotAtStart(2));
    let after = file.replace("line 3\n", "LINE 3\n");
    let verdict = judged(patch.as_bytes(), Some(file.as_bytes()), known(&file, &after));
    assert_eq!(applied(verdict), (after, 1));
}

#[test]
fn case_11_two_places_and_none_expected_is_ambiguous() {
    let block = lines(7..=13);
    let file = format!("{}{block}between\n{block}", lines(1..=3));
    assert_eq!(hunk(plain(MIDDLE, &file)).why, Why::Ambiguous(vec![4, 12]));
    // At the stated line it is what GNU patch and git choose, too.
    let file = format!("{}more\n{block}", lines(1..=20));
    assert_eq!(applied(plain(MIDDLE, &file)).1, 0);
}

#[test]
fn case_11_a_carried_offset_that_git_would_not_follow_is_ambiguous() {
    // A block at 5 and again at 20, which is meant. With 25 lines above, git takes the first, GNU patch the second.
    let block = "{\n  a\n  b\n  c\n  d\n  e\n}\n";
    let patch = "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n line 2\n-line 3\n+LINE 3\n line 4\n@@ -20,7 +20,7 @@\n {\n   a\n   b\n-  \
                 c\n+  C\n   d\n   e\n }\n";
    let file = format!("{}{block}{}{block}{}", lines(1..=4), lines(12..=19), lines(27..=40));
    assert_eq!(applied(plain(patch, &file)).1, 0);
    let shifted = format!("{}{file}", "new\n".repeat(25));
    assert!(matches!(hunk(plain(patch, &shifted)).why, Why::Ambiguous(_)));
}

#[test]
fn case_11_an_end_that_git_does_not_see_is_ambiguous() {
    // Less context after than before: for GNU patch the end of the file, for git any place, the stated line first.
    let patch = "--- a/x\n+++ b/x\n@@ -4,4 +4,5 @@\n a\n b\n c\n+new\n d\n";
    let block = "a\nb\nc\nd\n";
    let file = format!("1\n2\n3\n{block}");
    assert_eq!(applied(plain(patch, &file)).0, file.replace("c\n", "c\nnew\n"));
    assert_eq!(hunk(plain(patch, &format!("{file}4\n{block}"))).why, Why::Ambiguous(vec![4, 9]));
}

#[test]
fn case_12_a_missing_file_is_said_to_be_missing() {
    assert_eq!(conflict(judged(MIDDLE.as_bytes(), None, None)), Conflict::Missing);
}

#[test]
fn case_23_an_lf_patch_on_a_crlf_file_is_refused_with_that_reason() {
    let file = lines(1..=20).replace('\n', "\r\n");
    assert_eq!(hunk(plain(MIDDLE, &file)).only, Some(Only::LineEndings));
}

#[test]
fn case_24_a_crlf_patch_fits_a_crlf_file_byte_for_byte() {
    let patch = MIDDLE.replace('\n', "\r\n");
    let file = lines(1..=20).replace('\n', "\r\n");
    assert_eq!(applied(plain(&patch, &file)).0, file.replace("line 10\r", "LINE 10\r"));
    assert_eq!(lint(patch.as_bytes(), Origin::Shipped).unwrap_err().rule, "carriage-return");
}

#[test]
fn case_25_a_crlf_patch_on_an_lf_file_is_refused_with_that_reason() {
    let hunk = hunk(plain(&MIDDLE.replace('\n', "\r\n"), &lines(1..=20)));
    assert_eq!(hunk.only, Some(Only::LineEndings));
}

#[test]
fn case_26_a_mismatched_newline_at_the_end_is_refused_with_that_reason() {
    let with = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n";
    assert_eq!(hunk(plain(with, "one\ntwo")).only, Some(Only::FinalNewline));
    let without = format!("{with}\\ No newline at end of file\n");
    assert_eq!(hunk(plain(&without, "one\ntwo\n")).only, Some(Only::FinalNewline));
    assert_eq!(applied(plain(&without, "one\ntwo")).0, "ONE\ntwo");
    let foreign = format!("{with}\\ Kein Zeilenumbruch am Dateiende.\n");
    assert_eq!(applied(plain(&foreign, "one\ntwo")).0, "ONE\ntwo");
}

const EMPTYING: &str = "--- a/x\n+++ b/x\n@@ -1,2 +0,0 @@\n-one\n-two\n";

#[test]
fn case_28_an_empty_result_stays_an_empty_file() {
    assert_eq!(applied(plain(EMPTYING, "one\ntwo\n")).0, "");
    assert_eq!(plain(EMPTYING, ""), ALREADY);
}

#[test]
fn case_29_deletion_by_dev_null_or_by_time_stamp() {
    let git = EMPTYING.replace("+++ b/x", "+++ /dev/null");
    let gnu = EMPTYING.replace("+++ b/x", "+++ b/x\t1970-01-01 01:00:00.000000000 +0100");
    for patch in [&git, &gnu] {
        let verdict = judged(patch.as_bytes(), Some(b"one\ntwo\n"), None);
        assert!(matches!(verdict, Verdict::Apply { content: None, .. }), "{verdict:?}");
        assert_eq!(judged(patch.as_bytes(), None, None), Verdict::Already { verified: true });
    }
}

#[test]
fn case_30_a_file_with_more_lines_is_not_deleted() {
    let patch = EMPTYING.replace("+++ b/x", "+++ /dev/null");
    assert_eq!(hunk(plain(&patch, "one\ntwo\nthree\n")).why, Why::NotTheWholeFile);
}

#[test]
fn case_31_creation_over_a_file_with_the_same_or_other_content() {
    let git = "diff --git a/x b/x\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n";
    let gnu = "--- a/x\t1970-01-01 00:00:00.000000000 +0000\n+++ b/x\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+one\n";
    for patch in [git, gnu] {
        assert_eq!(applied(judged(patch.as_bytes(), None, None)).0, "one\n");
        assert_eq!(plain(patch, "one\n"), Verdict::Already { verified: true });
        assert_eq!(conflict(plain(patch, "two\n")), Conflict::Exists);
        assert_eq!(conflict(plain(patch, "")), Conflict::Exists);
    }
}

#[test]
fn case_36_bytes_that_are_no_text_pass_through() {
    let patch = b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n \xff\x00one\n-\xfe\n+\x00\xfd\n three\n";
    let Verdict::Apply { content, .. } = judged(patch, Some(b"\xff\x00one\n\xfe\nthree\n"), None) else {
        panic!()
    };
    assert_eq!(content.unwrap(), b"\xff\x00one\n\x00\xfd\nthree\n");
}
