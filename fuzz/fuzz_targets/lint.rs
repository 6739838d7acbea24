//! Any bytes: the lint answers, and what it lets through as ours it lets through as a user's too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::patch::lint::{Origin, lint};

fuzz_target!(|patch: &[u8]| {
    let shipped = lint(patch, Origin::Shipped);
    let user = lint(patch, Origin::User);
    assert!(shipped.is_err() || user.is_ok());
    if let Ok(linted) = user {
        assert!(!linted.sections.is_empty());
    }
});
