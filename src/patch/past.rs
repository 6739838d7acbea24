//! What recorded runs found before they changed it, so that taking a patch back gives back exactly that: the mode and
//! owner of a deleted file, the rows of RECORD. Reads journals, never writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;

use crate::journal::{Journal, Run};
use crate::model::{Change, Digest, Entry, FileEntry, Meta, RelPath, Source};
use crate::pyenv::Record;

/// All recorded runs, oldest first, each with the index of its journal. Empty: nothing is known.
#[derive(Debug, Default)]
pub struct Past {
    journals: Vec<Journal>,
    runs: Vec<(usize, Run)>,
    /// RECORDs of old, each read once: of torch's, one has 10 MB.
    records: RefCell<BTreeMap<Digest, Rc<Vec<u8>>>>,
}

/// What a run found at a path.
pub struct Was {
    /// `None` where there was no file.
    pub meta: Option<Meta>,
    /// The RECORD that listed it and that the run changed too, by its path, as it was then.
    pub record: Option<(RelPath, Rc<Vec<u8>>)>,
}

impl Past {
    #[must_use]
    pub fn new(journals: Vec<Journal>, runs: Vec<(usize, Run)>) -> Self {
        Self { journals, runs, records: RefCell::default() }
    }

    /// What the newest run found at `path` that found it with `content` (`None`: no file).
    ///
    /// # Errors
    /// When the journal has lost the bytes of a RECORD.
    pub fn was(&self, root: &Path, path: &RelPath, content: Option<&[u8]>) -> Result<Option<Was>> {
        let digest = content.map(Digest::of);
        let found = self.runs.iter().rev().find_map(|(journal, run)| {
            let here = |change: &&Change| change.at.path == *path && is_root(run, change, root);
            let change = run.record.plan.changes.iter().find(here)?;
            match (&change.before, digest) {
                (Entry::Absent, None) => Some((journal, run, None)),
                (Entry::File(file), Some(digest)) if file.digest == Some(digest) => {
                    Some((journal, run, Some(file.meta.clone())))
                }
                _ => None,
            }
        });
        let Some((journal, run, meta)) = found else { return Ok(None) };
        let mut record = None;
        for change in run.record.plan.changes.iter().filter(|change| is_root(run, change, root)) {
            let Entry::File(FileEntry { digest: Some(digest), source: Source::Bytes, .. }) = &change.before
            else {
                continue;
            };
            if change.at.path.name() != "RECORD" || change.at.path == *path {
                continue;
            }
            let Some(bytes) = self.original(*journal, *digest)? else { continue };
            if Record::new(&bytes).is_some_and(|r| r.has(path.as_path().as_os_str().as_encoded_bytes())) {
                record = Some((change.at.path.clone(), bytes));
                break;
            }
        }
        Ok(Some(Was { meta, record }))
    }

    fn original(&self, journal: usize, digest: Digest) -> Result<Option<Rc<Vec<u8>>>> {
        let mut records = self.records.borrow_mut();
        if let Some(bytes) = records.get(&digest) {
            return Ok(Some(Rc::clone(bytes)));
        }
        let Some(journal) = self.journals.get(journal) else { return Ok(None) };
        let bytes = Rc::new(journal.original(digest)?);
        records.insert(digest, Rc::clone(&bytes));
        Ok(Some(bytes))
    }
}

fn is_root(run: &Run, change: &Change, root: &Path) -> bool {
    run.record.plan.roots.get(change.at.root).is_some_and(|r| r == root)
}
