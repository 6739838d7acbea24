//! Any text: a recipe or mistakes, each with a place in the text; what is read survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::recipe::read;

fuzz_target!(|text: &str| match read(text) {
    Ok(recipe) => {
        if let Ok(written) = toml::to_string(&recipe) {
            assert_eq!(read(&written).ok().as_ref(), Some(&recipe));
        }
    }
    Err(mistakes) => {
        assert!(!mistakes.is_empty());
        assert!(mistakes.iter().all(|m| m.line >= 1 && m.line <= text.matches('\n').count() + 1));
    }
});
