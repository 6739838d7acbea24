//! Puts changes into a plan, with their old and new bytes. Pure.

use std::path::{Path, PathBuf};

use super::past::Was;
use super::read::Seen;
use crate::model::{Change, Digest, Entry, FileEntry, Meta, Place, Plan, RelPath, Source};
use crate::pyenv::Edit;

/// A patched file.
pub struct Edited {
    pub root: PathBuf,
    pub path: RelPath,
    /// Name of the distribution that it belongs to, if the recipe says so.
    pub distribution: Option<String>,
    pub before: Option<Seen>,
    pub after: Option<Vec<u8>>,
    /// What an earlier run found there with the content that it gets back.
    pub was: Option<Was>,
}

impl Edited {
    pub(super) fn absolute(&self) -> PathBuf {
        self.root.join(self.path.as_path())
    }

    pub(super) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// A file that comes back, and that no RECORD listed before.
    pub(super) fn was_unlisted(&self) -> bool {
        self.is_new() && self.was.as_ref().is_some_and(|was| was.record.is_none())
    }

    /// Its RECORD as an earlier run found it.
    pub(super) fn old_record(&self, record: Option<&RelPath>) -> Option<&[u8]> {
        let (path, bytes) = self.was.as_ref()?.record.as_ref()?;
        (Some(path) == record).then_some(bytes.as_slice())
    }

    /// What becomes of its row.
    pub(super) fn edit(&self, record: Option<&RelPath>) -> Edit<'_> {
        if let Some(old) = self.old_record(record) {
            return Edit::Restored(old);
        }
        match (&self.before, &self.after) {
            (_, None) => Edit::Deleted,
            (None, Some(content)) => Edit::Created(content),
            (Some(_), Some(content)) => Edit::Changed(content),
        }
    }
}

/// A plan in the making.
pub struct Builder {
    pub plan: Plan,
    pub notes: Vec<String>,
    /// Files that can't be changed because of what goes with them, and why.
    pub stuck: Vec<(PathBuf, String)>,
    /// For files that the patch makes: mode 0644 unless the patch says other.
    pub new_meta: Meta,
}

impl Builder {
    /// Adds the change of one file: from what was seen (`None`: nothing) to `content` (`None`: no file).
    pub fn change(&mut self, root: &Path, path: &RelPath, before: Option<Seen>, content: Option<Vec<u8>>) {
        let at = Place { root: self.plan.root(root), path: path.clone() };
        let seen = before.as_ref().map(|b| b.id);
        let meta = before.as_ref().map_or_else(|| self.new_meta.clone(), |b| b.meta.clone());
        let after = content.map_or(Entry::Absent, |bytes| entry(bytes, meta, &mut self.plan.contents));
        let before = before.map_or(Entry::Absent, |b| entry(b.bytes, b.meta, &mut self.plan.originals));
        self.plan.changes.push(Change { at, before, after, seen, keeps: None, group: 0, bytecode: false });
    }
}

fn entry(bytes: Vec<u8>, meta: Meta, store: &mut std::collections::BTreeMap<Digest, Vec<u8>>) -> Entry {
    let digest = Digest::of(&bytes);
    let size = bytes.len() as u64;
    store.insert(digest, bytes);
    Entry::File(FileEntry { size, digest: Some(digest), meta, source: Source::Bytes })
}
