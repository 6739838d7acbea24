//! What the built files must be like: a static binary, and a probe that old systems can load.

use std::fs::File;
use std::path::Path;

use rocm_fixup::elf::{Facts, read};

fn facts(path: &str) -> Facts {
    read(&File::open(path).unwrap()).unwrap()
}

#[test]
fn the_binary_needs_no_loader_and_no_library() {
    let binary = env!("CARGO_BIN_EXE_rocm-fixup");
    let facts = facts(binary);
    assert!(facts.needed.is_empty(), "{:?}", facts.needed);
    let bytes = std::fs::read(binary).unwrap();
    assert!(!has_interpreter(&bytes), "PT_INTERP");
    if !cfg!(debug_assertions) {
        assert!(bytes.len() <= 6 * 1024 * 1024, "{} bytes", bytes.len());
    }
}

fn has_interpreter(elf: &[u8]) -> bool {
    let number =
        |at: usize, len: usize| (0..len).rev().fold(0usize, |n, i| n << 8 | usize::from(elf[at + i]));
    let (offset, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|n| number(offset + n * size, 4) == 3)
}

#[test]
fn the_probe_loads_on_glibc_2_17_and_needs_no_libpython() {
    let probe = env!("ROCM_FIXUP_PROBE_BUILT");
    if std::fs::metadata(probe).unwrap().len() == 0 {
        return;
    }
    let facts = facts(probe);
    for library in &facts.needed {
        let name = String::from_utf8_lossy(library);
        let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
        assert!(known.contains(&&*name), "the probe needs {name}");
    }
    let mut highest = (0, 0);
    for (file, version) in &facts.versions {
        let version = String::from_utf8_lossy(version);
        let Some(number) = version.strip_prefix("GLIBC_") else {
            assert!(version.starts_with("GCC_"), "{version} of {}", String::from_utf8_lossy(file));
            continue;
        };
        let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap());
        highest = highest.max((parts.next().unwrap(), parts.next().unwrap_or(0)));
    }
    assert!(highest > (0, 0), "no version found at all in {}", Path::new(probe).display());
    assert!(highest <= (2, 17), "the probe needs glibc {}.{}", highest.0, highest.1);
}
