//! The names that libraries have through directories that are links, as a loader opens them. Everything else here goes by
//! physical paths, and would miss two copies that both trees have at one path that way. No I/O.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use super::Trouble;
use super::decide::Site;
use super::known::{Headers, inode};
use super::observe::in_tests;
use super::owners::is_library;
use crate::model::RelPath;
use crate::scan::{FileRecord, Inventory, Kind, Leads};

/// Links can lead around so that names never end.
const MOST: usize = 64;

/// A name in a tree, whether or not it is the physical one.
type Name = (usize, PathBuf);

#[derive(Debug, Default)]
pub struct Spelled<'a> {
    /// Links to directories: where each is, and the directory.
    links: Vec<(Name, Name)>,
    /// The owners' libraries, by the directory in which they have a name, physical or not.
    owners: HashMap<PathBuf, Vec<(&'a RelPath, &'a FileRecord)>>,
}

impl<'a> Spelled<'a> {
    pub fn of(inventory: &'a Inventory, devel: usize, owners: &[usize]) -> Self {
        let mut spelled = Self::default();
        for link in inventory.files.values() {
            let Kind::Symlink { leads: Leads::To(end), .. } = &link.kind else { continue };
            let Some(end) = inventory.directory(end) else { continue };
            let at = (link.place.root, link.place.path.as_path().to_path_buf());
            let ours = |root| root == devel || owners.contains(&root);
            // One that leads to a directory above itself gives longer names for the same, and no others.
            if ours(at.0) && ours(end.0) && !(at.0 == end.0 && at.1.starts_with(&end.1)) {
                spelled.links.push((at, end));
            }
        }
        if spelled.links.is_empty() {
            return spelled;
        }
        for file in inventory.files.values().filter(|file| is_library(&file.place.path)) {
            let end = match &file.kind {
                Kind::File => Some(file),
                Kind::Symlink { leads: Leads::To(end), .. } => {
                    inventory.place_of(end).and_then(|end| inventory.files.get(&end))
                }
                _ => None,
            };
            let Some(end) = end.filter(|end| end.kind == Kind::File && !in_tests(&file.place.path)) else {
                continue;
            };
            for (root, directory) in spelled.directories(file) {
                if owners.contains(&root) {
                    spelled.owners.entry(directory).or_default().push((&file.place.path, end));
                }
            }
        }
        spelled
    }

    /// The directories in which a file has its name, the physical one too.
    fn directories(&self, file: &FileRecord) -> BTreeSet<Name> {
        let physical = (file.place.root, file.place.path.parent().to_path_buf());
        let (mut found, mut waiting) = (BTreeSet::from([physical.clone()]), vec![physical]);
        while let Some((root, directory)) = waiting.pop() {
            for (at, end) in self.links.iter().filter(|(_, end)| end.0 == root) {
                let Ok(below) = directory.strip_prefix(&end.1) else { continue };
                // Not `join`, which leaves a slash behind where `below` is empty.
                let name = (at.0, at.1.components().chain(below.components()).collect());
                if found.len() < MOST && found.insert(name.clone()) {
                    waiting.push(name);
                }
            }
        }
        found
    }

    /// Names of owners' files in the directories in which `file` has a name in `tree`. The name at the file's own
    /// physical path isn't among them: that is its twin.
    fn beside(&self, file: &FileRecord, tree: usize) -> Vec<(PathBuf, &'a FileRecord)> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (_, directory) in self.directories(file).into_iter().filter(|(root, _)| *root == tree) {
            for (path, other) in self.owners.get(&directory).into_iter().flatten() {
                if other.place != file.place && **path != file.place.path {
                    found.push((directory.join(path.name()), *other));
                }
            }
        }
        found
    }
}

impl<'a> Site<'a, '_> {
    /// Refuses a library that an owner has too under the name that a loader uses; says whether it did.
    pub(super) fn through_links(&mut self, file: &'a FileRecord) -> bool {
        for (name, other) in self.spelled.beside(file, self.root) {
            let one_file = inode(file) == inode(other);
            if one_file && (self.options.keep_hard_links || file.place.root != self.root) {
                continue;
            }
            let same_name = name.file_name() == Some(file.place.path.name());
            if !same_name && file.id.size != other.id.size {
                continue;
            }
            let both = (self.known.headers(file), self.known.headers(other));
            let one_library = match both {
                (Some(Headers::Library { soname: ours }), Some(Headers::Library { soname: theirs })) => {
                    same_name || (ours.is_some() && ours == theirs)
                }
                (Some(ours), Some(theirs)) => {
                    same_name
                        && (matches!(ours, Headers::Library { .. })
                            || matches!(theirs, Headers::Library { .. }))
                }
                _ => false,
            };
            if one_library {
                let detail = format!(
                    "both trees have this library as `{}`, one of them through a directory that is a link",
                    name.display()
                );
                let (path, other) =
                    (self.inventory.absolute(&file.place), self.inventory.absolute(&other.place));
                self.out.refuse(path, Some(other), Trouble::DirectoryLink, detail);
                return true;
            }
        }
        false
    }

    /// Files of owners that the devel tree has under a name of its own, through a link to their directory.
    pub(super) fn owners_through_links(&mut self) {
        for file in self.inventory.files.values() {
            let theirs = self.owners.trees.contains(&file.place.root);
            if theirs
                && file.kind == Kind::File
                && is_library(&file.place.path)
                && !in_tests(&file.place.path)
            {
                self.through_links(file);
            }
        }
    }
}
