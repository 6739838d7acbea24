//! The version of the image's C library where no interpreter tells it: read out of `libc.so.6`, not run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Where the loader of this architecture looks first, on Debian and on Red Hat alike.
const PLACES: [&str; 6] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
];
/// A libc has two megabytes.
const MOST: u64 = 32 * 1024 * 1024;

/// `2.39`; `None` where no libc is found that says so.
pub fn version_of_the_image() -> Option<String> {
    PLACES.iter().find_map(|place| version_of(Path::new(place)))
}

fn version_of(libc: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(libc).ok()?;
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    version_in(&bytes)
}

/// The banner reads "GNU C Library (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.".
fn version_in(bytes: &[u8]) -> Option<String> {
    let banner = find(bytes, b"GNU C Library ")?;
    let line = bytes[banner..].split(|&byte| byte == b'\n').next()?;
    let version = &line[find(line, b"release version ")? + b"release version ".len()..];
    let text: String =
        version.iter().map(|&b| char::from(b)).take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let text = text.trim_end_matches('.');
    (!text.is_empty()).then(|| text.to_owned())
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banner_tells_the_version() {
        let banner =
            b"\0GNU C Library (Ubuntu GLIBC 2.39-0ubuntu8.4) stable release version 2.39.\nCopyright\0";
        assert_eq!(version_in(banner).as_deref(), Some("2.39"));
        assert_eq!(version_in(b"GNU C Library (x) development\n"), None);
    }

    #[test]
    fn the_libc_of_this_machine_says_what_its_linker_knows() {
        let found = version_of_the_image().unwrap();
        assert!(found.starts_with("2."), "{found}");
    }
}
