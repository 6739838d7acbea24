//! What a path says of itself: whether it is a library's or a program's name. By bytes, as every path of a tree is looked
//! at; paths are relative and spelled out as [`crate::model::RelPath`]'s are. No I/O.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// `lib*/` of a tree, any `lib/` or `lib64/`, as `llvm/lib/`, or below one.
#[must_use]
pub fn is_below_lib(path: &Path) -> bool {
    let mut names = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
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
pub fn is_program_path(path: &Path) -> bool {
    ["bin", "lib/llvm/bin", "libexec"].iter().any(|directory| {
        let below = path.as_os_str().as_bytes().strip_prefix(directory.as_bytes());
        below.is_some_and(|below| matches!(below, [] | [b'/', ..]))
    })
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
    fn programs_are_told_from_others() {
        for good in ["bin", "bin/x", "lib/llvm/bin/clang", "libexec/a/b"] {
            assert!(is_program_path(Path::new(good)), "{good}");
        }
        for bad in ["", "binary", "lib/bin/x", "lib/llvm/bins/x", "llvm/bin/x", "libexecs/x", "x/libexec/y"] {
            assert!(!is_program_path(Path::new(bad)), "{bad}");
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
