//! Places, entries, changes and plans: the one idea that apply, dry run, status and undo share.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::path::{bytes_path, bytes_paths};
use super::{Digest, FileId, Meta, RelPath};

/// A path below one of the plan's roots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Index into [`Plan::roots`].
    pub root: usize,
    pub path: RelPath,
}

/// What is, was or shall be at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    Absent,
    File(FileEntry),
    Symlink {
        #[serde(with = "bytes_path")]
        target: PathBuf,
    },
}

/// A regular file, and where its bytes can be had when it must be made (again).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub size: u64,
    /// `None` only for a hard link whose bytes nobody had to read: then the link itself is the identity.
    pub digest: Option<Digest>,
    pub meta: Meta,
    pub source: Source,
}

/// How a file comes (back) into being.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// From the bytes that the plan brings, or that the journal keeps, under the file's digest.
    Bytes,
    /// A new inode with the bytes of another place; counts as present only while it is a *different* inode.
    CopyOf(Place),
    /// A hard link to another place; counts as present only while it is the *same* inode.
    LinkTo(Place),
    /// A new inode with the bytes of the place itself (re-made hard links, facts.md section 2.4).
    Refresh,
}

/// One place goes from one entry to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: Place,
    pub before: Entry,
    pub after: Entry,
    /// What the planner saw at `at`, if a file: checked again immediately before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<FileId>,
    /// Another file that must still be as the planner saw it (the kept file of a merge).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<(Place, FileId)>,
    /// Changes of one group happen together: if one of them can't, none of the group does.
    pub group: u32,
    /// Compiled bytecode: may be made anew by anybody at any time, so drift of it never stops an undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bytecode: bool,
}

/// Ordered changes with the bytes they bring.
///
/// Undo walks them backwards; so a `LinkTo` in a `before` names a place that comes later in `changes` or is not
/// changed at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Physical directories (absolute, no symlink on the way) that everything lies below.
    #[serde(with = "bytes_paths")]
    pub roots: Vec<PathBuf>,
    pub changes: Vec<Change>,
    /// The plain patches that make changes: no recipe tells of them later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PlainPatch>,
    /// New contents by digest. Not part of the journal, which keeps the *old* bytes.
    #[serde(skip)]
    pub contents: std::collections::BTreeMap<Digest, Vec<u8>>,
    /// Old contents by digest, for undo.
    #[serde(skip)]
    pub originals: std::collections::BTreeMap<Digest, Vec<u8>>,
}

/// A patch of a folder, and its files that are changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainPatch {
    pub name: String,
    /// It is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    pub files: Vec<Place>,
}

impl Plan {
    /// The absolute path of a place.
    #[must_use]
    pub fn absolute(&self, place: &Place) -> PathBuf {
        self.roots.get(place.root).map_or_else(PathBuf::new, |root| root.join(place.path.as_path()))
    }

    /// Takes in another plan, whose changes come after those of this one.
    pub fn append(&mut self, other: Self) {
        let roots: Vec<usize> = other.roots.iter().map(|root| self.root(root)).collect();
        let first = self.changes.iter().map(|c| c.group + 1).max().unwrap_or(0);
        let moved = |place: &Place| Place {
            root: roots.get(place.root).copied().unwrap_or(0),
            path: place.path.clone(),
        };
        let entry = |entry: &Entry| match entry {
            Entry::File(file) => {
                let source = match &file.source {
                    Source::CopyOf(place) => Source::CopyOf(moved(place)),
                    Source::LinkTo(place) => Source::LinkTo(moved(place)),
                    other => other.clone(),
                };
                Entry::File(FileEntry { source, ..file.clone() })
            }
            other => other.clone(),
        };
        self.changes.extend(other.changes.iter().map(|change| Change {
            at: moved(&change.at),
            before: entry(&change.before),
            after: entry(&change.after),
            keeps: change.keeps.as_ref().map(|(place, id)| (moved(place), *id)),
            group: change.group + first,
            ..change.clone()
        }));
        let places = |files: &[Place]| files.iter().map(moved).collect();
        let patches = other.patches.iter();
        self.patches.extend(patches.map(|one| PlainPatch { files: places(&one.files), ..one.clone() }));
        self.contents.extend(other.contents);
        self.originals.extend(other.originals);
    }

    /// The indices of the changes of each group.
    #[must_use]
    pub fn groups(&self) -> std::collections::BTreeMap<u32, Vec<usize>> {
        let mut groups = std::collections::BTreeMap::<u32, Vec<usize>>::new();
        for (index, change) in self.changes.iter().enumerate() {
            groups.entry(change.group).or_default().push(index);
        }
        groups
    }

    /// The index of `root`, added if it is new.
    pub fn root(&mut self, root: &Path) -> usize {
        if let Some(at) = self.roots.iter().position(|r| r == root) {
            return at;
        }
        self.roots.push(root.to_path_buf());
        self.roots.len() - 1
    }
}
