//! What the built files must be like: a static binary, and a probe that old systems can load.

use std::fs::File;
use std::path::Path;

use rocm_fixup::elf::{Facts, read};

fn facts(path: &str) -> Facts {
    read(&File::open(path).unwrap()).unwrap()
}

fn assert_static(binary: &str) {
    let facts = facts(binary);
    assert!(facts.needed.is_empty(), "{:?}", facts.needed);
    assert!(!has_interpreter(&std::fs::read(binary).unwrap()), "PT_INTERP");
}

#[test]
fn the_binary_needs_no_loader_and_no_library() {
    assert_static(env!("CARGO_BIN_EXE_rocm-fixup"));
}

/// The release takes minutes to build: `.ci/run` builds it and names it here.
#[test]
fn the_release_is_static_and_small() {
    let Ok(release) = std::env::var("ROCM_FIXUP_RELEASE") else { return };
    assert_static(&release);
    let size = std::fs::metadata(&release).unwrap().len();
    assert!(size <= 6 << 20, "{size} bytes");
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
