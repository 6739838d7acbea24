//! Takes a recorded run back, newest change first, and tidies up after one that was interrupted. Works from what is
//! on disk now: a path that is neither as before nor as after the run is left alone and named.

mod gone;
mod tidy;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::apply::Refused;
use crate::error::{Exit, Hint};
use crate::ground::{Ground, Swap, is_big, is_within, stage_name};
use crate::held::{self, Seen};
use crate::journal::{Ended, Journal, Record};
use crate::model::{Change, Entry, FileEntry, Place, RelPath, Source};
use crate::stat;

pub use tidy::tidy;

/// What an undo did.
#[derive(Debug, Default)]
pub struct Undone {
    /// Indices of the changes that were taken back.
    pub restored: Vec<usize>,
    /// How many were as before already.
    pub already: usize,
    /// Paths at which there is nothing to take back any more: see [`paths_gone`].
    pub gone: Vec<PathBuf>,
    /// Owner's files that stay, as the links that they were led to what is gone.
    pub kept: Vec<PathBuf>,
    pub refused: Vec<Refused>,
}

/// Takes back `record`. Call under the lock, after [`tidy`]. Its roots must lie within `allowed`.
///
/// # Errors
/// When something can't be read or written. What was restored until then stays so; call it again.
pub fn undo(record: &Record, journal: &Journal, allowed: &[PathBuf]) -> anyhow::Result<Undone> {
    let mut ground = ground_of(record, journal, allowed)?;
    journal.begin_undo(record)?;
    let mut undone = Undone::default();
    let gone = gone::gone(&ground);
    for (index, change) in record.plan.changes.iter().enumerate().rev() {
        if gone.paths.contains(&index) {
            undone.gone.push(record.plan.absolute(&change.at));
            continue;
        }
        if gone.kept.contains(&index) {
            undone.kept.push(record.plan.absolute(&change.at));
            continue;
        }
        if ground.holds(&change.at, &change.before, change.seen.as_ref())? || is_original(&ground, change)? {
            undone.already += 1;
            continue;
        }
        match step(&mut ground, &record.id, index)? {
            None => {
                undone.restored.push(index);
                drop_bytecode(&mut ground, change)?;
            }
            Some(reason) => {
                undone.refused.push(Refused { index, path: record.plan.absolute(&change.at), reason });
            }
        }
    }
    ground.sync()?;
    if undone.refused.is_empty() {
        journal.forget(record)?
    } else {
        journal.settle(record, Ended::Partial)?
    }
    Ok(undone)
}

/// The paths of a run that went with a package which was uninstalled since.
///
/// # Errors
/// When a root can't be opened, or is none of `allowed`.
pub fn paths_gone(record: &Record, journal: &Journal, allowed: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let ground = ground_of(record, journal, allowed)?;
    let changes = &record.plan.changes;
    Ok(gone::gone(&ground).paths.into_iter().map(|index| record.plan.absolute(&changes[index].at)).collect())
}

/// Whether the very file that the run found is back. What it was linked to then may have been taken back as well, so
/// that the link is no witness any more.
fn is_original(ground: &Ground<'_>, change: &Change) -> anyhow::Result<bool> {
    let (Some(seen), Entry::Symlink { .. } | Entry::Absent) = (&change.seen, &change.after) else {
        return Ok(false);
    };
    Ok(matches!(ground.look(&change.at)?, Seen::File { id, .. } if id.same_but_ctime(seen)))
}

/// Bytecode that an interpreter made of a source after the run is stale now, whatever its date says
/// (patching.md, section 4.3). What the run itself removed comes back by its own change.
fn drop_bytecode(ground: &mut Ground<'_>, change: &Change) -> anyhow::Result<()> {
    let name = change.at.path.name();
    if Path::new(name).extension() != Some(OsStr::new("py")) {
        return Ok(());
    }
    let Some(cache) = change.at.path.sibling("__pycache__") else { return Ok(()) };
    let Some(inside) = RelPath::new(cache.as_path().join("x")) else { return Ok(()) };
    let inside = Place { root: change.at.root, path: inside };
    let Ok(dir) = ground.dir(&inside) else { return Ok(()) };
    for file in dir.names()? {
        let Some(path) = inside.path.sibling(&file) else { continue };
        let place = Place { root: change.at.root, path };
        if is_bytecode_of(&file, name) && !ground.plan.changes.iter().any(|c| c.at == place) {
            ground.mark_dirty(&place);
            ground.discard(&place, &file)?;
        }
    }
    Ok(())
}

/// `post_kernel.cpython-312.opt-1.pyc` belongs to `post_kernel.py`.
fn is_bytecode_of(file: &OsStr, source: &OsStr) -> bool {
    let stem = Path::new(source).file_stem().unwrap_or_default().as_encoded_bytes();
    let rest = file.as_encoded_bytes().strip_prefix(stem);
    rest.is_some_and(|rest| rest.starts_with(b".") && rest.ends_with(b".pyc"))
}

