//! The meaning of a plan of deduplication in as few lines as possible: what the applier is held against, and how the
//! planner's tests see that a plan can be undone. No safety of any kind.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use rocm_fixup::model::{Entry, FileEntry, Plan, Source};
use rustix::fs::{XattrFlags, setxattr};

/// Each change finds its `before` when its turn comes.
pub fn apply(plan: &Plan) {
    for change in &plan.changes {
        let path = plan.absolute(&change.at);
        match &change.before {
            Entry::Absent => assert!(path.symlink_metadata().is_err()),
            Entry::Symlink { target } => assert_eq!(path.read_link().unwrap(), *target),
            Entry::File(file) => assert!(present(plan, &path, file), "{change:?}"),
        }
        make(plan, &path, &change.after);
    }
}

pub fn undo(plan: &Plan) {
    for change in plan.changes.iter().rev() {
        make(plan, &plan.absolute(&change.at), &change.before);
    }
}

fn make(plan: &Plan, path: &Path, entry: &Entry) {
    match entry {
        Entry::Absent => fs::remove_file(path).unwrap(),
        Entry::Symlink { target } => {
            fs::remove_file(path).unwrap();
            symlink(target, path).unwrap();
        }
        Entry::File(file) if present(plan, path, file) => {}
        Entry::File(file) => {
            let stage = path.with_extension("stage");
            let copy = |from: &Path| {
                fs::copy(from, &stage).unwrap();
                fs::set_permissions(&stage, fs::Permissions::from_mode(file.meta.mode)).unwrap();
                for one in &file.meta.xattrs {
                    setxattr(&stage, &one.name, &one.value, XattrFlags::empty()).unwrap();
                }
            };
            match &file.source {
                Source::LinkTo(place) => fs::hard_link(plan.absolute(place), &stage).unwrap(),
                Source::CopyOf(place) => copy(&plan.absolute(place)),
                Source::Refresh => copy(path),
                Source::Bytes => fs::write(&stage, &plan.contents[&file.digest.unwrap()]).unwrap(),
            }
            fs::rename(stage, path).unwrap();
        }
    }
}

/// As the sources say (`model::Source`).
fn present(plan: &Plan, path: &Path, file: &FileEntry) -> bool {
    let inode = |path: &Path| path.symlink_metadata().ok().map(|m| (m.dev(), m.ino()));
    let is_file = path.symlink_metadata().is_ok_and(|m| m.is_file() && m.len() == file.size);
    is_file
        && match &file.source {
            Source::LinkTo(place) => inode(path) == inode(&plan.absolute(place)),
            Source::CopyOf(place) => inode(path) != inode(&plan.absolute(place)),
            Source::Refresh => false,
            Source::Bytes => true,
        }
}
