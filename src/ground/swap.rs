//! The swap of one name: the staged entry comes to it, the old one comes out and is looked at, and all of it can be
//! taken back.

use std::ffi::OsStr;
use std::io;

use anyhow::{Context as _, anyhow};

use super::{Drift, Ground};
use crate::error::hinted;
use crate::fsops;
use crate::held::{Dir, Seen};
use crate::model::{Entry, Place};

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

impl Ground<'_> {
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
