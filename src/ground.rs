//! The ground under a plan: held roots, what is at a place, whether that is an entry of the plan, and the swap of one
//! name. `apply` and `undo` are both made of these; which changes are made, and in which order, is their business.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::error::hinted;
use crate::fsops::{self, Content};
use crate::held::{self, Dir, Root, Seen};
use crate::journal::{Journal, Record};
use crate::model::{Entry, FileEntry, FileId, Place, Plan, Source};

/// A plan with its roots held open.
pub struct Ground<'a> {
    pub plan: &'a Plan,
    pub journal: &'a Journal,
    roots: Vec<Root>,
    /// The mtime of re-made files, seconds since the epoch: whole ones survive every archive.
    fresh: i64,
    /// Inodes whose ctime we have moved ourselves.
    touched: HashSet<(u64, u64)>,
    /// Directories whose names we have changed: to be synced.
    dirty: HashSet<(usize, PathBuf)>,
}

/// Why a change was not made: a value, not an error.
pub type Drift = String;

/// A swap that was made, and what must be known to take it back.
#[derive(Debug)]
pub struct Swapped {
    pub how: Swap,
    /// What was to be replaced.
    old: Seen,
    /// What was staged for it.
    staged: Seen,
}

/// How a name was swapped, which says where the old entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The old entry lies under the stage's name.
    Exchanged,
    /// There was none.
    Created,
    /// It lies under the stage's name, and nothing under its own.
    Removed,
    /// It is gone: the file system can't exchange, or exchanging would copy it up from a lower layer.
    Replaced,
}

impl<'a> Ground<'a> {
    /// # Errors
    /// When a root can't be opened, or isn't physical.
    pub fn open(record: &'a Record, journal: &'a Journal) -> anyhow::Result<Self> {
        let plan = &record.plan;
        let roots = plan.roots.iter().map(|root| Root::open(root)).collect::<anyhow::Result<_>>()?;
        let fresh = record.started_second();
        Ok(Self { plan, journal, roots, fresh, touched: HashSet::new(), dirty: HashSet::new() })
    }

    /// The directory of a place, held.
    ///
    /// # Errors
    /// When it is missing, or a link leads there.
    pub fn dir(&self, place: &Place) -> io::Result<Dir> {
        let root = self.roots.get(place.root).ok_or(io::ErrorKind::InvalidInput)?;
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

    /// Whether we have moved the ctime of this file's inode.
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
        let same_meta = held::meta_of(&open).with_context(doing)? == file.meta;
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
        .map_err(hinted)
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

    /// Brings the staged entry (or nothing, for `Entry::Absent`) to the name of `at`, where `old` must be.
    /// `big` tells that the old file may be large, so that it is not copied up on overlayfs only to be removed.
    ///
    /// # Errors
    /// Those of the system calls: then nothing was swapped. The inner `Err` says that something else than `old` was
    /// there and still is. What came out must be looked at: see [`Ground::came_out`].
    pub fn swap(
        &mut self,
        at: &Place,
        stage: &OsStr,
        old: Seen,
        new: &Entry,
        big: bool,
    ) -> anyhow::Result<Result<Swapped, Drift>> {
        let path = self.plan.absolute(at);
        let doing = || format!("can't replace `{}`", path.display());
        let dir = self.dir(at).with_context(doing).map_err(hinted)?;
        let staged = dir.look(stage).with_context(doing)?;
        self.touch(&old);
        let how = swap_in(&dir, at.path.name(), stage, &old, new, big).with_context(doing).map_err(hinted)?;
        Ok(how.map(|how| Swapped { how, old, staged }))
    }

    /// Whether what came out of a swap is what was to be replaced. If not, or if nobody can tell, the caller must take
    /// the swap back: what lies under the stage's name may be somebody's only copy.
    ///
    /// # Errors
    /// When it can't be looked at.
    pub fn came_out(
        &mut self,
        at: &Place,
        stage: &OsStr,
        swapped: &Swapped,
    ) -> anyhow::Result<Result<(), Drift>> {
        if matches!(swapped.how, Swap::Created | Swap::Replaced) {
            return Ok(Ok(()));
        }
        let doing = || format!("can't look at what was replaced at `{}`", self.plan.absolute(at).display());
        let dir = self.dir(at).with_context(doing)?;
        let out = dir.look(stage).with_context(doing)?;
        if !same(&out, &swapped.old, dir.on_overlay()) {
            return Ok(Err("it was replaced by something else meanwhile".to_owned()));
        }
        self.touch(&out);
        Ok(Ok(()))
    }

    /// Takes a swap back, while the old entry still lies under the stage's name. Afterwards that name holds what was
    /// staged, and nothing else: what somebody put in its place meanwhile stays where they put it.
    ///
    /// # Errors
    /// Those of the system calls, and when something else is there now. Then the stage must stay: the next run tidies up.
    pub fn swap_back(&mut self, at: &Place, stage: &OsStr, swapped: &Swapped) -> anyhow::Result<()> {
        let doing = || format!("can't put `{}` back", self.plan.absolute(at).display());
        let dir = self.dir(at).with_context(doing)?;
        let name = at.path.name();
        match swapped.how {
            Swap::Exchanged => fsops::exchange(&dir, stage, name),
            Swap::Created => fsops::move_new(&dir, name, stage),
            Swap::Removed => return fsops::move_new(&dir, stage, name).with_context(doing),
            Swap::Replaced => return Ok(()),
        }
        .with_context(doing)?;
        if same(&dir.look(stage).with_context(doing)?, &swapped.staged, dir.on_overlay()) {
            return Ok(());
        }
        match swapped.how {
            Swap::Exchanged => fsops::exchange(&dir, stage, name),
            _ => fsops::move_new(&dir, stage, name),
        }
        .with_context(doing)?;
        Err(anyhow!("something else was put there meanwhile").context(doing()))
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
            let Some(held) = self.roots.get(root) else { continue };
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

/// Which way the name is swapped depends on what is there, what comes, and what the file system can do.
fn swap_in(
    dir: &Dir,
    name: &OsStr,
    stage: &OsStr,
    old: &Seen,
    new: &Entry,
    big: bool,
) -> anyhow::Result<Result<Swap, Drift>> {
    let overlay = dir.on_overlay();
    let appeared = || Ok(Err("something appeared there meanwhile".to_owned()));
    if *old == Seen::Absent {
        return match fsops::move_new(dir, stage, name) {
            Ok(()) => Ok(Ok(Swap::Created)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => appeared(),
            Err(error) => Err(error.into()),
        };
    }
    let swap = if *new == Entry::Absent {
        fsops::move_new(dir, name, stage)?;
        Swap::Removed
    } else if overlay && big {
        fsops::replace(dir, stage, name)?;
        return Ok(Ok(Swap::Replaced));
    } else {
        match fsops::exchange(dir, stage, name) {
            Ok(()) => Swap::Exchanged,
            Err(error) if fsops::no_exchange(&error) => {
                fsops::replace(dir, stage, name)?;
                return Ok(Ok(Swap::Replaced));
            }
            Err(error) => return Err(error.into()),
        }
    };
    Ok(Ok(swap))
}

/// Whether what came out of a swap is what was looked at before it. Renaming moves the ctime, and on overlayfs it may
/// copy the file up, under another inode.
fn same(out: &Seen, old: &Seen, overlay: bool) -> bool {
    match (out, old) {
        (Seen::File { id: a, .. }, Seen::File { id: b, .. }) => {
            a.same_but_ctime(b) || (overlay && (a.size, a.mtime) == (b.size, b.mtime))
        }
        (a, b) => a == b,
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
