//! What holds for every patch: taking back what was applied gives the old file, applying twice is applying once, and
//! a patch that was tampered with changes a known file only into the known result.

use proptest::prelude::*;

use rocm_fixup::patch::lint::{Linted, Origin, lint};
use rocm_fixup::patch::parse::{FilePatch, Strip, parse};
use rocm_fixup::patch::sha::Sha256;
use rocm_fixup::patch::verdict::{Known, Verdict, judge};
use rocm_fixup::pyenv::{Edit, Record};

fn file() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        3 => prop::sample::select(vec!["", "{", "}", "x = 1", "  ", "--- a", "+++ b", "@@ -1 +1 @@", "\\ no"]),
        1 => prop::sample::select(vec!["same", "other", "third", "fourth", "\t", "\r"]),
    ];
    (prop::collection::vec(line, 0..40), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join("\n");
        if ends && !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    })
}

fn made(old: &[u8], new: &[u8], context: usize) -> Vec<u8> {
    let mut options = diffy::DiffOptions::new();
    options.set_context_len(context).set_original_filename("a/f").set_modified_filename("b/f");
    options.create_patch_bytes(old, new).to_bytes()
}

fn with<T>(patch: &[u8], job: impl FnOnce(&FilePatch<'_>) -> T) -> Option<T> {
    let linted: Linted<'_> = lint(patch, Origin::User).ok()?;
    let files = parse(&linted, Strip::FromHeader).ok()?;
    files.first().map(job)
}

fn known(old: &[u8], new: &[u8]) -> Option<Known> {
    Some(Known { before: Some(Sha256::of(old)), after: Some(Sha256::of(new)) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_of_known_files_applies_once_and_comes_back(old in file(), new in file(), context in 1_usize..5) {
        prop_assume!(old != new);
        let patch = made(&old, &new, context);
        let known = known(&old, &new);
        let done = with(&patch, |p| {
            let forward = judge(Some(&old), p, known);
            let again = judge(Some(&new), p, known);
            let back = p.reverse();
            let reverse = judge(Some(&new), &back, known.map(Known::reversed));
            (forward, again, reverse)
        });
        // The lint may refuse a patch whose hunks have no context; what it lets through must be exact.
        if let Some((forward, again, reverse)) = done {
            prop_assert!(matches!(&forward, Verdict::Apply { content, offset: 0, verified: true } if content.as_ref() == Some(&new)), "{forward:?}");
            prop_assert_eq!(again, Verdict::Already { verified: true });
            prop_assert!(matches!(&reverse, Verdict::Apply { content, verified: true, .. } if content.as_ref() == Some(&old)), "{reverse:?}");
        }
    }

    #[test]
    fn of_unknown_files_too_what_is_applied_comes_back_or_is_left(old in file(), new in file(), other in file()) {
        prop_assume!(old != new);
        let patch = made(&old, &new, 3);
        for file in [&old, &other] {
            let done = with(&patch, |p| match judge(Some(file), p, None) {
                Verdict::Apply { content: Some(content), .. } => {
                    Some((judge(Some(&content), p, None), judge(Some(&content), &p.reverse(), None)))
                }
                _ => None,
            });
            if let Some(Some((again, back))) = done {
                prop_assert!(!matches!(&again, Verdict::Apply { .. }), "applied twice: {again:?}");
                match back {
                    Verdict::Apply { content, .. } => prop_assert_eq!(content.as_ref(), Some(file)),
                    Verdict::Conflict(_) => {}
                    Verdict::Already { .. } => prop_assert!(false, "called not applied right after it was applied"),
                }
            }
        }
    }

    #[test]
    fn in_repetitive_files_what_is_applied_where_it_says_is_found_and_comes_back(
        mut lines in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 12..40),
        at in any::<prop::sample::Index>(),
        how in 0..3,
    ) {
        let text = |lines: &[&str]| lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect::<Vec<u8>>();
        let old = text(&lines);
        let at = at.index(lines.len());
        match how {
            0 => lines[at] = "new",
            1 => lines.insert(at, "new"),
            _ => drop(lines.remove(at)),
        }
        let new = text(&lines);
        let patch = made(&old, &new, 3);
        let done = with(&patch, |p| match judge(Some(&old), p, None) {
            Verdict::Apply { content: Some(content), offset: 0, .. } => {
                Some((judge(Some(&content), p, None), judge(Some(&content), &p.reverse(), None), content))
            }
            _ => None,
        });
        if let Some(Some((again, back, content))) = done {
            prop_assert_eq!(content, new);
            prop_assert_eq!(again, Verdict::Already { verified: false });
            prop_assert!(matches!(&back, Verdict::Apply { content, .. } if content.as_ref() == Some(&old)), "{back:?}");
        }
    }

    #[test]
    fn a_tampered_patch_changes_a_known_file_into_the_known_result_or_not_at_all(
        old in file(), new in file(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        prop_assume!(old != new);
        let mut patch = made(&old, &new, 3);
        prop_assume!(!patch.is_empty());
        let at = at.index(patch.len());
        if cut { patch.truncate(at) } else { patch[at] = byte }
        let verdict = with(&patch, |p| judge(Some(&old), p, known(&old, &new)));
        if let Some(Verdict::Apply { content, .. }) = verdict {
            prop_assert_eq!(content, Some(new));
        }
    }

    #[test]
    fn no_bytes_make_the_lint_or_the_judgement_panic(patch in prop::collection::vec(any::<u8>(), 0..400), file in file()) {
        let mut text = b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n".to_vec();
        text.extend(patch);
        with(&text, |p| (judge(Some(&file), p, None), judge(None, p, None)));
    }

    #[test]
    fn a_record_comes_back_row_for_row(rows in prop::collection::btree_map("[a-c/,\"]{1,6}", any::<u32>(), 1..12), crlf in any::<bool>()) {
        let ending = if crlf { "\r\n" } else { "\n" };
        let edits: Vec<(Vec<u8>, Vec<u8>)> = rows.iter().map(|(path, n)| (path.clone().into_bytes(), n.to_le_bytes().to_vec())).collect();
        let created: Vec<(&[u8], Edit<'_>)> = edits.iter().map(|(p, c)| (p.as_slice(), Edit::Created(c))).collect();
        let seed = format!("zz/RECORD,,{ending}");
        let record = Record::new(seed.as_bytes()).unwrap().edited(&created);
        let changed: Vec<(&[u8], Edit<'_>)> = edits.iter().map(|(p, _)| (p.as_slice(), Edit::Changed(b"other"))).collect();
        let after = Record::new(&record).unwrap().edited(&changed);
        prop_assert_eq!(Record::new(&after).unwrap().edited(&created), record.clone());
        let deleted: Vec<(&[u8], Edit<'_>)> = edits.iter().map(|(p, _)| (p.as_slice(), Edit::Deleted)).collect();
        prop_assert_eq!(Record::new(&record).unwrap().edited(&deleted), seed.into_bytes());
    }
}
