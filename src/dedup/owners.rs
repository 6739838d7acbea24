//! Which files other packages than devel own, by path, inode, and name with size. No I/O.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::known::{Inode, inode};
use super::links;
use crate::model::{Place, RelPath, Role};
use crate::scan::{FileRecord, Inventory, Kind, Leads, is_library_name, is_program_path};

/// A file that links may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Where it lies, or will lie once it is turned: always in the owner's tree.
    pub at: Place,
    /// The file with its bytes; while `reversed`, that is still one of the devel tree.
    pub file: &'a FileRecord,
    pub reversed: bool,
}

#[derive(Debug, Default)]
pub struct Owners<'a> {
    /// In the order of preference: core, libraries, profiler, each with the devel tree's own name suffix first.
    pub trees: Vec<usize>,
    by_path: HashMap<&'a RelPath, Vec<Owner<'a>>>,
    by_inode: HashMap<Inode, Vec<Owner<'a>>>,
    by_name: HashMap<(&'a OsStr, u64), &'a FileRecord>,
    by_directory: HashMap<(&'a Path, u64), Vec<Owner<'a>>>,
    /// Owners' symlinks into the devel tree that lead nowhere or in circles.
    pub broken: Vec<&'a FileRecord>,
}

impl<'a> Owners<'a> {
    /// The owners of one devel tree's files.
    pub fn of(inventory: &'a Inventory, devel: usize) -> Self {
        let mut owners = Self { trees: order(inventory, devel), ..Self::default() };
        for root in owners.trees.clone() {
            let records = inventory.files.values().filter(|file| file.place.root == root);
            for file in records.filter(|file| is_library(&file.place.path)) {
                owners.add(inventory, devel, file);
            }
        }
        owners
    }

    fn add(&mut self, inventory: &'a Inventory, devel: usize, file: &'a FileRecord) {
        let place = &file.place;
        match &file.kind {
            Kind::File => {
                let owner = Owner { at: place.clone(), file, reversed: false };
                self.by_path.entry(&place.path).or_default().push(owner.clone());
                self.by_directory.entry((place.path.parent(), file.id.size)).or_default().push(owner.clone());
                self.by_inode.entry(inode(file)).or_default().push(owner);
                self.by_name.entry((place.path.name(), file.id.size)).or_insert(file);
            }
            Kind::Symlink { leads: Leads::To(end), .. } => {
                let end = inventory.place_of(end).and_then(|end| inventory.files.get(&end));
                let Some(end) = end.filter(|end| end.kind == Kind::File) else { return };
                if end.place.root == devel {
                    let owner = Owner { at: place.clone(), file: end, reversed: true };
                    self.by_path.entry(&place.path).or_default().push(owner.clone());
                    self.by_directory
                        .entry((place.path.parent(), end.id.size))
                        .or_default()
                        .push(owner.clone());
                    self.by_inode.entry(inode(end)).or_default().push(owner);
                } else if self.trees.contains(&end.place.root) {
                    let owner = Owner { at: end.place.clone(), file: end, reversed: false };
                    self.by_path.entry(&place.path).or_default().push(owner);
                }
            }
            Kind::Symlink { target, leads: Leads::Nowhere | Leads::InCircles } => {
                let hop = inventory.place_of(&links::first_hop(&inventory.absolute(place), target));
                if hop.is_some_and(|hop| hop.root == devel) {
                    self.broken.push(file);
                }
            }
            Kind::Symlink { .. } | Kind::Other => {}
        }
    }

    /// Files at the same relative path, in the order of preference.
    pub fn twins(&self, path: &RelPath) -> &[Owner<'a>] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// The owner's names on the same inode, `reversed` ones apart.
    pub fn same_inode(&self, file: &FileRecord, reversed: bool) -> impl Iterator<Item = &Owner<'a>> {
        self.by_inode.get(&inode(file)).into_iter().flatten().filter(move |owner| owner.reversed == reversed)
    }

    /// Files of that size in the same directory, whatever their names; also those that lie there once they are turned.
    pub fn beside(&self, directory: &'a Path, size: u64) -> &[Owner<'a>] {
        self.by_directory.get(&(directory, size)).map_or(&[], Vec::as_slice)
    }

    /// A file of the same name and size, wherever it lies.
    pub fn namesake(&self, file: &FileRecord) -> Option<&'a FileRecord> {
        self.by_name.get(&(file.place.path.name(), file.id.size)).copied()
    }

    /// Relative paths that more than one owner has a file at, with all of these.
    pub fn shared(&self) -> Vec<&[Owner<'a>]> {
        let mut shared: Vec<_> =
            self.by_path.values().map(Vec::as_slice).filter(|owners| owners.len() > 1).collect();
        shared.sort_by_key(|owners| owners[0].at.clone());
        shared
    }
}

/// A library by name, and not where programs lie.
pub fn is_library(path: &RelPath) -> bool {
    is_library_name(path.name().as_bytes()) && !is_program_path(path.as_path())
}

/// Other trees of the same site-packages; where there are none, those of any.
fn order(inventory: &Inventory, devel: usize) -> Vec<usize> {
    let home = &inventory.trees[devel];
    let others: Vec<usize> =
        (0..inventory.trees.len()).filter(|&root| inventory.trees[root].role != Role::Devel).collect();
    let mut near: Vec<usize> = others
        .iter()
        .copied()
        .filter(|&root| inventory.trees[root].site_packages == home.site_packages)
        .collect();
    if near.is_empty() {
        near = others;
    }
    near.sort_by_key(|&root| {
        let tree = &inventory.trees[root];
        (tree.role, suffix(&tree.name) != suffix(&home.name), tree.name.clone())
    });
    near
}

/// What a directory's name has beyond the package's: `_rocm_sdk_core_ab12` and `_rocm_sdk_devel_ab12` belong together.
fn suffix(name: &OsString) -> &[u8] {
    let name = name.as_bytes();
    [&b"_rocm_sdk_core"[..], b"_rocm_sdk_libraries", b"_rocm_sdk_devel", b"_rocm_profiler"]
        .iter()
        .find_map(|prefix| name.strip_prefix(*prefix))
        .unwrap_or(name)
}
