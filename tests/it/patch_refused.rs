//! The cases of patching.md, section 3, column "ours", in which the patch itself is refused: names, counts, binary changes,
//! what is cut short or no patch at all.

use rocm_fixup::patch::conflict::Conflict;
use rocm_fixup::patch::fit::Why;
use rocm_fixup::patch::lint::{Mistake, Origin, SIZE_CAP, lint};
use rocm_fixup::patch::parse::{Strip, parse};

use crate::patch_cases::{MIDDLE, applied, conflict, hunk, judged, lines, plain};

/// The rule that lint or parse refuses a patch for.
fn refused(patch: impl AsRef<[u8]>) -> &'static str {
    refusal(patch.as_ref(), Strip::FromHeader).rule
}

fn refusal(patch: &[u8], strip: Strip) -> Mistake {
    match lint(patch, Origin::User) {
        Err(mistake) => mistake,
        Ok(linted) => parse(&linted, strip).unwrap_err(),
    }
}

#[test]
fn case_09_too_high_a_strip_level_is_an_error() {
    assert_eq!(refusal(MIDDLE.as_bytes(), Strip::Exactly(2)).rule, "strip");
}

#[test]
fn case_10_the_strip_level_is_never_guessed() {
    let patch = MIDDLE.replace("a/x", "pkg.orig/x").replace("b/x", "pkg/x");
    assert_eq!(refused(&patch), "strip");
    let linted = lint(patch.as_bytes(), Origin::User).unwrap();
    assert_eq!(parse(&linted, Strip::Exactly(1)).unwrap()[0].path.to_string(), "x");
}

#[test]
fn case_18_dot_dot_in_a_name_is_refused() {
    for name in ["../x", "b/../../x", "b/.."] {
        assert_eq!(refused(MIDDLE.replace("a/x", name).replace("b/x", name)), "name", "{name}");
    }
}

#[test]
fn case_19_absolute_names_are_refused_at_every_strip_level() {
    let patch = MIDDLE.replace("a/x", "/etc/x").replace("b/x", "/etc/x");
    for level in 0..3 {
        assert_eq!(refusal(patch.as_bytes(), Strip::Exactly(level)).rule, "absolute-name");
    }
}

#[test]
fn case_20_names_that_need_folding_are_refused() {
    for name in ["//sub/x", "/./x", "/sub//x"] {
        let patch = MIDDLE.replace("a/x", &format!("a{name}")).replace("b/x", &format!("b{name}"));
        assert_eq!(refused(&patch), "name", "{name}");
    }
}

#[test]
fn case_27_a_patch_without_its_last_newline_is_refused() {
    assert_eq!(refused(MIDDLE.trim_end()), "cut-short");
}

#[test]
fn case_32_renames_are_not_supported() {
    let head = "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n";
    assert_eq!(refused(head), "unsupported");
    assert_eq!(refused(format!("{head}{MIDDLE}")), "unsupported");
    assert_eq!(refused("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"), "unsupported");
}

#[test]
fn case_33_two_different_names_are_refused() {
    assert_eq!(refused(MIDDLE.replace("a/x", "a/y")), "two-names");
}

#[test]
fn case_34_a_binary_patch_is_refused() {
    assert_eq!(
        refused("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKc$\n"),
        "binary"
    );
    assert_eq!(refused("Binary files a/x and b/x differ\n"), "binary");
}

#[test]
fn case_35_a_binary_change_beside_text_is_not_skipped() {
    assert_eq!(refused(format!("{MIDDLE}Binary files a/y and b/y differ\n")), "binary");
}

#[test]
fn case_37_what_is_too_large_is_refused() {
    let large = vec![b'\n'; SIZE_CAP + 1];
    assert_eq!(conflict(judged(MIDDLE.as_bytes(), Some(&large), None)), Conflict::TooLarge);
    assert_eq!(refused(&large), "size");
}

#[test]
fn case_38_a_hunk_cut_short_is_refused() {
    assert_eq!(refused(MIDDLE.replace(" line 13\n", "")), "cut-short");
}

#[test]
fn case_39_a_second_file_cut_short_stops_everything() {
    assert_eq!(refused(format!("{MIDDLE}{}", MIDDLE.replace(" line 12\n line 13\n", ""))), "cut-short");
}

#[test]
fn case_40_wrong_counts_are_refused() {
    assert_eq!(refused(MIDDLE.replace("-7,7 +7,7", "-7,8 +7,8")), "cut-short");
    assert_eq!(refused(MIDDLE.replace("-7,7 +7,7", "-7,6 +7,6")), "bad-count");
    assert_eq!(refused(MIDDLE.replace("-7,7 +7,7", "-7,7 +7,8")), "cut-short");
}

#[test]
fn case_41_no_hunk_is_lost() {
    let more = "@@ -17,2 +17,3 @@\n line 17\n+new\n line 18\n";
    assert_eq!(refused(format!("{MIDDLE}junk\n{more}")), "junk");
    assert_eq!(refused(format!("{MIDDLE}\n{more}")), "lost-hunk");
    let small = MIDDLE.replace("-7,7 +7,7", "-7,6 +7,6");
    assert_eq!(refused(format!("{small}{more}")), "bad-count");
    assert_eq!(refused(format!("{MIDDLE}-- \n{more}")), "lost-hunk");
}

#[test]
fn case_42_an_empty_patch_is_an_error() {
    assert_eq!(refused(""), "empty");
}

#[test]
fn case_43_garbage_and_zero_hunks_are_errors() {
    assert_eq!(refused("<!DOCTYPE html>\n<title>404</title>\n"), "no-hunks");
    assert_eq!(refused("--- a/x\n+++ b/x\n"), "no-hunks");
    assert_eq!(refused(format!("--- a/y\n+++ b/y\n{MIDDLE}")), "no-hunks");
    assert_eq!(refused("*** a/x\n--- b/x\n***************\n*** 1 ****\n"), "context-diff");
    assert_eq!(refused(format!("\u{feff}{MIDDLE}")), "byte-order-mark");
}

#[test]
fn case_44_hunks_in_the_wrong_order_are_refused() {
    let early = "@@ -1,3 +1,3 @@\n line 1\n-line 2\n+LINE 2\n line 3\n";
    assert_eq!(refused(format!("{MIDDLE}{early}")), "order");
}

#[test]
fn case_45_hunks_without_context_are_refused() {
    assert_eq!(refused("--- a/x\n+++ b/x\n@@ -5,0 +6 @@\n+new\n"), "no-context");
    assert_eq!(refused("--- a/x\n+++ b/x\n@@ -5 +4,0 @@\n-line 5\n"), "no-context");
    assert_eq!(hunk(plain("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+new\n", "old\n")).why, Why::NotTheWholeFile);
    // The whole of a one-line file needs no context.
    let whole = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n";
    assert_eq!(applied(plain(whole, "old\n")).0, "new\n");
    assert_eq!(hunk(plain(whole, "old\nmore\n")).why, Why::NotTheWholeFile);
}

#[test]
fn case_46_a_mail_around_the_patch_is_allowed_for_users_only() {
    let mail = format!(
        "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n--- not a header\n---\n x | 2 +-\n\n{MIDDLE}-- \n2.40.1\n\n"
    );
    assert_eq!(applied(plain(&mail, &lines(1..=20))).1, 0);
    assert_eq!(lint(mail.as_bytes(), Origin::Shipped).unwrap_err().rule, "junk");
    assert!(lint(MIDDLE.as_bytes(), Origin::Shipped).is_ok());
}
