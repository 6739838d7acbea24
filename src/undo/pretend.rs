//! What a dry run of undo has taken back so far, in thought: later changes are judged by it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::model::{Digest, Entry};

/// Entries by absolute path: the runs that are taken back one after the other have roots of their own.
#[derive(Clone, Debug, Default)]
pub struct Pretend {
    entries: HashMap<PathBuf, There>,
}

/// What would be at a path. Where its bytes would come from means nothing to another run.
#[derive(Clone, Debug)]
pub struct There(Entry);

impl Pretend {
    pub fn put(&mut self, path: PathBuf, entry: &Entry) {
        self.entries.insert(path, There(entry.clone()));
    }

    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&There> {
        self.entries.get(path)
    }
}

impl There {
    /// Whether it would be taken for this entry.
    #[must_use]
    pub fn is(&self, entry: &Entry) -> bool {
        match (&self.0, entry) {
            (Entry::File(a), Entry::File(b)) => a.meta == b.meta && self.has(b.size, b.digest),
            (a, b) => a == b,
        }
    }

    /// Whether it would be a file with this content, as far as that was ever read.
    #[must_use]
    pub fn has(&self, size: u64, digest: Option<Digest>) -> bool {
        let Entry::File(file) = &self.0 else { return false };
        let unlike = file.digest.zip(digest).is_some_and(|(a, b)| a != b);
        file.size == size && !unlike
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FileEntry, Meta, Source};

    #[test]
    fn a_file_is_one_by_content_and_metadata_wherever_its_bytes_come_from() {
        let meta = Meta { mode: 0o644, uid: 0, gid: 0, xattrs: Vec::new() };
        let file = FileEntry { size: 3, digest: Some(Digest::of(b"one")), meta, source: Source::Bytes };
        let there = There(Entry::File(file.clone()));
        assert!(there.is(&Entry::File(FileEntry { source: Source::Refresh, ..file.clone() })));
        let closed = Meta { mode: 0o600, ..file.meta.clone() };
        assert!(!there.is(&Entry::File(FileEntry { meta: closed, ..file.clone() })));
        assert!(!there.is(&Entry::File(FileEntry { digest: Some(Digest::of(b"two")), ..file.clone() })));
        assert!(there.is(&Entry::File(FileEntry { digest: None, ..file.clone() })), "never read");
        assert!(!there.is(&Entry::File(FileEntry { size: 4, digest: None, ..file })));
        assert!(!there.is(&Entry::Absent));
    }
}
