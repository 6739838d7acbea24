//! Looks at SDK trees: walks each physical directory once, and records what can matter for deduplication. Never writes, never follows a link while walking, and reads no file contents.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use walkdir::{DirEntry, WalkDir};

use crate::model::{Meta, Place, RelPath, Tree};
use crate::spread;
use crate::stat::{meta, mount_of};

mod names;
mod record;
mod tarballs;

pub use names::{is_below_lib, is_library_name, is_program_path};
pub use record::{FileRecord, Kind, Leads};
use tarballs::tarballs;

/// What a walk of all trees found.
///
/// `roots` are the trees' physical directories without repetition; a [`Place`]'s root is an index into them, and
/// into `trees`, which has the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub trees: Vec<Tree>,
    pub files: BTreeMap<Place, FileRecord>,
    /// By root: every walked directory by its relative path (empty for the root itself), with permission bits and owner.
    pub directories: Vec<HashMap<OsString, Meta>>,
    /// The mount that each tree's root lies on, where that can be told.
    pub mounts: Vec<Option<u64>>,
    /// Payload tarballs of devel packages that `rocm-sdk init` has not (completely) expanded.
    pub tarballs: Vec<PathBuf>,
    /// What went away while it was looked at.
    pub vanished: Vec<PathBuf>,
}

impl Inventory {
    #[must_use]
    pub fn absolute(&self, place: &Place) -> PathBuf {
        self.trees.get(place.root).map_or_else(PathBuf::new, |tree| tree.path.join(place.path.as_path()))
    }

    /// The place of a physical path, if it lies below one of the trees.
    #[must_use]
    pub fn place_of(&self, physical: &Path) -> Option<Place> {
        self.trees.iter().enumerate().find_map(|(root, tree)| {
            let path = RelPath::new(physical.strip_prefix(&tree.path).ok()?)?;
            Some(Place { root, path })
        })
    }

    /// Whether a physical path lies in none of the trees.
    #[must_use]
    pub fn is_outside(&self, physical: &Path) -> bool {
        !self.trees.iter().any(|tree| physical.starts_with(&tree.path))
    }

    /// The root and relative path of a physical path, if it is a directory of one of the trees.
    #[must_use]
    pub fn directory(&self, physical: &Path) -> Option<(usize, PathBuf)> {
        self.trees.iter().enumerate().find_map(|(root, tree)| {
            let path = physical.strip_prefix(&tree.path).ok()?;
            self.permissions(root, path).map(|_| (root, path.to_path_buf()))
        })
    }

    /// Permission bits and owner of a directory, relative to a root.
    #[must_use]
    pub fn permissions(&self, root: usize, directory: &Path) -> Option<&Meta> {
        self.directories.get(root)?.get(directory.as_os_str())
    }

    #[must_use]
    pub fn is_directory(&self, place: &Place) -> bool {
        self.permissions(place.root, place.path.as_path()).is_some()
    }

