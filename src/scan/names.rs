//! What a path says of itself: whether it is a library's or a program's name. No I/O.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::model::RelPath;

/// `lib*/` of a tree, any `lib/` or `lib64/`, as `llvm/lib/`, or below one.
#[must_use]
pub fn is_below_lib(path: &Path) -> bool {
    let mut names = path.components().map(|part| part.as_os_str().as_bytes());
    let top = names.next();
    top.is_some_and(|top| top.starts_with(b"lib")) || names.any(|name| name == b"lib" || name == b"lib64")
}

/// `*.so` and `*.so.N…`.
#[must_use]
pub fn is_library_name(name: &[u8]) -> bool {
    (0..name.len()).any(|at| match name[at..].strip_prefix(b".so") {
        Some([]) => at > 0,
        Some([b'.', digit, ..]) => at > 0 && digit.is_ascii_digit(),
        _ => false,
    })
}

/// Where executables live, which are never replaced: `bin/`, `lib/llvm/bin/`, `libexec/` (facts.md section 4).
#[must_use]
pub fn is_program_path(path: &RelPath) -> bool {
    ["bin", "lib/llvm/bin", "libexec"].iter().any(|directory| path.as_path().starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_libraries_are_told_from_others() {
        for good in ["lib", "lib64/k", "libexec", "llvm/lib", "llvm/lib64/k", "a/b/lib"] {
            assert!(is_below_lib(Path::new(good)), "{good}");
        }
        for bad in ["", "share/x", "bin", "llvm/libs", "llvm/libexec", "include/lib.d"] {
            assert!(!is_below_lib(Path::new(bad)), "{bad}");
        }
    }

    #[test]
    fn library_names_are_told_from_others() {
        for good in
            ["libX.so", "libX.so.3", "libX.so.3.5.0", "a.so.so", "x.so.debug.so.1", "amd.cpython-312.so"]
        {
            assert!(is_library_name(good.as_bytes()), "{good}");
        }
        for bad in ["libX.a", ".so", ".so.1", "libX.so.", "libX.so.x", "libX.sox", "so", "libX.so.conf", ""] {
            assert!(!is_library_name(bad.as_bytes()), "{bad}");
        }
    }
}
