//! Names that ought to be a library that the SDK has, and aren't: links out of it, directories, pipes. What lies outside
//! is never judged by its bytes: it is none of ours, and may be another in the next image. No I/O.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::Trouble;
use super::decide::{Site, below_lib};
use super::observe::in_tests;
use super::owners::is_library;
use crate::model::Place;
use crate::scan::{FileRecord, Kind, Leads, is_below_lib};

impl<'a> Site<'a, '_> {
    pub(super) fn odd_names(&mut self) {
        let inventory = self.inventory;
        // Links that were reported.
        let mut told: HashSet<Place> = HashSet::new();
        for file in self.files().filter(|file| is_below_lib(file.place.path.as_path())) {
            let path = &file.place.path;
            let theirs = self.owners.trees.iter().map(|&root| Place { root, path: path.clone() });
            let twin = theirs.clone().find(|place| self.is_there(place));
            let odd = match &file.kind {
                Kind::Symlink { leads: Leads::To(end), .. } => {
                    twin.filter(|_| inventory.is_outside(end)).map(|twin| {
                        told.insert(file.place.clone());
                        (twin, Trouble::Outside, out_of_the_sdk(end))
                    })
                }
                Kind::Other if is_library(path) => {
                    twin.filter(|twin| !self.inventory.is_directory(twin)).map(|twin| {
                        let what = "a directory, pipe or device, where the owner has a file";
                        (twin, Trouble::NotAFile, what.to_owned())
                    })
                }
                Kind::File if is_library(path) && !in_tests(path) => {
                    self.twin_outside(file).map(|(twin, detail)| {
                        told.insert(twin.clone());
                        (twin, Trouble::Outside, detail)
                    })
                }
                _ => None,
            };
            if let Some((twin, reason, detail)) = odd {
                let (path, twin) = (inventory.absolute(&file.place), inventory.absolute(&twin));
                self.out.refuse(path, Some(twin), reason, detail);
            }
        }
        // The owner's directory is a link, and devel has it as a directory.
        for link in inventory.files.values().filter(|link| self.owners.trees.contains(&link.place.root)) {
            let ours = Place { root: self.root, path: link.place.path.clone() };
            let Some(end) = self.leads_out(&link.place).filter(|_| self.inventory.is_directory(&ours)) else {
                continue;
            };
            told.insert(link.place.clone());
            let (path, other) = (inventory.absolute(&link.place), inventory.absolute(&ours));
            self.out.refuse(path, Some(other), Trouble::Outside, out_of_the_sdk(end));
        }
        self.aliases_outside(&told);
    }

    /// Links out of the SDK under another name of one of its libraries, as `libX.so` is of `libX.so.1`; `told` ones
    /// apart. Names alone decide: the SDK's own libraries are found under any of them.
    fn aliases_outside(&mut self, told: &HashSet<Place>) {
        let inventory = self.inventory;
        let trees: HashSet<usize> = self.owners.trees.iter().copied().chain([self.root]).collect();
        let ours = |file: &&FileRecord| {
            let path = &file.place.path;
            trees.contains(&file.place.root) && is_library(path) && below_lib(path) && !in_tests(path)
        };
        let links: Vec<(&FileRecord, &Path)> = inventory
            .files
            .values()
            .filter(ours)
            .filter(|link| !told.contains(&link.place))
            .filter_map(|link| Some((link, self.leads_out(&link.place)?)))
            .collect();
        if links.is_empty() {
            return;
        }
        let mut libraries: HashMap<&[u8], Vec<&Place>> = HashMap::new();
        for file in inventory.files.values().filter(ours).filter(|file| file.kind == Kind::File) {
            let name = file.place.path.name().as_bytes();
            libraries.entry(stem(name)).or_default().push(&file.place);
        }
        for (link, end) in links {
            let at = &link.place.path;
            let names = [at.name().as_bytes(), end.file_name().unwrap_or_default().as_bytes()];
            let counterparts = names.iter().filter_map(|name| libraries.get(stem(name))).flatten();
            let far = |place: &&&Place| (place.path != *at, place.path.parent() != at.parent());
            if let Some(near) = counterparts.min_by_key(far) {
                let (path, other) = (inventory.absolute(&link.place), inventory.absolute(near));
                self.out.refuse(path, Some(other), Trouble::Outside, out_of_the_sdk(end));
            }
        }
    }

    /// An owner's link out of the SDK under the name of one of our files.
    pub(super) fn twin_outside(&self, file: &FileRecord) -> Option<(Place, String)> {
        self.owners.trees.iter().find_map(|&root| {
            let twin = Place { root, path: file.place.path.clone() };
            let detail = format!("the owner's is {}", out_of_the_sdk(self.leads_out(&twin)?));
            Some((twin, detail))
        })
    }

    /// Where a link out of all trees ends.
    fn leads_out(&self, place: &Place) -> Option<&'a Path> {
        match &self.inventory.files.get(place)?.kind {
            Kind::Symlink { leads: Leads::To(end), .. } if self.inventory.is_outside(end) => Some(end),
            _ => None,
        }
    }

    fn is_there(&self, place: &Place) -> bool {
        let file = self.inventory.files.get(place).is_some_and(|file| file.kind == Kind::File);
        file || self.inventory.is_directory(place)
    }
}

fn out_of_the_sdk(end: &Path) -> String {
    format!("a link out of the SDK, to `{}`", end.display())
}

/// A library's name without its version: `libX` of `libX.so`, `libX.so.1` and `libX.so.1.2`.
pub(super) fn stem(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|part| part == b".so");
    &name[..end.unwrap_or(name.len())]
}
