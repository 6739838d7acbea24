//! Reports go where the user named it: a file, a pipe, an open descriptor, or the end of a file that others write to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, Access, Mode, OFlags};
use rustix::io::Errno;

use super::{sync_dir, write_whole};
use crate::held;

/// Writes a report where the user named it: whole, or not at all. What a link leads to is replaced, not the link. Pipes and
/// devices are written to as they are, and so is whatever has a name in `/dev` or `/proc`: those are open files. So is a
/// file that can't be replaced, such as a mounted one or one in somebody else's directory.
///
/// # Errors
/// Those of the system calls.
pub fn write_report(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if names_open_file(path) || path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return std::fs::OpenOptions::new().append(true).open(path)?.write_all(bytes);
    }
    let (parent, name) = place(path)?;
    let dir = held::Root::open(&parent).map_err(io::Error::other)?;
    let replaced = write_whole(dir.itself(), &name, bytes, 0o644).and_then(|()| sync_dir(dir.itself()));
    replaced.or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::BUSY | Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            write_into(dir.itself(), &name, bytes).unwrap_or(Err(error))
        }
        _ => Err(error),
    })
}

/// Writes into a file as it is; `None` if it can't be written to, or has other names, which may be anybody's.
fn write_into(dir: &held::Dir, name: &OsStr, bytes: &[u8]) -> Option<io::Result<()>> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(sys::openat(dir.fd(), name, flags, Mode::empty()).ok()?);
    let alone = file.metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1);
    alone.then(|| {
        file.set_len(0)?;
        file.write_all(bytes)?;
        file.sync_all()
    })
}

/// The physical directory that a report comes to lie in, and its name there.
fn place(path: &Path) -> io::Result<(PathBuf, OsString)> {
    let target = if path.is_symlink() { path.canonicalize()? } else { path.to_path_buf() };
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = parent.canonicalize()?;
    if !directory.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok((directory, name.to_os_string()))
}

/// Whether [`write_report`] may come to its end, as far as that can be told. Opens nothing, since the other end of a pipe
/// would notice, and leaves nothing behind.
///
/// # Errors
/// Those that writing would have.
pub fn try_report(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() || names_open_file(path) => writable(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound || names_open_file(path) => Err(error),
        // To replace it is its directory's to allow, else to write into it is its own.
        Ok(_) if is_mounted(path) => writable(path),
        Ok(meta) => makeable(&place(path)?.0)
            .or_else(|error| if meta.nlink() == 1 { writable(path).map_err(|_| error) } else { Err(error) }),
        Err(_) => makeable(&place(path)?.0),
    }
}

/// The same for [`append`].
///
/// # Errors
/// Those that appending would have.
pub fn try_append(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(_) => writable(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // A link to a file that isn't there yet: where it would be made, the open call will tell.
        Err(_) if path.is_symlink() => Ok(()),
        Err(_) => makeable(&place(path)?.0),
    }
}

/// Whether a file is the root of a mount, as by `docker run --volume FILE:FILE`: nothing takes its place.
fn is_mounted(path: &Path) -> bool {
    let found = sys::statx(sys::CWD, path, sys::AtFlags::empty(), sys::StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(sys::StatxAttributes::MOUNT_ROOT))
}

fn writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    Ok(sys::access(path, Access::WRITE_OK)?)
}

fn makeable(directory: &Path) -> io::Result<()> {
    Ok(sys::access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Whether a path is, or is a link to, something like `/dev/stdout`.
fn names_open_file(path: &Path) -> bool {
    let mut next = std::path::absolute(path).ok();
    for _ in 0..LINKS {
        let Some(path) = next else { return false };
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return true;
        }
        next = path.read_link().ok().map(|target| path.parent().unwrap_or(Path::new("/")).join(target));
    }
    false
}

/// As many links in a row as the kernel follows.
const LINKS: usize = 40;

/// Adds to a file that others write to as well, such as a step's summary.
///
/// # Errors
/// Those of the system calls.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(bytes)
}
