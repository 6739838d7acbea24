//! Reports go where the user named it: a file, a pipe, an open descriptor, or the end of a file that others write to.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, Access};
use rustix::io::Errno;

use super::{sync_dir, write_whole};
use crate::held;

/// Writes a report where the user named it: whole, or not at all. What a link leads to is replaced, not the link. Pipes and
/// devices are written to as they are, and so is whatever has a name in `/dev` or `/proc`: those are open files.
///
/// # Errors
/// Those of the system calls.
pub fn write_report(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if names_open_file(path) || path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return std::fs::OpenOptions::new().append(true).open(path)?.write_all(bytes);
    }
    let (parent, name) = place(path)?;
    let dir = held::Root::open(&parent).map_err(io::Error::other)?;
    write_whole(dir.itself(), &name, bytes, 0o644)?;
    sync_dir(dir.itself())
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
        // The file itself is replaced: that is its directory's to allow.
        _ => makeable(&place(path)?.0),
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
