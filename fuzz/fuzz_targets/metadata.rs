//! Any bytes as METADATA: headers with lower-case keys and no line breaks in them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (key, value) in rocm_fixup::dist::parse_headers(bytes).headers {
        assert_eq!(key, key.to_ascii_lowercase());
        assert!(!key.contains(['\n', '\r']) && !value.contains(['\n', '\r']));
    }
});
