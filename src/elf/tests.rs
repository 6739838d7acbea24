//! Real objects by cc, and what a liar could make of them.
#![expect(clippy::disallowed_methods, reason = "tests make their own input")]

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::stat::open_regular;

fn cc(dir: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (input, output) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&input, source).unwrap();
    let done = Command::new("cc").arg(&input).args(options).arg("-o").arg(&output).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    output
}

fn facts_of(path: &Path) -> Result<Facts, NotElf> {
    read(&open_regular(path).unwrap())
}

const LIBRARY: &str = "#include <stdio.h>\nint f(void) { return puts(\"x\"); }";

#[test]
fn a_library_tells_its_soname_needs_and_versions() {
    let dir = tempfile::tempdir().unwrap();
    let library = cc(dir.path(), "libX.so.3", LIBRARY, &["-shared", "-fPIC", "-Wl,-soname,libX.so.3"]);
    let facts = facts_of(&library).unwrap();
    assert!(facts.dynamic && !facts.executable);
    assert_eq!(facts.soname.as_deref(), Some(&b"libX.so.3"[..]));
    assert!(facts.needed.contains(&b"libc.so.6".to_vec()), "{facts:?}");
    assert!(facts.versions.iter().any(|(f, v)| f == b"libc.so.6" && v.starts_with(b"GLIBC_2.")), "{facts:?}");
}

#[test]
fn a_pie_program_is_an_executable_and_so_is_a_static_one() {
    let dir = tempfile::tempdir().unwrap();
    let source = "int main(void) { return 0; }";
    for options in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-static-pie", "-fPIE"], &["-static"]] {
        let program = cc(dir.path(), "program.so", source, options);
        assert!(facts_of(&program).unwrap().executable, "{options:?}");
    }
}

#[test]
fn text_and_short_files_are_not_elf() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.so");
    for bytes in
        [&b""[..], b"\x7fELF", b"INPUT(libX.so.3) /* GNU ld script */", b"\x7fELF\x09aaaaaaaaaaaaaaaaaaaaaa"]
    {
        std::fs::write(&path, bytes).unwrap();
        assert!(facts_of(&path).is_err());
    }
}

/// Every byte of the headers and the dynamic section set to extreme values: an answer, no panic, no large allocation.
#[test]
fn damaged_headers_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let library = cc(dir.path(), "libX.so.3", LIBRARY, &["-shared", "-fPIC", "-s", "-Wl,-soname,libX.so.3"]);
    let good = std::fs::read(&library).unwrap();
    let dynamic = good.windows(9).position(|w| w == b"libX.so.3").unwrap();
    let path = dir.path().join("bad.so");
    std::fs::write(&path, &good).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let head = 0..good.len().min(1024);
    for at in head.chain(dynamic..dynamic + 64).chain((1024..good.len()).step_by(7)) {
        for value in [0x00, 0x7f, 0xff] {
            file.write_all_at(&[value], at as u64).unwrap();
            let _ = facts_of(&path);
        }
        file.write_all_at(&good[at..=at], at as u64).unwrap();
    }
    for length in (0..good.len()).rev().step_by(97) {
        file.set_len(length as u64).unwrap();
        let _ = facts_of(&path);
    }
}

/// Sizes and counts in the headers of a large sparse file may claim gigabytes: they are refused, not allocated.
#[test]
fn claims_beyond_the_budget_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let library = cc(dir.path(), "libX.so.3", LIBRARY, &["-shared", "-fPIC"]);
    let file = std::fs::OpenOptions::new().write(true).open(&library).unwrap();
    file.set_len(20 << 30).unwrap();
    // The size in the file of the PT_DYNAMIC segment, wherever that is among the headers.
    let mut bytes = [0; 4096];
    open_regular(&library).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let header = (0..16).map(|n| 64 + 56 * n).find(|&at| bytes[at..at + 4] == [2, 0, 0, 0]).unwrap();
    file.write_all_at(&(15_u64 << 30).to_le_bytes(), header as u64 + 32).unwrap();
    assert!(facts_of(&library).unwrap_err().0.starts_with("damaged ELF file"));
}
