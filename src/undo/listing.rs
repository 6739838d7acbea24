//! What the RECORDs that a run changed listed before it: whose a changed file was.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::ground::Ground;
use crate::model::{Change, Entry, FileEntry, Source};
use crate::pyenv::Record;

/// One RECORD as it was before the run.
pub struct Listing {
    /// Of its change.
    pub index: usize,
    root: usize,
    paths: HashSet<Vec<u8>>,
    /// First components of the paths: directories and modules.
    tops: HashSet<Vec<u8>>,
}

/// Those of all RECORDs that the run changed. One whose original is damaged lists nothing here, and stops the undo when it is
/// to be brought back.
pub fn listings(ground: &Ground<'_>) -> Vec<Listing> {
    let listing = |(index, change): (usize, &Change)| {
        let Entry::File(FileEntry { source: Source::Bytes, digest: Some(digest), .. }) = &change.before
        else {
            return None;
        };
        if change.at.path.name() != OsStr::new("RECORD") {
            return None;
        }
        let bytes = ground.journal.original(*digest).unwrap_or_default();
        let record = Record::new(&bytes);
        let paths: HashSet<_> = record.iter().flat_map(Record::rows).map(|(path, _)| path).collect();
        let top = |path: &Vec<u8>| path.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        Some(Listing { index, root: change.at.root, tops: paths.iter().map(top).collect(), paths })
    };
    ground.plan.changes.iter().enumerate().filter_map(listing).collect()
}

impl Listing {
    /// Whether it had a row of the file, or of the source of bytecode.
    pub fn has(&self, change: &Change) -> bool {
        self.root == change.at.root && self.paths.contains(source_of(change).as_os_str().as_bytes())
    }

    /// The same; what the run made anew had no row, so there its directory must do.
    pub fn may_have(&self, change: &Change) -> bool {
        let is_new = self.root == change.at.root && change.before == Entry::Absent;
        self.has(change) || (is_new && self.tops.contains(top_of(change).as_bytes()))
    }
}

/// The directory or module in site-packages that a change is in; the bytecode of `mod.py` goes with it.
pub fn top_of(change: &Change) -> OsString {
    source_of(change).iter().next().unwrap_or_default().to_os_string()
}

/// The path of a change; of what an interpreter compiled, that of its source.
fn source_of(change: &Change) -> PathBuf {
    let path = change.at.path.as_path();
    let cache = path.parent().filter(|directory| directory.ends_with("__pycache__"));
    let Some(directory) = cache.and_then(Path::parent) else { return path.to_path_buf() };
    let name = change.at.path.name().as_bytes().split(|byte| *byte == b'.').next().unwrap_or_default();
    directory.join(OsStr::from_bytes(&[name, b".py"].concat()))
}
