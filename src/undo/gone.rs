//! Paths that went with a package which was uninstalled since: there is nothing to take back at them. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::ground::Ground;
use crate::held::Seen;
use crate::model::{Change, Entry};

/// Indices of changes that can't be taken back, and needn't be.
#[derive(Debug, Default)]
pub struct Gone {
    pub paths: BTreeSet<usize>,
    /// Owner's links into what is gone, that were turned: the file there may be the only one left, so it stays.
    pub kept: BTreeSet<usize>,
}

/// Finds them. A single path that isn't there may be anybody's mistake, of which undo must
/// tell; a directory in which nothing is left of all that the run changed there was uninstalled. What can't be looked
/// at isn't gone.
#[must_use]
pub fn gone(ground: &Ground<'_>) -> Gone {
    let changes = &ground.plan.changes;
    let mut directories: BTreeMap<(usize, &Path), bool> = BTreeMap::new();
    for change in changes.iter().filter(|change| is_witness(change)) {
        let absent = matches!(ground.look(&change.at), Ok(Seen::Absent));
        *directories.entry(directory(change)).or_insert(true) &= absent;
    }
    let is_gone = |change: &Change| match (&change.before, directories.get(&directory(change))) {
        (Entry::File(_), Some(gone)) => *gone,
        (Entry::File(_), None) => {
            matches!(ground.dir(&change.at), Err(error) if error.kind() == io::ErrorKind::NotFound)
        }
        (Entry::Absent | Entry::Symlink { .. }, _) => false,
    };
    let paths: BTreeSet<usize> = (0..changes.len()).filter(|index| is_gone(&changes[*index])).collect();
    let groups: BTreeSet<u32> = paths.iter().map(|index| changes[*index].group).collect();
    let turned = |change: &Change| matches!(change.before, Entry::Symlink { .. });
    let kept = |index: &usize| turned(&changes[*index]) && groups.contains(&changes[*index].group);
    Gone { kept: (0..changes.len()).filter(kept).collect(), paths }
}

/// Neither a run nor an undo ever leaves such a path with nothing there.
fn is_witness(change: &Change) -> bool {
    matches!(change.before, Entry::File(_)) && change.after != Entry::Absent && !change.bytecode
}

/// Bytecode goes with its sources.
fn directory(change: &Change) -> (usize, &Path) {
    let parent = change.at.path.parent();
    let cache = parent.file_name() == Some(OsStr::new("__pycache__"));
    (change.at.root, if cache { parent.parent().unwrap_or(parent) } else { parent })
}
