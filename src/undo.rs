//! Takes a recorded run back, newest change first, and tidies up after one that was interrupted. Works from what is
//! on disk now: a path that is neither as before nor as after the run is left alone and named.

mod copied;
mod gone;
mod listing;
mod order;
mod pretend;
mod step;
mod theirs;
mod tidy;
mod whole;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::apply::Refused;
use crate::error::{Exit, Hint};
use crate::ground::{Ground, is_within};
use crate::journal::{Ended, Journal, Record};
use crate::model::{Change, Place, RelPath};
use crate::pyenv::is_bytecode_of;

use gone::Gone;

pub use copied::nothing_left;
pub use order::in_the_way;
pub use pretend::Pretend;
pub use step::step;
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
    /// What stopped it before its end. What was restored until then stays so; call it again.
    pub failed: Option<anyhow::Error>,
}

/// Takes back `record`. Call under the lock, after [`tidy`]. Its roots must lie within `allowed`.
///
/// # Errors
/// When it can't be begun; all later trouble is in the outcome.
pub fn undo(record: &Record, journal: &Journal, allowed: &[PathBuf]) -> anyhow::Result<Undone> {
    let mut ground = ground_of(record, journal, allowed)?;
    let (gone, real) = (gone::gone(&ground), Pretend::default());
    // Looked at before anything is begun: a patch whose original is lost stays whole.
    let stay = whole::stay(&ground, &gone, &real)?;
    journal.begin_undo(record)?;
    let mut undone = Undone::default();
    let walked = walk(&mut ground, &record.id, (&gone, &stay), None, &mut undone);
    let ended = walked.and_then(|()| ground.sync()).and_then(|()| match undone.refused.is_empty() {
        true => journal.forget(record),
        false => journal.settle(record, Ended::Partial),
    });
    undone.failed = ended.err();
    Ok(undone)
}

/// What [`undo`] would do, told without doing it. `pretend` is what it would have made of newer runs before.
///
/// # Errors
/// When something can't be read.
pub fn judge(
    record: &Record,
    journal: &Journal,
    allowed: &[PathBuf],
    pretend: &mut Pretend,
) -> anyhow::Result<Undone> {
    let mut ground = ground_of(record, journal, allowed)?;
    let gone = gone::gone(&ground);
    let stay = whole::stay(&ground, &gone, pretend)?;
    let mut undone = Undone::default();
    walk(&mut ground, &record.id, (&gone, &stay), Some(pretend), &mut undone)?;
    Ok(undone)
}

/// Every change, newest first; with `pretend` it only looks.
fn walk(
    ground: &mut Ground<'_>,
    id: &str,
    (gone, stay): (&Gone, &BTreeMap<usize, String>),
    mut pretend: Option<&mut Pretend>,
    undone: &mut Undone,
) -> anyhow::Result<()> {
    let real = Pretend::default();
    for (index, change) in ground.plan.changes.iter().enumerate().rev() {
        let path = ground.plan.absolute(&change.at);
        if gone.paths.contains(&index) {
            undone.gone.push(path);
            continue;
        }
        if gone.kept.contains(&index) {
            undone.kept.push(path);
            continue;
        }
        let led_away = whole::led_away(ground, change)?;
        if led_away.is_none() && step::is_before(ground, change, pretend.as_deref().unwrap_or(&real))? {
            undone.already += 1;
            continue;
        }
        let refused = match (led_away.as_ref().or(stay.get(&index)), pretend.as_deref()) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(pretend)) => step::would(ground, change, pretend)?,
            (None, None) => step(ground, id, index)?,
        };
        match (refused, pretend.as_deref_mut()) {
            (Some(reason), _) => undone.refused.push(Refused { index, path, reason }),
            (None, Some(pretend)) => {
                undone.restored.push(index);
                pretend.put(path, &change.before);
            }
            (None, None) => {
                undone.restored.push(index);
                drop_bytecode(ground, change)?;
            }
        }
    }
    Ok(())
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
        if is_bytecode_of(file.as_bytes(), name.as_bytes())
            && !ground.plan.changes.iter().any(|c| c.at == place)
        {
            ground.mark_dirty(&place);
            ground.discard(&place, &file)?;
        }
    }
    Ok(())
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