/// A journal grants nothing: the run must have been made here, and what it names must be where the tool would work
/// anyway. Nothing can be done below a root that isn't there.
fn ground_of<'a>(
    record: &'a Record,
    journal: &'a Journal,
    allowed: &[PathBuf],
) -> anyhow::Result<Ground<'a>> {
    let refused = |what: String, hint: &str| {
        Err(anyhow!("run {} {what}", record.id).context(Hint::new(hint)).context(Exit::Refused))
    };
    if !journal.wrote(record) {
        return refused(
            format!("was made in `{}`, and this is a copy of that tree", record.site_packages.display()),
            "type rocm-fixup undo before the tree is copied, or reinstall the packages here",
        );
    }
    let ground = Ground::open(record, journal)?;
    if let Some(root) = ground.open_roots().find(|root| !is_within(root, allowed)) {
        return refused(
            format!("changed `{}`, which is no part of this SDK now", root.display()),
            "name its place with --site-packages or --python, or the recipe that gives it with --recipe",
        );
    }
    Ok(ground)
}

/// Takes one change back if its path is as the run left it; `Some` says why not.
///
/// # Errors
/// When something can't be read or written.
pub fn step(ground: &mut Ground<'_>, id: &str, index: usize) -> anyhow::Result<Option<String>> {
    let change = ground.plan.changes[index].clone();
    let now = ground.look(&change.at)?;
    let ours = ground.holds(&change.at, &change.after, None)?;
    let replaceable = change.bytecode && matches!(now, Seen::Absent | Seen::File { .. });
    if !ours && !replaceable {
        return Ok(Some(drifted(&now).to_owned()));
    }
    if let Some(reason) = unavailable(ground, &change)? {
        return Ok(Some(reason));
    }
    let stage = stage_name(id, index, true);
    ground.mark_dirty(&change.at);
    ground.stage(&change.at, &stage, &change.before, true)?;
    if now == Seen::Absent && change.before == Entry::Absent {
        return Ok(None);
    }
    let swapped = match ground.swap(&change.at, &stage, now, &change.before, is_big(&change.after)) {
        Ok(Ok(swapped)) => swapped,
        Ok(Err(drift)) => return ground.discard(&change.at, &stage).map(|()| Some(drift)),
        Err(error) => {
            // The stage goes; the error that stopped us is the one to tell.
            let _ = ground.discard(&change.at, &stage);
            return Err(error);
        }
    };
    let out = ground.came_out(&change.at, &stage, &swapped);
    if matches!(out, Ok(Ok(()))) {
        return if matches!(swapped.how, Swap::Exchanged | Swap::Removed) {
            ground.discard(&change.at, &stage).map(|()| None)
        } else {
            Ok(None)
        };
    }
    // While it isn't back under its name, the stage must stay: it may hold somebody's file.
    ground.swap_back(&change.at, &stage, &swapped)?;
    ground.discard(&change.at, &stage)?;
    out.map(Result::err)
}

fn drifted(now: &Seen) -> &'static str {
    match now {
        Seen::Absent => "it is gone since the run",
        _ => "it changed since the run",
    }
}

/// Whether the file to link to is still the one that it was.
fn unavailable(ground: &Ground<'_>, change: &Change) -> anyhow::Result<Option<String>> {
    let Entry::File(FileEntry { source: Source::LinkTo(other) | Source::CopyOf(other), digest, size, meta }) =
        &change.before
    else {
        return Ok(None);
    };
    let path = ground.plan.absolute(other);
    let changed = Ok(Some(format!("`{}`, which has its content, changed since the run", path.display())));
    let Seen::File { id, .. } = ground.look(other)? else { return changed };
    if id.size != *size {
        return changed;
    }
    let linked = matches!(&change.before, Entry::File(file) if matches!(file.source, Source::LinkTo(_)));
    // A turned link has no kept file of its own: the content moved, and with it its time.
    let then = change.keeps.as_ref().map(|(_, id)| *id).or(change.seen);
    match (digest, then) {
        (Some(digest), _) => {
            let open = ground.dir(other).and_then(|dir| dir.open(other.path.name()));
            let open = open.with_context(|| format!("can't read `{}`", path.display()))?;
            let same = (!linked || stat::meta_of(&open)? == *meta) && held::digest_of(&open)? == *digest;
            if same { Ok(None) } else { changed }
        }
        // Never read: the time of the kept file must do, in seconds, which is what image layers keep of it.
        (None, Some(seen)) if seconds(id.mtime) == seconds(seen.mtime) => Ok(None),
        _ => changed,
    }
}

fn seconds(nanos: i128) -> i128 {
    nanos.div_euclid(1_000_000_000)
}
