//! Any bytes as a device manifest: links below the devel tree, or a refusal.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = rocm_fixup::manifest::parse(bytes, Path::new("_rocm_sdk_devel"));
});
