//! Who wants a library that isn't there: walks DT_NEEDED as the loader does. Reads headers of objects, opens none of
//! them for execution.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::elf::{self, Facts};
use crate::python::{self, wire::Object};

/// No real dependency graph is larger.
const MOST: usize = 2000;

/// The first object, breadth first from `start`, whose DT_NEEDED names `library`.
pub fn who_wants(start: &Path, library: &str, loaded: &[Object]) -> Option<PathBuf> {
    let mut queue = std::collections::VecDeque::from([start.to_path_buf()]);
    let mut seen = HashSet::new();
    while let Some(path) = queue.pop_front() {
        if seen.len() >= MOST || !seen.insert(path.clone()) {
            continue;
        }
        let Some(facts) = File::open(&path).ok().and_then(|file| elf::read(&file).ok()) else { continue };
        if facts.needed.iter().any(|needed| needed == library.as_bytes()) {
            return Some(path);
        }
        queue.extend(facts.needed.iter().filter_map(|needed| resolve(needed, &path, &facts, loaded)));
    }
    None
}

/// Where `needed` is found: among what is loaded, then where the object says, then in the usual places.
fn resolve(needed: &[u8], by: &Path, facts: &Facts, loaded: &[Object]) -> Option<PathBuf> {
    if needed.contains(&b'/') {
        return Some(PathBuf::from(OsStr::from_bytes(needed)));
    }
    let there = loaded.iter().find(|object| object.soname.as_deref().map(str::as_bytes) == Some(needed));
    if let Some(object) = there {
        return Some(python::path(&object.path));
    }
    let own = facts.runpath.as_deref().unwrap_or_default();
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = own.split(|&b| b == b':').chain(variable.as_bytes().split(|&b| b == b':'));
    let listed = listed.filter(|dir| !dir.is_empty()).map(|dir| expand(dir, by));
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let usual = ["/lib", "/usr/lib", "/usr/local/lib"].into_iter();
    let usual = usual.flat_map(|dir| [Path::new(dir).join(&machine), dir.into(), format!("{dir}64").into()]);
    listed.chain(usual).map(|dir| dir.join(OsStr::from_bytes(needed))).find(|path| path.is_file())
}

/// `$ORIGIN` is the directory of the object as it was opened, not of the file behind a link.
fn expand(dir: &[u8], by: &Path) -> PathBuf {
    let origin = by.parent().unwrap_or(Path::new("/"));
    for name in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
        if let Some(rest) = dir.strip_prefix(name) {
            return origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)));
        }
    }
    PathBuf::from(OsStr::from_bytes(dir))
}
