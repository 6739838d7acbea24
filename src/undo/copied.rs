//! An interrupted run whose tree was copied to another place. Its record grants nothing here, so that nothing is tidied up:
//! this only tells whether something lies about. Where nothing does, the copy is a tree like any other.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};

use crate::error::{Exit, Hint};
use crate::fsops;
use crate::ground::stage_name;
use crate::held::{Root, Seen};
use crate::journal::{Journal, Record};
use crate::model::Change;

/// Whether nothing that the run staged was copied along.
///
/// # Errors
/// When something was, exit code 3, or can't be looked at.
pub fn nothing_left(record: &Record, journal: &Journal) -> anyhow::Result<()> {
    let roots = here(record, journal)?;
    for (index, change) in record.plan.changes.iter().enumerate() {
        let Some(Some(root)) = roots.get(change.at.root) else { continue };
        if let Some(path) = staged(root, record, index, change)? {
            let hint = "see whether the file beside it is whole; put this in its place or remove it, and run it again";
            return Err(anyhow!(
                "`{}` was left by run {}, which was interrupted before this tree was copied",
                path.display(),
                record.id
            )
            .context(Hint::new(hint))
            .context(Exit::Refused));
        }
    }
    Ok(())
}

/// The roots of the plan in this copy; those that lie elsewhere are no part of it.
fn here(record: &Record, journal: &Journal) -> anyhow::Result<Vec<Option<Root>>> {
    let open = |root: &PathBuf| {
        let Ok(below) = root.strip_prefix(&record.site_packages) else { return Ok(None) };
        let path = journal.site_packages().path().join(below);
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // `join("")` would end in a slash.
            _ => Root::open(&path.components().collect::<PathBuf>()).map(Some),
        }
    };
    record.plan.roots.iter().map(open).collect()
}

fn staged(root: &Root, record: &Record, index: usize, change: &Change) -> anyhow::Result<Option<PathBuf>> {
    let dir = match root.dir(change.at.path.parent()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        dir => dir.with_context(|| format!("can't look beside `{}`", change.at.path))?,
    };
    for undo in [false, true] {
        let stage = stage_name(&record.id, index, undo);
        for name in [fsops::part_of(&stage), stage] {
            let path = dir.named(&name);
            if dir.look(&name).with_context(|| format!("can't look at `{}`", path.display()))? != Seen::Absent
            {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