    /// Records one more name, whatever it is called. Names whose directory was not walked, because it is a symlink or
    /// isn't there, are passed over, so that nothing outside the trees can be reached this way.
    ///
    /// # Errors
    /// When the name can't be looked at for another reason than that it isn't there.
    pub fn look_at(&mut self, place: &Place) -> anyhow::Result<()> {
        let known =
            self.files.contains_key(place) || self.permissions(place.root, place.path.parent()).is_none();
        let path = self.absolute(place);
        match path.symlink_metadata() {
            _ if known => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("can't look at `{}`", path.display())),
            Ok(_) => self.record(place),
        }
    }

    /// Records the files that symlinks lead to under names that tell nothing, as `libX.so -> blob`.
    fn look_at_ends(&mut self) -> anyhow::Result<()> {
        let end = |file: &FileRecord| match &file.kind {
            Kind::Symlink { leads: Leads::To(end), .. } => self.place_of(end),
            _ => None,
        };
        let ends = self.files.values().filter_map(end).filter(|place| !self.is_directory(place));
        let ends: Vec<Place> = ends.collect();
        ends.iter().try_for_each(|place| self.look_at(place))
    }

    fn record(&mut self, place: &Place) -> anyhow::Result<()> {
        self.record_all(std::slice::from_ref(place))
    }

    fn record_all(&mut self, places: &[Place]) -> anyhow::Result<()> {
        let look = |place: &Place| {
            let mount = self.mounts.get(place.root).copied().flatten();
            FileRecord::of(place, &self.absolute(place), mount)
        };
        for (place, found) in places.iter().zip(spread::map(places, look)) {
            match found {
                Ok(record) => drop(self.files.insert(place.clone(), record)),
                Err(error) => {
                    let path = self.absolute(place);
                    if error.kind() != io::ErrorKind::NotFound {
                        return Err(error).with_context(|| format!("can't look at `{}`", path.display()));
                    }
                    self.vanished.push(path);
                }
            }
        }
        Ok(())
    }

    fn walk(&mut self, root: usize, seen: &mut HashSet<(u64, u64)>) -> anyhow::Result<()> {
        let top = self.trees[root].path.clone();
        let mut failed = None;
        let mut names = Vec::new();
        let mut directories = HashMap::new();
        let vanished = &mut self.vanished;
        let enter = |entry: &DirEntry| {
            if !entry.file_type().is_dir() {
                return true;
            }
            match entry.path().symlink_metadata() {
                Ok(metadata) => {
                    let new = seen.insert((metadata.dev(), metadata.ino()));
                    if new {
                        let path = below(entry, &top).unwrap_or(Path::new("")).as_os_str();
                        directories.insert(path.to_owned(), meta(&metadata));
                    }
                    new
                }
                Err(error) => {
                    note(&mut failed, vanished, entry.path(), error);
                    false
                }
            }
        };
        let mut broken = Vec::new();
        for entry in
            WalkDir::new(&top).follow_links(false).follow_root_links(false).into_iter().filter_entry(enter)
        {
            match entry {
                Ok(entry) => {
                    names.extend(matters(&entry, &top).map(|path| Place { root, path }));
                }
                Err(error) => broken.push(error),
            }
        }
        for error in broken {
            let path = error.path().unwrap_or(&top).to_path_buf();
            note(&mut failed, &mut self.vanished, &path, error.into());
        }
        if let Some((path, error)) = failed {
            return Err(error).with_context(|| format!("can't walk `{}`", path.display()));
        }
        self.directories.push(directories);
        self.record_all(&names)
    }
}

/// Walks all trees.
///
/// # Errors
/// When a directory or a name can't be read; one that went away meanwhile is noted instead.
pub fn scan(trees: &[Tree]) -> anyhow::Result<Inventory> {
    let mut inventory = Inventory::default();
    let mut seen = HashSet::new();
    for tree in trees {
        if inventory.trees.iter().all(|known| known.path != tree.path) {
            inventory.trees.push(tree.clone());
        }
    }
    for tree in &inventory.trees {
        let mount = match mount_of(&tree.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            mount => mount.with_context(|| format!("can't look at `{}`", tree.path.display()))?,
        };
        inventory.mounts.push(mount);
    }
    for root in 0..inventory.trees.len() {
        inventory.walk(root, &mut seen)?;
    }
    inventory.look_at_ends()?;
    let mut sites: Vec<&Path> = trees.iter().map(|tree| tree.site_packages.as_path()).collect();
    sites.sort_unstable();
    sites.dedup();
    for site in sites {
        inventory.tarballs.extend(tarballs(site)?);
    }
    Ok(inventory)
}

/// Remembers the first error; what is not there any more is no error.
fn note(
    failed: &mut Option<(PathBuf, io::Error)>,
    vanished: &mut Vec<PathBuf>,
    path: &Path,
    error: io::Error,
) {
    if error.kind() == io::ErrorKind::NotFound {
        vanished.push(path.to_path_buf());
    } else if failed.is_none() {
        *failed = Some((path.to_path_buf(), error));
    }
}

/// The path of a walked entry below the walk's `top`, without looking at it piece by piece.
fn below<'a>(entry: &'a DirEntry, top: &Path) -> Option<&'a Path> {
    let below = entry.path().as_os_str().as_bytes().strip_prefix(top.as_os_str().as_bytes())?;
    Some(Path::new(OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below))))
}

/// The path of a walked entry below the walk's `top`, if it can matter. Most entries don't.
fn matters(entry: &DirEntry, top: &Path) -> Option<RelPath> {
    let below = below(entry, top)?;
    let file_type = entry.file_type();
    let library = is_library_name(entry.file_name().as_bytes());
    let program = !file_type.is_dir() && is_program_path(below);
    // Directories of libraries can be links as well.
    let link = file_type.is_symlink() && is_below_lib(below);
    (library || program || link).then(|| RelPath::new(below)).flatten()
}
