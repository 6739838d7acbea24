//! Separate files of one SONAME side by side in one tree, as where hard links among the devel tree's own libraries were
//! split. There is no owner to link them to, so they are told and left. No I/O.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::decide::{Site, below_lib};
use super::known::{Headers, Inode, inode};
use super::observe::in_tests;
use super::outside::stem;
use super::owners::is_library;
use crate::scan::{FileRecord, Kind};

/// Names in one directory of a tree that are called alike.
type Alike<'a> = (usize, &'a Path, &'a [u8]);

impl<'a> Site<'a, '_> {
    /// `rest` are the devel tree's files that belong to no owner's; owners' files are judged too. Only names of one stem
    /// (`libX.so`, `libX.so.1`) are read: a drop-in for another library, as `libgomp` of `libomp`, is one on purpose.
    pub(super) fn doubles(&mut self, rest: &[&'a FileRecord]) {
        let inventory = self.inventory;
        let theirs = inventory.files.values().filter(|file| self.owners.trees.contains(&file.place.root));
        let mut alike: BTreeMap<Alike<'a>, BTreeMap<Inode, &'a FileRecord>> = BTreeMap::new();
        for file in rest.iter().copied().chain(theirs) {
            let path = &file.place.path;
            if file.kind == Kind::File && is_library(path) && below_lib(path) && !in_tests(path) {
                let key = (file.place.root, path.parent(), stem(path.name().as_bytes()));
                alike.entry(key).or_default().entry(inode(file)).or_insert(file);
            }
        }
        for files in alike.values().filter(|files| files.len() > 1) {
            let mut by_soname: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
            let mut files: Vec<_> = files.values().copied().collect();
            files.sort_unstable_by_key(|file| &file.place);
            for file in files {
                if let Some(Headers::Library { soname: Some(soname) }) = self.known.headers(file) {
                    let path = format!("`{}`", inventory.absolute(&file.place).display());
                    by_soname.entry(soname).or_default().push(path);
                }
            }
            for (soname, paths) in by_soname.into_iter().filter(|(_, paths)| paths.len() > 1) {
                self.out.doubles.push(format!(
                    "separate files with the SONAME `{}`: {}; a program that opens more than one of them has the library \
                     twice",
                    String::from_utf8_lossy(&soname),
                    paths.join(", ")
                ));
            }
        }
    }
}
