//! Where the shared objects of distributions are: what their RECORDs list, and what lies in the directories that are
//! theirs, since a JIT writes modules there after the install. Reads names only.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::require::called;
use crate::discover::is_tree_name;
use crate::dist;
use crate::error::message;
use crate::journal::DIRECTORY;
use crate::model::Distribution;
use crate::scan::is_library_name;

/// What was found, and what could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub there: BTreeSet<PathBuf>,
    /// Listed in a RECORD, and not there.
    pub gone: Vec<PathBuf>,
    /// A sentence for each.
    pub unread: Vec<String>,
}

/// The shared objects and programs of a distribution.
pub(super) fn of(dist: &Distribution, site_packages: &[PathBuf]) -> Files {
    let mut found = Files::default();
    let listed = match dist::files(dist) {
        Ok(listed) => listed.unwrap_or_default(),
        Err(error) => {
            found.unread.push(message(&error));
            return found;
        }
    };
    // Every RECORD lists itself at least.
    if listed.is_empty() {
        found.unread.push(format!("{}, but has no RECORD of its files", called(dist)));
    }
    let mut beside = Files::default();
    for directory in directories(dist, &listed) {
        beside.walk(&directory);
    }
    found.add(listed);
    found.unread.append(&mut beside.unread);
    beside.there.retain(|path| !found.there.contains(path));
    // A namespace such as `google` is a directory of several.
    for other in dist::all(site_packages).iter().filter(|other| other.dist_info != dist.dist_info) {
        if beside.there.is_empty() {
            break;
        }
        for path in dist::files(other).ok().flatten().unwrap_or_default() {
            beside.there.remove(&path);
        }
    }
    found.there.append(&mut beside.there);
    found
}

/// All shared objects of the site directories, whosever they are; and what RECORDs list elsewhere.
pub(super) fn everywhere(site_packages: &[PathBuf]) -> Files {
    let mut found = Files::default();
    for dist in dist::all(site_packages) {
        match dist::files(&dist) {
            Ok(listed) => found.add(listed.unwrap_or_default()),
            Err(error) => found.unread.push(message(&error)),
        }
    }
    for site in site_packages {
        found.walk(site);
        for elsewhere in led_to(site, site_packages) {
            found.walk(&elsewhere);
        }
    }
    found
}

/// Where packages lie that only a link or a line of a `.pth` file leads to, as to a checkout that is worked on.
fn led_to(site: &Path, site_packages: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(site).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.extension() == Some(OsStr::new("pth")) {
            let text = text(&path);
            let lines = text.split(|&byte| byte == b'\n').map(|line| OsStr::from_bytes(line.trim_ascii()));
            found.extend(lines.map(|line| site.join(line)));
        } else if path.is_symlink() {
            found.push(path);
        }
    }
    // What is above site-packages or in it would only be walked again.
    let fresh = |path: &PathBuf| {
        let Ok(physical) = path.canonicalize() else { return false };
        let known = |site: &PathBuf| site.starts_with(&physical) || physical.starts_with(site);
        physical.is_dir() && is_packages(path) && !site_packages.iter().any(known)
    };
    found.retain(fresh);
    found
}

/// The directories of site-packages that a distribution has files in, or says to be its own.
fn directories(dist: &Distribution, listed: &[PathBuf]) -> BTreeSet<PathBuf> {
    let site = &dist.site_packages;
    let top = |path: &Path| match path.strip_prefix(site).ok()?.components().next() {
        Some(Component::Normal(name)) => Some(site.join(name)),
        _ => None,
    };
    let named = text(&dist.dist_info.join("top_level.txt"));
    let named = String::from_utf8_lossy(&named);
    let named = named.lines().map(|line| site.join(line.trim())).collect::<Vec<_>>();
    let tops = listed.iter().chain(&named).filter_map(|path| top(path));
    tops.collect::<BTreeSet<_>>().into_iter().filter(|path| is_packages(path) && path.is_dir()).collect()
}

/// Empty where there is no such file; a pipe would hold up the run.
fn text(path: &Path) -> Vec<u8> {
    if path.is_file() { std::fs::read(path).unwrap_or_default() } else { Vec::new() }
}

/// Whether Python's own can lie there: the SDK's trees and the journal have names of their own.
fn is_packages(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let bytes = name.as_bytes();
    !(is_tree_name(name)
        || [DIRECTORY, "__pycache__"].iter().any(|other| name == OsStr::new(other))
        || bytes.ends_with(b".dist-info")
        || bytes.ends_with(b".egg-info"))
}

impl Files {
    /// What a RECORD lists, if its name is that of a library or a program.
    fn add(&mut self, listed: Vec<PathBuf>) {
        let library = |path: &PathBuf| path.file_name().is_some_and(|name| is_library_name(name.as_bytes()));
        for path in listed.into_iter().filter(|path| path.extension().is_none() || library(path)) {
            match path.metadata() {
                Ok(is) if is.is_file() => drop(self.there.insert(path)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.gone.push(path),
                Err(error) => self.unread.push(format!("can't look at `{}`: {error}", path.display())),
            }
        }
    }

    /// The libraries below a directory. It may be a link, as of a package that lies elsewhere; links below are followed
    /// to files only.
    fn walk(&mut self, directory: &Path) {
        let enter = |entry: &DirEntry| entry.depth() == 0 || is_packages(entry.path());
        for entry in WalkDir::new(directory).into_iter().filter_entry(enter) {
            match entry {
                Ok(entry) if entry.file_type().is_dir() || !is_library_name(entry.file_name().as_bytes()) => {
                }
                Ok(entry) if entry.path().is_file() => drop(self.there.insert(entry.into_path())),
                Ok(_) => {}
                Err(error) if error.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {}
                Err(error) => self.unread.push(message(&error.into())),
            }
        }
    }
}
