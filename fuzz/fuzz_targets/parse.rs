//! Any bytes at every strip level: names stay below the root, and no hunk is lost between lint and parser.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::patch::lint::{Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};

fuzz_target!(|patch: &[u8]| {
    let Ok(linted) = lint(patch, Origin::User) else { return };
    for strip in [Strip::FromHeader, Strip::Exactly(0), Strip::Exactly(1), Strip::Exactly(7)] {
        let Ok(files) = parse(&linted, strip) else { continue };
        for (file, section) in files.iter().zip(&linted.sections) {
            assert_eq!(file.patch.hunks().len(), section.hunk_lines.len());
            assert!(!file.path.as_path().is_absolute());
            assert!(file.path.as_path().components().all(|c| matches!(c, std::path::Component::Normal(_))));
        }
    }
});
