//! What the compiled objects of installed distributions were built for: glibc versions, pybind11's internals. Reads
//! files, loads none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use memchr::memmem;

use super::Verdict;
use super::files::{self, Files};
use super::require::{Judged, called};
use crate::discover::Environment;
use crate::elf;
use crate::error::message;
use crate::model::Distribution;
use crate::scan::is_library_name;

/// Objects whose paths are given in a message before "and N more".
const FEW: usize = 3;

/// Whether `glibc` is new enough for each object of `dist`.
pub fn glibc_needs(dist: &Distribution, env: &Environment) -> Judged {
    let Files { there, mut unread, .. } = files::of(dist, &env.site_packages);
    let mut highest: Option<((u32, u32), PathBuf)> = None;
    for path in there {
        let facts = match File::open(&path).and_then(|file| elf::read_or_fail(&file)) {
            Ok(Ok(facts)) => facts,
            Ok(Err(_)) => continue, // text, or no loader would take it
            Err(error) => {
                unread.push(format!("can't read `{}`: {error}", path.display()));
                continue;
            }
        };
        for (_, version) in &facts.versions {
            let Some(version) = glibc_version(version) else { continue };
            if highest.as_ref().is_none_or(|(known, _)| version > *known) {
                highest = Some((version, path.clone()));
            }
        }
    }
    let (verdict, detail) = match highest {
        Some((version, path)) => {
            let (major, minor) = version;
            let wants = format!("{}; `{}` wants GLIBC_{major}.{minor}", called(dist), path.display());
            compared(version, &wants, env.glibc.as_deref())
        }
        None => (Verdict::Ok, format!("{}; none of its files wants a glibc", called(dist))),
    };
    // What wasn't looked at can only want more.
    match verdict {
        Verdict::Ok if !unread.is_empty() => (Verdict::Unproven, unread.join("\n")),
        _ => (verdict, detail),
    }
}

fn compared(wanted: (u32, u32), wants: &str, glibc: Option<&str>) -> Judged {
    let Some(text) = glibc else { return (Verdict::Unproven, format!("{wants}, and no glibc was found")) };
    match number(text) {
        Some(found) if found >= wanted => (Verdict::Ok, format!("{wants}; the image has {text}")),
        Some(_) => (Verdict::Fail, format!("{wants}, and the image has {text}")),
        None => (Verdict::Unproven, format!("{wants}; the image's {text} can't be compared")),
    }
}

/// `GLIBC_2.39` as numbers. `GLIBC_ABI_DT_RELR` came with 2.36; `GLIBC_PRIVATE` has no number.
fn glibc_version(version: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(version).ok()?.strip_prefix("GLIBC_")?;
    if text == "ABI_DT_RELR" { Some((2, 36)) } else { number(text) }
}

fn number(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().unwrap_or(Some(0))?))
}

/// Whether the modules of the named distributions (of all, if none is named) agree on pybind11's internals: those that
/// don't can't pass objects to each other.
pub fn internals(names: &[String], env: &Environment) -> Judged {
    let mut dists = Vec::new();
    let mut absent = Vec::new();
    let mut unread = Vec::new();
    for name in names {
        match env.distribution(name) {
            Ok(Some(dist)) => dists.push(dist),
            Ok(None) => absent.push(name.as_str()),
            Err(why) => unread.push(why),
        }
    }
    if !names.is_empty() && dists.is_empty() && unread.is_empty() {
        return (Verdict::Absent, format!("{} is not installed", absent.join(", ")));
    }
    let mut paths = BTreeSet::new();
    if names.is_empty() {
        // Whatever a recipe wants of all modules is wanted of those that no RECORD lists, too.
        let mut found = files::everywhere(&env.site_packages);
        paths.append(&mut found.there);
        unread.append(&mut found.unread);
    }
    for dist in &dists {
        let mut found = files::of(dist, &env.site_packages);
        paths.append(&mut found.there);
        unread.append(&mut found.unread);
        let gone = found.gone.iter().filter(|path| may_have_internals(path));
        unread.extend(
            gone.map(|path| format!("`{}` is in the RECORD of {}, and gone", path.display(), dist.name)),
        );
    }
    let mut tags: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in paths.into_iter().filter(|path| may_have_internals(path)) {
        match tag(&path) {
            Ok(Some(tag)) => tags.entry(tag).or_default().push(path),
            Ok(None) => {}
            Err(error) => unread.push(message(&error)),
        }
    }
    let mut lines: Vec<String> = tags.iter().map(|(tag, paths)| format!("{tag}: {}", few(paths))).collect();
    if !absent.is_empty() {
        lines.push(format!("not installed: {}", absent.join(", ")));
    }
    lines.extend(unread.iter().cloned());
    match tags.len() {
        0 if unread.is_empty() => (Verdict::Ok, "no module built with pybind11 was found".into()),
        0 => (Verdict::Unproven, lines.join("\n")),
        1 if unread.is_empty() => (Verdict::Ok, lines.join("\n")),
        1 => (Verdict::Unproven, lines.join("\n")),
        several => (
            Verdict::Fail,
            format!("modules were built with {several} different internals\n{}", lines.join("\n")),
        ),
    }
}

