//! Opens files for reading and tells what one file is. Never follows a symlink at the last component, never blocks.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use crate::model::{FileId, Meta, Xattr};

/// The identity that a `stat` told.
#[must_use]
pub fn file_id(metadata: &Metadata) -> FileId {
    let nanos = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    FileId {
        dev: metadata.dev(),
        ino: metadata.ino(),
        size: metadata.size(),
        mtime: nanos(metadata.mtime(), metadata.mtime_nsec()),
        ctime: nanos(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Mode and owner that a `stat` told, without extended attributes.
#[must_use]
pub fn meta(metadata: &Metadata) -> Meta {
    Meta { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), xattrs: Vec::new() }
}

/// Which mount a name lies on; `None` where the kernel (before 5.8) can't tell. Not `st_dev`, which differs between the
/// layers of one overlay and the subvolumes of one btrfs.
#[must_use]
pub fn mount_of(path: &Path) -> Option<u64> {
    let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID);
    let told = rustix::fs::statx(rustix::fs::CWD, path, flags, wanted).ok()?;
    (told.stx_mask & wanted.bits() != 0).then_some(told.stx_mnt_id)
}

/// Opens a regular file for reading, never through a symlink at its last component, and never blocking on a pipe.
///
/// # Errors
/// Those of `open`, and "not a regular file".
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// All extended attributes of an open file that this process may see, sorted; none where the file system has none.
///
/// # Errors
/// When they can't be read, or change while they are read.
pub fn xattrs(file: &File) -> io::Result<Vec<Xattr>> {
    let length = match rustix::fs::flistxattr_query(file) {
        Ok(length) => length,
        Err(rustix::io::Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    if length == 0 {
        return Ok(Vec::new());
    }
    let mut names = vec![0; length];
    let length = rustix::fs::flistxattr(file, &mut names[..])?;
    let mut found = Vec::new();
    for name in names[..length].split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; rustix::fs::fgetxattr_query(file, name)?];
        if !value.is_empty() {
            let length = rustix::fs::fgetxattr(file, name, &mut value[..])?;
            value.truncate(length);
        }
        let name = String::from_utf8(name.to_vec()).map_err(io::Error::other)?;
        found.push(Xattr { name, value });
    }
    found.sort_unstable();
    Ok(found)
}
