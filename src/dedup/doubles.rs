//! Separate files of one SONAME that no link can make one: side by side in one tree, as where hard links among the devel
//! tree's own libraries were split, or in two trees of which neither is the other's owner at that path. They are told
//! and left. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::decide::{Site, below_lib};
use super::known::{Headers, Inode, inode};
use super::observe::{NAMED, in_tests};
use super::outside::stem;
use super::owners::is_library;
use crate::scan::{FileRecord, Kind};

/// Names in one directory of a tree that are called alike.
type Alike<'a> = (usize, &'a Path, &'a [u8]);
/// Files that may be one library, each inode once.
type Files<'a> = BTreeMap<Inode, &'a FileRecord>;
type OfSoname<'a> = (Vec<u8>, Vec<&'a FileRecord>);

impl<'a> Site<'a, '_> {
    /// `rest` are the devel tree's files that belong to no owner's; owners' files are judged too. Only names of one stem
    /// (`libX.so`, `libX.so.1`) are read: a drop-in for another library, as `libgomp` of `libomp`, is one on purpose.
    pub(super) fn doubles(&mut self, rest: &[&'a FileRecord]) {
        let inventory = self.inventory;
        let theirs = inventory.files.values().filter(|file| self.owners.trees.contains(&file.place.root));
        let mut alike: BTreeMap<Alike<'a>, Files<'a>> = BTreeMap::new();
        let mut namesakes: BTreeMap<&'a OsStr, Files<'a>> = BTreeMap::new();
        for file in rest.iter().copied().chain(theirs) {
            let path = &file.place.path;
            if file.kind == Kind::File && is_library(path) && below_lib(path) && !in_tests(path) {
                let key = (file.place.root, path.parent(), stem(path.name().as_bytes()));
                alike.entry(key).or_default().entry(inode(file)).or_insert(file);
                namesakes.entry(path.name()).or_default().entry(inode(file)).or_insert(file);
            }
        }
        for files in alike.values().filter(|files| files.len() > 1) {
            for (soname, files) in self.by_soname(files.values().copied().collect()) {
                self.tell_files(&soname, &files);
            }
        }
        self.across_trees(&namesakes);
    }

    /// The same name and SONAME in two trees, at one path or with one size: what two owners have, or an owner and, in
    /// another directory, the devel tree. A build for debugging, say, has neither in common with the other one.
    fn across_trees(&mut self, namesakes: &BTreeMap<&'a OsStr, Files<'a>>) {
        let refused: BTreeSet<PathBuf> = self.out.conflicts.iter().map(|one| one.path.clone()).collect();
        let mut apart: BTreeMap<Vec<PathBuf>, Vec<OfSoname<'a>>> = BTreeMap::new();
        for files in namesakes.values() {
            let paired = files.values().copied().filter(|file| {
                let alike = |other: &&FileRecord| {
                    let one = other.place.path == file.place.path || other.id.size == file.id.size;
                    one && other.place.root != file.place.root
                };
                files.values().any(alike) && !refused.contains(&self.inventory.absolute(&file.place))
            });
            let paired = paired.collect();
            for (soname, files) in self.by_soname(paired) {
                if files.iter().any(|file| file.place.root != files[0].place.root) {
                    let directory = |file: &&FileRecord| {
                        self.inventory.absolute(&file.place).parent().map(Path::to_path_buf)
                    };
                    apart
                        .entry(files.iter().filter_map(directory).collect())
                        .or_default()
                        .push((soname, files));
                }
            }
        }
        for (directories, libraries) in apart {
            match &libraries[..] {
                [(soname, files)] => self.tell_files(soname, files),
                _ => self.tell_directories(&directories, &libraries),
            }
        }
    }

    /// Files of one SONAME, of those that are more than one.
    fn by_soname(&mut self, mut files: Vec<&'a FileRecord>) -> Vec<OfSoname<'a>> {
        files.sort_unstable_by_key(|file| &file.place);
        let mut found: BTreeMap<Vec<u8>, Vec<&'a FileRecord>> = BTreeMap::new();
        if files.len() > 1 {
            for file in files {
                if let Some(Headers::Library { soname: Some(soname) }) = self.known.headers(file) {
                    found.entry(soname).or_default().push(file);
                }
            }
        }
        found.into_iter().filter(|(_, files)| files.len() > 1).collect()
    }

    fn tell_files(&mut self, soname: &[u8], files: &[&FileRecord]) {
        let path = |file: &&FileRecord| format!("`{}`", self.inventory.absolute(&file.place).display());
        let paths: Vec<String> = files.iter().map(path).collect();
        self.out.doubles.push(format!(
            "separate files with the SONAME `{}`: {}; a program that opens more than one of them has the library twice",
            String::from_utf8_lossy(soname),
            paths.join(", ")
        ));
    }

    /// One sentence for what two packages have in common, such as the host libraries of two families.
    fn tell_directories(&mut self, directories: &[PathBuf], libraries: &[OfSoname<'_>]) {
        let directories: Vec<String> =
            directories.iter().map(|path| format!("`{}`", path.display())).collect();
        let named =
            libraries.iter().take(NAMED).map(|(soname, _)| format!("`{}`", String::from_utf8_lossy(soname)));
        let more = if libraries.len() > NAMED { ", …" } else { "" };
        self.out.doubles.push(format!(
            "separate files of {} libraries in {}: {}{more}; a program that opens more than one of a library's files has \
             it twice",
            libraries.len(),
            directories.join(", "),
            named.collect::<Vec<_>>().join(", ")
        ));
    }
}
