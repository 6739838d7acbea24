//! A patch, a NUL-free separator line `====`, and a file: the judgement answers, and what it applies isn't applied twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::patch::lint::{Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};
use rocm_fixup::patch::verdict::{Verdict, judge};

fuzz_target!(|input: &[u8]| {
    let mark = b"\n====\n";
    let Some(at) = input.windows(mark.len()).position(|w| w == mark) else { return };
    let (patch, file) = (&input[..at + 1], &input[at + mark.len()..]);
    let Ok(linted) = lint(patch, Origin::User) else { return };
    let Ok(files) = parse(&linted, Strip::Exactly(0)) else { return };
    for change in &files {
        let _ = judge(None, change, None);
        // With wrong start lines nothing is promised about the way back.
        let tidy = linted.warnings.is_empty();
        if let Verdict::Apply { content: Some(content), .. } = judge(Some(file), change, None)
            && tidy
        {
            assert!(!matches!(judge(Some(&content), change, None), Verdict::Apply { .. }));
            if let Verdict::Apply { content: back, .. } = judge(Some(&content), &change.reverse(), None) {
                assert_eq!(back.as_deref(), Some(file));
            }
        }
    }
});
