//! Any bytes as a journal record: refused, or the very bytes that writing it again gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::journal::{Record, parse};
use rocm_fixup::model::Digest;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse::<Record>(bytes);
    // Past the checksum: what a stranger who can compute one might plant.
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut framed = format!("rocm-fixup-journal 1 {} {}\n", body.len(), Digest::of(body).to_hex()).into_bytes();
    framed.extend_from_slice(body);
    framed.push(b'\n');
    if let Ok(record) = parse::<Record>(&framed) {
        for change in &record.plan.changes {
            assert!(change.at.path.as_path().is_relative());
            assert!(!change.at.path.as_path().components().any(|c| c.as_os_str() == ".."));
        }
    }
});
