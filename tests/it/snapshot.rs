//! A whole directory as a value: every path with type, mode, owner, extended attributes, link target, content and hard
//! links; not its times.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rocm_fixup::model::{Digest, Xattr};
use rocm_fixup::stat;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub kind: &'static str,
    pub mode: u32,
    pub owner: (u32, u32),
    pub xattrs: Vec<Xattr>,
    pub target: Option<PathBuf>,
    pub content: Option<Digest>,
    /// The first path of the same inode.
    pub same_as: Option<PathBuf>,
}

pub type Snapshot = BTreeMap<PathBuf, Item>;

/// Records everything below `top`, by relative path.
pub fn snapshot(top: &Path) -> Snapshot {
    let mut first: HashMap<(u64, u64), PathBuf> = HashMap::new();
    let mut all = Snapshot::new();
    for entry in walkdir::WalkDir::new(top).sort_by_file_name() {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(top).unwrap().to_path_buf();
        let metadata = entry.path().symlink_metadata().unwrap();
        let kind = metadata.file_type();
        let (mut xattrs, mut content, mut same_as) = (Vec::new(), None, None);
        if kind.is_file() {
            let file = stat::open_regular(entry.path()).unwrap();
            xattrs = stat::xattrs(&file).unwrap();
            content = Some(Digest::of(&std::fs::read(entry.path()).unwrap()));
            let known = first.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.clone());
            same_as = (*known != path).then(|| known.clone());
        }
        let name = match () {
            () if kind.is_file() => "file",
            () if kind.is_dir() => "directory",
            () if kind.is_symlink() => "symlink",
            () if kind.is_fifo() => "pipe",
            () => "other",
        };
        let item = Item {
            kind: name,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            xattrs,
            target: kind.is_symlink().then(|| entry.path().read_link().unwrap()),
            content,
            same_as,
        };
        all.insert(path, item);
    }
    all
}

/// What differs, a line each.
pub fn differences(before: &Snapshot, after: &Snapshot) -> String {
    let mut text = String::new();
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (a, b) = (before.get(path), after.get(path));
        if a != b {
            writeln!(text, "{}: {a:?} -> {b:?}", path.display()).unwrap();
        }
    }
    text
}

pub fn assert_same(before: &Snapshot, after: &Snapshot) {
    let text = differences(before, after);
    assert!(text.is_empty(), "{text}");
}
