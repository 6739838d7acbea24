//! Tidies up after a run or an undo that was interrupted: no stage lies about, no group is half made.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::anyhow;

use super::gone::no_directory;
use super::whole::brings_bytes;
use super::{ground_of, nothing_left, step};
use crate::error::{Exit, Hint};
use crate::fsops;
use crate::ground::{Ground, stage_name};
use crate::held::{self, Seen};
use crate::journal::{Ended, Journal, Record};
use crate::model::{Change, Entry, Place};

/// Removes what an interrupted run or undo left staged. Call under the lock. Afterwards every path is whole, as before
/// or as after, and the run can be undone or done again.
///
/// # Errors
/// When a staged name holds something that is neither the old nor the new entry and can't be put back; in a copy of the
/// tree, when there is a staged name at all.
pub fn tidy(record: &Record, journal: &Journal, allowed: &[PathBuf]) -> anyhow::Result<()> {
    if !journal.wrote(record) {
        return nothing_left(record, journal);
    }
    let mut ground = ground_of(record, journal, allowed)?;
    for (index, change) in record.plan.changes.iter().enumerate() {
        for undo in [false, true] {
            let stage = stage_name(&record.id, index, undo);
            ground.discard(&change.at, &fsops::part_of(&stage))?;
            tidy_stage(&mut ground, change, &stage, undo)?;
        }
    }
    for indices in ground.plan.groups().values() {
        make_whole(&mut ground, &record.id, indices)?;
    }
    ground.sync()?;
    journal.settle(record, Ended::Stopped)
}

/// Where a path of a half-made group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Before,
    After,
    Elsewhere,
}

/// Takes back what was made of a half-made group that changes content: half a patch fits nothing any more. Links that
/// were made are left: the next run goes on from them, without needing room for copies.
fn make_whole(ground: &mut Ground<'_>, id: &str, indices: &[usize]) -> anyhow::Result<()> {
    if !indices.iter().filter_map(|index| ground.plan.changes.get(*index)).any(brings_bytes) {
        return Ok(());
    }
    let mut made = Vec::new();
    let mut unmade = false;
    for index in indices {
        let Some(change) = ground.plan.changes.get(*index) else { continue };
        match stand(ground, change)? {
            Stand::After => made.push(*index),
            Stand::Before => unmade = true,
            // Bytecode may be made anew by anybody; of anything else `undo` shall tell.
            Stand::Elsewhere if change.bytecode => {}
            Stand::Elsewhere => return Ok(()),
        }
    }
    for index in made.into_iter().rev().filter(|_| unmade) {
        step(ground, id, index)?;
    }
    Ok(())
}

fn stand(ground: &Ground<'_>, change: &Change) -> anyhow::Result<Stand> {
    Ok(match () {
        () if change.bytecode && no_directory(ground, change) => Stand::Elsewhere,
        () if ground.holds(&change.at, &change.after, None)? => Stand::After,
        () if ground.holds(&change.at, &change.before, None)? => Stand::Before,
        () => Stand::Elsewhere,
    })
}

fn tidy_stage(ground: &mut Ground<'_>, change: &Change, stage: &OsStr, undo: bool) -> anyhow::Result<()> {
    let Some(beside) = change.at.path.sibling(stage) else { return Ok(()) };
    let staged = Place { root: change.at.root, path: beside };
    let seen = ground.look(&staged)?;
    if seen == Seen::Absent {
        return Ok(());
    }
    ground.mark_dirty(&change.at);
    if is_ours(ground, change, &staged, &seen)? && content_is_safe(ground, change, &seen)? {
        return ground.discard(&change.at, stage);
    }
    // Somebody's file came out of the last swap, or the kept copy is gone: the staged file is wanted at its name.
    let put = if undo { &change.before } else { &change.after };
    let dir = ground.dir(&change.at)?;
    match (ground.look(&change.at)?, put) {
        (Seen::Absent, _) => fsops::move_new(&dir, stage, change.at.path.name())?,
        (Seen::Symlink { target }, Entry::Symlink { target: ours }) if target == *ours => {
            fsops::replace(&dir, stage, change.at.path.name())?;
        }
        (_, Entry::File(_)) if ground.holds(&change.at, put, None)? => {
            fsops::replace(&dir, stage, change.at.path.name())?;
        }
        _ => {
            return Err(anyhow!("`{}` was left by an interrupted run", dir.named(stage).display())
                .context(Hint::new("look at it, move it where it belongs, and run this again"))
                .context(Exit::Refused));
        }
    }
    Ok(())
}

/// Whether a staged entry is the old or the new one of its change.
fn is_ours(ground: &Ground<'_>, change: &Change, staged: &Place, seen: &Seen) -> anyhow::Result<bool> {
    for entry in [&change.before, &change.after] {
        match (seen, entry) {
            (Seen::Symlink { target }, Entry::Symlink { target: ours }) if target == ours => return Ok(true),
            (Seen::File { id, .. }, Entry::File(file)) if id.size == file.size => {
                // A turned link has no file of its own that was seen: its content is that of the kept file.
                let mut seen = change.seen.iter().chain(change.keeps.as_ref().map(|(_, kept)| kept));
                let known = seen.any(|s| (s.size, s.mtime) == (id.size, id.mtime));
                let same = match file.digest {
                    Some(digest) => {
                        let open = ground.dir(staged)?.open(staged.path.name())?;
                        held::digest_of(&open)? == digest
                    }
                    None => known,
                };
                if same {
                    return Ok(true);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// A staged file is let go only while its content is also elsewhere: in the kept file, in the journal, or at its name.
fn content_is_safe(ground: &Ground<'_>, change: &Change, seen: &Seen) -> anyhow::Result<bool> {
    let Seen::File { .. } = seen else { return Ok(true) };
    if matches!(ground.look(&change.at)?, Seen::File { .. }) {
        return Ok(true);
    }
    Ok(match &change.keeps {
        Some((kept, id)) => {
            matches!(ground.look(kept)?, Seen::File { id: now, .. } if (now.size, now.mtime) == (id.size, id.mtime))
        }
        None => true,
    })
}
