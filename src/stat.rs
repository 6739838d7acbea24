//! What one file is: its identity, permissions, extended attributes and mount; and opening it for reading. Never follows
//! a symlink at the last component, never blocks, never writes.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use crate::model::{FileId, Meta, Xattr};

/// The identity that std's `stat` told.
#[must_use]
pub fn file_id(metadata: &Metadata) -> FileId {
    FileId {
        dev: metadata.dev(),
        ino: metadata.ino(),
        size: metadata.size(),
        mtime: nanos(metadata.mtime(), i128::from(metadata.mtime_nsec())),
        ctime: nanos(metadata.ctime(), i128::from(metadata.ctime_nsec())),
    }
}

/// The identity that a raw `stat` told.
#[must_use]
pub fn id_of(stat: &Stat) -> FileId {
    FileId {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: nanos(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
        ctime: nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
    }
}

fn nanos(seconds: i64, rest: i128) -> i128 {
    i128::from(seconds) * 1_000_000_000 + rest
}

/// Mode and owner that a `stat` told, without extended attributes.
#[must_use]
pub fn meta(metadata: &Metadata) -> Meta {
    Meta { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), xattrs: Vec::new() }
}

/// Mode, owner and extended attributes of an open file.
///
/// # Errors
/// Those of `fstat` and [`xattrs`].
pub fn meta_of(file: &File) -> io::Result<Meta> {
    let stat = rustix::fs::fstat(file)?;
    Ok(Meta { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, xattrs: xattrs(file)? })
}

/// Which mount a name lies on; `None` where the kernel (before 5.8) or its seccomp profile doesn't tell. Not `st_dev`,
/// which differs between the layers of one overlay and the subvolumes of one btrfs.
///
/// # Errors
/// Those of `statx`.
pub fn mount_of(path: &Path) -> io::Result<Option<u64>> {
    let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID);
    match rustix::fs::statx(rustix::fs::CWD, path, flags, wanted) {
        Ok(told) => Ok((told.stx_mask & wanted.bits() != 0).then_some(told.stx_mnt_id)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The mount that a name lies on, or its device where mounts can't be told: two that differ are not on one file system
/// tree, two that don't may be.
///
/// # Errors
/// Those of `lstat` and `statx`.
pub fn mount_or_device(path: &Path) -> io::Result<(bool, u64)> {
    let device = path.symlink_metadata()?.dev();
    Ok(mount_of(path)?.map_or((false, device), |mount| (true, mount)))
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
/// When they can't be read.
pub fn xattrs(file: impl AsFd) -> io::Result<Vec<Xattr>> {
    use rustix::fs::{fgetxattr, fgetxattr_query, flistxattr, flistxattr_query};
    let names = match sized(|| flistxattr_query(&file), |buffer| flistxattr(&file, buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8(name.to_vec()).map_err(io::Error::other)?;
        match sized(|| fgetxattr_query(&file, &name), |buffer| fgetxattr(&file, &name, buffer)) {
            Ok(value) => found.push(Xattr { name, value }),
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Asks for the size, then for the bytes, until both agree.
fn sized(
    query: impl Fn() -> rustix::io::Result<usize>,
    get: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    loop {
        let mut buffer = vec![0; query()?];
        if buffer.is_empty() {
            return Ok(buffer);
        }
        match get(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error),
        }
    }
}