fn few(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(FEW).map(|path| format!("`{}`", path.display())).collect();
    let more = paths.len().saturating_sub(FEW);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// Extension modules, and the one library that carries PyTorch's. Gigabytes of kernels are not read.
fn may_have_internals(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let bytes = name.as_bytes();
    let module = !bytes.starts_with(b"lib")
        || bytes.ends_with(b".abi3.so")
        || memmem::find(bytes, b".cpython-").is_some_and(|_| bytes.ends_with(b".so"));
    name == OsStr::new("libtorch_python.so") || module && is_library_name(bytes)
}

/// The name under which a module looks for pybind11's internals, without its frame: `v11_system_libstdcpp_…`.
fn tag(path: &Path) -> Result<Option<String>> {
    const START: &[u8] = b"__pybind11_internals_v";
    const BLOCK: usize = 1 << 20;
    /// No tag is longer.
    const OVERLAP: usize = 256;
    let context = || format!("can't read `{}`", path.display());
    let mut file = File::open(path).with_context(context)?;
    let finder = memmem::Finder::new(START);
    let mut window: Vec<u8> = Vec::with_capacity(BLOCK + OVERLAP);
    loop {
        let keep = window.len().min(OVERLAP);
        window.drain(..window.len() - keep);
        let before = window.len();
        let got =
            Read::by_ref(&mut file).take(BLOCK as u64).read_to_end(&mut window).with_context(context)?;
        let last = got == 0;
        for at in finder.find_iter(&window) {
            let rest = &window[at + START.len() - 1..];
            let end = rest.iter().position(|&b| b == 0);
            // A tag that touches the end of the window is seen whole in the next one.
            if end.is_none() && !last && before + got - at < OVERLAP {
                continue;
            }
            let rest = &rest[..end.unwrap_or(rest.len())];
            if rest.len() < OVERLAP && rest.ends_with(b"__") && rest.get(1).is_some_and(u8::is_ascii_digit) {
                return Ok(Some(String::from_utf8_lossy(&rest[..rest.len() - 2]).into_owned()));
            }
        }
        if last {
            return Ok(None);
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their fixtures")]
mod tests {
    use super::*;

    #[test]
    fn glibc_versions_are_numbers() {
        assert_eq!(glibc_version(b"GLIBC_2.39"), Some((2, 39)));
        assert_eq!(glibc_version(b"GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(glibc_version(b"GLIBC_ABI_DT_RELR"), Some((2, 36)));
        assert_eq!(glibc_version(b"GLIBC_PRIVATE"), None);
        assert_eq!(glibc_version(b"GLIBCXX_3.4"), None);
    }

    #[test]
    fn a_tag_is_found_wherever_it_lies() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("x.so");
        let tag_text = b"\0__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__\0";
        for before in [0, 17, (1 << 20) - 40, (1 << 20) - 5, 1 << 20, 3 << 20] {
            let mut bytes = vec![b'x'; before];
            bytes.extend(tag_text);
            bytes.extend(vec![0; 100]);
            std::fs::write(&path, bytes).unwrap();
            let found = tag(&path).unwrap();
            assert_eq!(
                found.as_deref(),
                Some("v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1"),
                "{before}"
            );
        }
        std::fs::write(&path, b"__pybind11_internals_vector__ __pybind11_internals_v").unwrap();
        assert_eq!(tag(&path).unwrap(), None);
    }

    #[test]
    fn only_modules_are_read() {
        for name in [
            "_C.so",
            "aiter_.cpython-312-x86_64-linux-gnu.so",
            "libtorch_python.so",
            "libx.abi3.so",
            "lib.cpython-311-x86_64-linux-gnu.so",
        ] {
            assert!(may_have_internals(Path::new(name)), "{name}");
        }
        for name in ["/s/libamdhip64.so.7", "/s/LICENSE", "/s/bin/tool"] {
            assert!(!may_have_internals(Path::new(name)), "{name}");
        }
    }
}
