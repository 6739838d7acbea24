//! Any bytes as a shared object: facts or a refusal, in bounded time and memory.
#![no_main]

use std::io::Write as _;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let _ = rocm_fixup::elf::read(&file);
});
