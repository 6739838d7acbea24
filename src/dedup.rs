//! Merges duplicate libraries, on paper: SDK trees in, a plan out (facts.md section 4). Changes nothing on disk.
//!
//! `decide` and all below it are pure: they answer from an inventory and from what is known of its files, and name
//! what they would have to know besides. `plan` finds that out and asks again until nothing is missing.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::Serialize;

use crate::model::{Digest, Plan, Tree};
use crate::scan::{self, Inventory};

mod aliases;
mod decide;
mod device;
mod doubles;
mod encode;
mod known;
mod links;
mod lost;
mod observe;
mod outside;
mod owners;
mod refusal;
mod rights;
mod spelled;

use known::Known;

/// What the caller wants.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Re-make the entries of device manifests as hard links with a fresh inode and mtime (facts.md section 2.4).
    pub device_links: bool,
    /// Leave hard links between trees as they are: right only for an install that never becomes an image.
    pub keep_hard_links: bool,
    /// Record the digest of kept files: wanted for the journal, not for a dry run.
    pub hash: bool,
    /// Files that were re-made before, with the mtime that they got then: not to be re-made again while intact.
    pub refreshed: HashSet<(PathBuf, i128)>,
    /// Names that earlier runs made links: the file that they lead to was there then.
    pub linked: HashSet<PathBuf>,
}

/// How far the comparison is, in bytes of one side. `Total` may come more than once, each time adding to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Total(u64),
    Done(u64),
}

/// What shall be done, and all that the report says of it. Paths are absolute and physical.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DedupPlan {
    pub plan: Plan,
    pub linked: Vec<Linked>,
    /// Hard links of device manifests that will be re-made.
    pub remade: Vec<Remade>,
    /// Devel names that lead into another package's file already.
    pub already: u64,
    pub bytes_freed: u64,
    pub left_alone: Vec<LeftAlone>,
    pub conflicts: Vec<Conflict>,
    /// Separate files of one library that nothing can be done about, a sentence each.
    pub doubles: Vec<String>,
    /// One sentence each, for people.
    pub notes: Vec<String>,
    pub reads: Reads,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Linked {
    pub path: PathBuf,
    /// The text of the link.
    pub target: PathBuf,
    pub was: Was,
    pub bytes: u64,
    pub blake3: Option<Digest>,
    pub group: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Was {
    /// Another inode with the same bytes.
    Copy,
    /// The same inode as the owner's file.
    HardLink,
    /// The owner's path was a symlink to it.
    Reversed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remade {
    pub path: PathBuf,
    pub other: PathBuf,
    pub split: bool,
    pub group: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftAlone {
    pub path: PathBuf,
    pub reason: Reason,
    pub detail: String,
}

/// Why a file was left as it is, though nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// `/proc/self/exe` of a symlinked program names another tree (facts.md section 3).
    Executable,
    /// A linker script or other text.
    NotElf,
    DeviceManifest,
    /// The same size and name, or the same inode, at another relative path.
    OtherPath,
    /// It exists in order to be a duplicate.
    TestFixture,
    /// It has a twin, but doesn't lie below `lib*/`, nor below another `lib/`.
    OutsideLib,
    /// Two packages other than devel have it: a link would tie one wheel to another.
    TwoOwners,
    /// Hard links are to be kept.
    HardLink,
    /// Another name of the same library can't be linked, and they go together.
    GroupRefused,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Conflict {
    pub path: PathBuf,
    pub other: Option<PathBuf>,
    pub reason: Trouble,
    pub detail: String,
}

/// Why something can't be merged that ought to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// The same relative path, other bytes.
    Content,
    /// The same SONAME in the same directory, other bytes.
    AliasContent,
    /// The owner's file is less readable than the copy, or writable for more, or other attributes differ.
    Metadata,
    /// A file system is mounted on the file or on a directory above it, within the tree.
    Mounted,
    /// A link leads out of the SDK's trees, where another copy of a library of the SDK may lie.
    Outside,
    /// A symlink to another file than the other tree has under that name.
    OtherFile,
    /// Two trees have it under one name, in one of them through a directory that is a link.
    DirectoryLink,
    /// A directory, pipe, socket or device under the name of a library.
    NotAFile,
    LinkLoop,
    Dangling,
    Changed,
    Unreadable,
    /// The devel package's tarball is not expanded yet.
    Unexpanded,
    HalfExpanded,
}

/// What was read to get there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Files opened in order to be compared, and the bytes read of them.
    pub opens: u64,
    pub bytes: u64,
}

/// Looks at `trees`, compares what must be compared, and decides.
///
/// # Errors
/// When a tree can't be walked, or a device manifest or a RECORD can't be read.
pub fn plan(
    trees: &[Tree],
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<DedupPlan> {
    let mut inventory = scan::scan(trees)?;
    let device = device::read(&mut inventory)?;
    let mut known = Known::default();
    known.lost = lost::read(&inventory)?;
    loop {
        let mut decided = decide::decide(&inventory, &device, options, &mut known);
        if !known.find_out(&inventory, options.hash, progress) {
            decided.reads = known.reads();
            return Ok(decided);
        }
    }
}

impl DedupPlan {
    fn new(inventory: &Inventory) -> Self {
        let roots = inventory.trees.iter().map(|tree| tree.path.clone()).collect();
        Self { plan: Plan { roots, ..Plan::default() }, ..Self::default() }
    }

    fn leave(&mut self, path: PathBuf, reason: Reason, detail: impl Into<String>) {
        self.left_alone.push(LeftAlone { path, reason, detail: detail.into() });
    }

    fn refuse(&mut self, path: PathBuf, other: Option<PathBuf>, reason: Trouble, detail: impl Into<String>) {
        self.conflicts.push(Conflict { path, other, reason, detail: detail.into() });
    }

    /// A group number that no change has yet.
    fn next_group(&self) -> u32 {
        self.plan.changes.last().map_or(0, |change| change.group + 1)
    }
}

#[cfg(test)]
#[path = "dedup/tests.rs"]
mod tests;
