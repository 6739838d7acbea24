//! The ground under a plan: held roots, what is at a place, whether that is an entry of the plan, and the swap of one
//! name. `apply` and `undo` are both made of these; which changes are made, and in which order, is their business.

mod swap;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::error::{Hint, hinted};
use crate::fsops::{self, Content};
use crate::held::{self, Dir, Root, Seen};
use crate::journal::{Journal, Record};
use crate::model::{Entry, FileEntry, FileId, Place, Plan, Source};
use crate::stat;

pub use swap::{Swap, Swapped};

/// A plan with its roots held open.
pub struct Ground<'a> {
    pub plan: &'a Plan,
    pub journal: &'a Journal,
    /// `None` for one that is gone: a tree may have been uninstalled since.
    roots: Vec<Option<Root>>,
    /// The mtime of re-made files, seconds since the epoch: whole ones survive every archive.
    fresh: i64,
    /// Inodes whose ctime we have moved ourselves.
    touched: HashSet<(u64, u64)>,
    /// Directories whose names we have changed: to be synced.
    dirty: HashSet<(usize, PathBuf)>,
}

/// Why a change was not made: a value, not an error.
pub type Drift = String;

impl<'a> Ground<'a> {
    /// # Errors
    /// When a root can't be opened, or isn't physical.
    pub fn open(record: &'a Record, journal: &'a Journal) -> anyhow::Result<Self> {
        let plan = &record.plan;
        let open = |root: &PathBuf| match root.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Root::open(root).map(Some),
        };
        let roots = plan.roots.iter().map(open).collect::<anyhow::Result<_>>()?;
        let fresh = record.started_second();
        Ok(Self { plan, journal, roots, fresh, touched: HashSet::new(), dirty: HashSet::new() })
    }

    /// The roots that are there.
    pub fn open_roots(&self) -> impl Iterator<Item = &'a PathBuf> {
        let held = self.plan.roots.iter().zip(&self.roots);
        held.filter(|(_, root)| root.is_some()).map(|(path, _)| path)
    }

    /// The directory of a place, held.
    ///
    /// # Errors
    /// When it is missing, or a link leads there.
    pub fn dir(&self, place: &Place) -> io::Result<Dir> {
        let root = self.roots.get(place.root).ok_or(io::ErrorKind::InvalidInput)?;
        let root = root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        root.dir(place.path.parent())
    }

    /// What is at a place. A missing directory means a missing file.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn look(&self, place: &Place) -> io::Result<Seen> {
        match self.dir(place) {
            Ok(dir) => dir.look(place.path.name()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Seen::Absent),
            Err(error) => Err(error),
        }
    }

    /// Whether this is still the planned file, apart from a ctime that we have moved ourselves.
    #[must_use]
    pub fn unchanged(&self, now: &FileId, planned: &FileId) -> bool {
        now == planned || (now.same_but_ctime(planned) && self.touched.contains(&(now.dev, now.ino)))
    }

    fn touch(&mut self, seen: &Seen) {
        if let Seen::File { id, .. } = seen {
            self.touched.insert((id.dev, id.ino));
        }
    }

    /// Whether `entry` is at `place` now. `known` spares the hashing of a file that is still the one with that id.
    ///
    /// # Errors
    /// When something can't be looked at or read.
    pub fn holds(&self, place: &Place, entry: &Entry, known: Option<&FileId>) -> anyhow::Result<bool> {
        let doing = || format!("can't look at `{}`", self.plan.absolute(place).display());
        match (self.look(place).with_context(doing)?, entry) {
            (Seen::Absent, Entry::Absent) => Ok(true),
            (Seen::Symlink { target }, Entry::Symlink { target: wanted }) => Ok(target == *wanted),
            (Seen::File { id, .. }, Entry::File(file)) => self.holds_file(place, &id, file, known),
            _ => Ok(false),
        }
    }

    fn holds_file(
        &self,
        place: &Place,
        id: &FileId,
        file: &FileEntry,
        known: Option<&FileId>,
    ) -> anyhow::Result<bool> {
        let same_inode = |other: &Place| -> anyhow::Result<bool> {
            let other = self.look(other)?;
            Ok(matches!(other, Seen::File { id: o, .. } if (o.dev, o.ino) == (id.dev, id.ino)))
        };
        let related = match &file.source {
            Source::Bytes | Source::Refresh => true,
            Source::CopyOf(other) => !same_inode(other)?,
            Source::LinkTo(other) => same_inode(other)?,
        };
        if !related || id.size != file.size {
            return Ok(false);
        }
        let Some(digest) = file.digest else { return Ok(true) };
        if known == Some(id) {
            return Ok(true);
        }
        let doing = || format!("can't read `{}`", self.plan.absolute(place).display());
        let open = self.dir(place).and_then(|dir| dir.open(place.path.name())).with_context(doing)?;
        let same_meta = stat::meta_of(&open).with_context(doing)? == file.meta;
        Ok(same_meta && held::digest_of(&open).with_context(doing)? == digest)
    }

    /// Puts what `entry` says under the name `stage`, in the directory of `at`. Nothing visible changes.
    ///
    /// # Errors
    /// Those of the system calls, and when the content can't be had any more.
    pub fn stage(&mut self, at: &Place, stage: &OsStr, entry: &Entry, undo: bool) -> anyhow::Result<()> {
        let path = self.plan.absolute(at);
        let doing = || format!("can't stage the new entry of `{}`", path.display());
        let dir = self.dir(at).with_context(doing).map_err(hinted)?;
        self.dirty.insert((at.root, at.path.parent().to_path_buf()));
        match entry {
            Entry::Absent => Ok(()),
            Entry::Symlink { target } => fsops::symlink(&dir, target, stage).with_context(doing),
            Entry::File(file) => self.stage_file(&dir, at, stage, file, undo).with_context(doing),
        }
        .map_err(|error| match is_taken(&error) {
            // What lies there is none of ours: a run whose record is gone may have left somebody's only copy.
            true => error.context(Hint::new(format!(
                "look at `{}*`, move it where it belongs, and run this again",
                dir.named(stage).display()
            ))),
            false => hinted(error),
        })
    }

    fn stage_file(
        &mut self,
        dir: &Dir,
        at: &Place,
        stage: &OsStr,
        file: &FileEntry,
        undo: bool,
    ) -> anyhow::Result<()> {
        let digest = || file.digest.ok_or_else(|| anyhow!("no digest is recorded for it"));
        match &file.source {
            Source::Bytes if undo => {
                let bytes = self.journal.original(digest()?)?;
                Ok(fsops::stage_file(dir, stage, &Content::Bytes(&bytes), &file.meta, None)?)
            }
            Source::Bytes => {
                let bytes = self.plan.contents.get(&digest()?).ok_or_else(|| anyhow!("the plan lacks it"))?;
                Ok(fsops::stage_file(dir, stage, &Content::Bytes(bytes), &file.meta, None)?)
            }
            Source::CopyOf(other) => self.stage_copy(dir, other, stage, file, None),
            Source::Refresh => self.stage_copy(dir, at, stage, file, Some(self.fresh)),
            Source::LinkTo(other) => {
                let from = self.dir(other)?;
                fsops::link((&from, other.path.name()), dir, stage)
                    .with_context(|| format!("can't link `{}`", self.plan.absolute(other).display()))?;
                let seen = dir.look(stage)?;
                self.touch(&seen);
                Ok(())
            }
        }
    }

    fn stage_copy(
        &self,
        dir: &Dir,
        from: &Place,
        stage: &OsStr,
        file: &FileEntry,
        mtime: Option<i64>,
    ) -> anyhow::Result<()> {
        let doing = || format!("can't copy `{}`", self.plan.absolute(from).display());
        let source = self.dir(from).and_then(|d| d.open(from.path.name())).with_context(doing)?;
        let content = Content::File(&source, file.digest);
        fsops::stage_file(dir, stage, &content, &file.meta, mtime).with_context(doing)
    }

    /// Removes a stage.
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn discard(&self, at: &Place, stage: &OsStr) -> anyhow::Result<()> {
        let dir = match self.dir(at) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        fsops::unlink(&dir, stage).with_context(|| format!("can't remove `{}`", dir.named(stage).display()))
    }

    /// Syncs every directory whose names changed.
    ///
    /// # Errors
    /// Those of `fsync`: then the changes are made, but not known to be durable.
    pub fn sync(&mut self) -> anyhow::Result<()> {
        for (root, path) in std::mem::take(&mut self.dirty) {
            let Some(Some(held)) = self.roots.get(root) else { continue };
            let shown = self.plan.roots.get(root).map_or_else(PathBuf::new, |r| r.join(&path));
            let dir = match held.dir(&path) {
                Ok(dir) => dir,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("can't open `{}`", shown.display())),
            };
            fsops::sync_dir(&dir)
                .with_context(|| format!("can't sync the directory `{}`", shown.display()))?;
        }
        Ok(())
    }

    /// Marks the directory of a place for [`Ground::sync`].
    pub fn mark_dirty(&mut self, at: &Place) {
        self.dirty.insert((at.root, at.path.parent().to_path_buf()));
    }
}

/// The stage's name for change number `index` of a run; `undo` has names of its own.
#[must_use]
pub fn stage_name(id: &str, index: usize, undo: bool) -> OsString {
    OsString::from(format!(".rocm-fixup-{id}-{}{index}", if undo { "u" } else { "" }))
}

/// Whether the entry that a change replaces may be a large file.
#[must_use]
pub fn is_big(entry: &Entry) -> bool {
    matches!(entry, Entry::File(file) if file.source != Source::Bytes)
}

/// Whether [`Ground::stage`] failed because there is something under that name, which is then not ours to remove.
#[must_use]
pub fn is_taken(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref().map(io::Error::kind));
    kinds.into_iter().any(|kind| kind == io::ErrorKind::AlreadyExists)
}

/// The path of a place for messages.
#[must_use]
pub fn shown(plan: &Plan, at: &Place) -> PathBuf {
    plan.absolute(at)
}

/// Whether `path` equals or lies below one of `allowed`.
#[must_use]
pub fn is_within(path: &Path, allowed: &[PathBuf]) -> bool {
    allowed.iter().any(|root| path.starts_with(root))
}
