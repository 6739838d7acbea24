//! The whole of a tree as a value: what a change test compares before, after, and after undo.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Everything below `dir` by relative path: type, mode, owner, content or target, and which names share an inode.
/// Times and inode numbers are left out, since undo gives neither back.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut first: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.unwrap();
        let meta = std::fs::symlink_metadata(entry.path()).unwrap();
        let rel = entry.path().strip_prefix(dir).unwrap().to_path_buf();
        let what = if meta.is_symlink() {
            format!("-> {}", std::fs::read_link(entry.path()).unwrap().display())
        } else if meta.is_file() {
            let group = first.entry((meta.dev(), meta.ino())).or_insert_with(|| rel.clone());
            let content = blake3::hash(&std::fs::read(entry.path()).unwrap());
            format!("file {} {} inode of {}", meta.len(), content.to_hex(), group.display())
        } else if meta.is_dir() {
            "dir".to_owned()
        } else {
            "special".to_owned()
        };
        let owner = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
        let owner = if meta.is_symlink() { String::new() } else { owner };
        found.insert(rel, format!("{what} {owner}"));
    }
    found
}
