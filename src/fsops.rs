//! The one module that writes. Everything is staged beside its target, synced, and renamed; nothing is changed in
//! place, and a target is never removed before its replacement exists. Never decides what to write.
#![expect(clippy::disallowed_methods, reason = "this is the module that may write")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::{self as sys, AtFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::{Exit, Hint};
use crate::held::{CHUNK, Dir, Seen};
use crate::model::{Digest, Meta};
use crate::stat;

mod reports;

pub use reports::{append, try_append, try_report, write_report};

/// Makes the symlink `name` → `target`; fails where `name` exists.
///
/// # Errors
/// Those of `symlinkat`.
pub fn symlink(dir: &Dir, target: &Path, name: &OsStr) -> io::Result<()> {
    Ok(sys::symlinkat(target, dir.fd(), name)?)
}

/// Makes `name` a hard link of `from`; follows no link and fails where `name` exists.
///
/// # Errors
/// Those of `linkat`.
pub fn link(from: (&Dir, &OsStr), dir: &Dir, name: &OsStr) -> io::Result<()> {
    Ok(sys::linkat(from.0.fd(), from.1, dir.fd(), name, AtFlags::empty())?)
}

/// Where the bytes of a staged file come from.
pub enum Content<'a> {
    Bytes(&'a [u8]),
    /// The whole of an open file, whose digest must be the given one.
    File(&'a File, Option<Digest>),
}

/// Makes the file `name` with content and metadata, synced. It is written as `name.part` first, so that a file under
/// `name` is always whole. `mtime` is in seconds since the epoch, now if `None`. Whatever fails, no part of it stays.
///
/// # Errors
/// Those of the system calls; `InvalidData` where the content isn't the expected one.
pub fn stage_file(
    dir: &Dir,
    name: &OsStr,
    content: &Content<'_>,
    meta: &Meta,
    mtime: Option<i64>,
) -> io::Result<()> {
    let part = part_of(name);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(sys::openat(dir.fd(), &part, flags, Mode::from_raw_mode(0o600))?);
    let made = fill(&file, content)
        .and_then(|()| set_meta(&file, meta))
        .and_then(|()| mtime.map_or(Ok(()), |seconds| set_mtime(&file, seconds)))
        .and_then(|()| file.sync_all())
        .and_then(|()| move_new(dir, &part, name));
    made.map_err(|error| also(error, unlink(dir, &part), "the staged file could not be removed"))
}

/// The name under which a staged file is written until it is whole.
#[must_use]
pub fn part_of(name: &OsStr) -> std::ffi::OsString {
    let mut part = name.to_os_string();
    part.push(".part");
    part
}

fn fill(mut file: &File, content: &Content<'_>) -> io::Result<()> {
    match content {
        Content::Bytes(bytes) => file.write_all(bytes),
        Content::File(source, expected) => copy(source, file, *expected),
    }
}

/// Copies and hashes in one pass; runs of zeros stay holes.
fn copy(mut from: &File, mut to: &File, expected: Option<Digest>) -> io::Result<()> {
    from.rewind()?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0_u8; CHUNK];
    let mut length = 0_u64;
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..n]);
        length += n as u64;
        if buffer[..n].iter().all(|byte| *byte == 0) {
            to.seek(io::SeekFrom::Start(length))?;
        } else {
            to.write_all(&buffer[..n])?;
        }
    }
    to.set_len(length)?;
    match expected {
        Some(digest) if digest.0 != *hasher.finalize().as_bytes() => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "its content is no longer the recorded one"))
        }
        _ => Ok(()),
    }
}

/// What a directory's default ACL gives to each new file in it (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// Owner first, since `fchown` clears setuid bits; only what differs is set, so that no privilege is asked in vain.
fn set_meta(file: &File, meta: &Meta) -> io::Result<()> {
    let now = stat::meta_of(file)?;
    if (now.uid, now.gid) != (meta.uid, meta.gid) {
        sys::fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    }
    for xattr in &meta.xattrs {
        if !now.xattrs.contains(xattr) {
            sys::fsetxattr(file, &xattr.name, &xattr.value, XattrFlags::empty())?;
        }
    }
    let has_acl = |meta: &Meta| meta.xattrs.iter().any(|xattr| xattr.name == ACL);
    if has_acl(&now) && !has_acl(meta) {
        sys::fremovexattr(file, ACL)?;
    }
    Ok(sys::fchmod(file, Mode::from_raw_mode(meta.mode))?)
}

fn set_mtime(file: &File, seconds: i64) -> io::Result<()> {
    let at = |tv_nsec| sys::Timespec { tv_sec: seconds, tv_nsec };
    let times = sys::Timestamps {
        last_access: sys::Timespec { tv_nsec: sys::UTIME_OMIT, ..at(0) },
        last_modification: at(0),
    };
    Ok(sys::futimens(file, &times)?)
}

/// Swaps two names of one directory in one step.
///
/// # Errors
/// Those of `renameat2`; [`no_exchange`] tells whether the file system can't do it at all.
pub fn exchange(dir: &Dir, a: &OsStr, b: &OsStr) -> io::Result<()> {
    Ok(sys::renameat_with(dir.fd(), a, dir.fd(), b, RenameFlags::EXCHANGE)?)
}

/// Whether an error of [`exchange`] means that this file system or kernel doesn't know it.
#[must_use]
pub fn no_exchange(error: &io::Error) -> bool {
    let codes = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Renames `from` over `to`.
///
/// # Errors
/// Those of `renameat`.
pub fn replace(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    Ok(sys::renameat(dir.fd(), from, dir.fd(), to)?)
}

/// Renames `from` to `to`, which must not exist. Where the file system can't rename without replacing, by a link.
///
/// # Errors
/// Those of `renameat2`; `EEXIST` where `to` exists.
pub fn move_new(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match sys::renameat_with(dir.fd(), from, dir.fd(), to, RenameFlags::NOREPLACE) {
        Err(error) if no_exchange(&error.into()) => {
            sys::linkat(dir.fd(), from, dir.fd(), to, AtFlags::empty())?;
            Ok(sys::unlinkat(dir.fd(), from, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

/// Removes a name of ours: a stage, a journal file. A name that is already gone is fine.
///
/// # Errors
/// Those of `unlinkat`.
pub fn unlink(dir: &Dir, name: &OsStr) -> io::Result<()> {
    match sys::unlinkat(dir.fd(), name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // Where nothing may be written, the kernel says so before it looks for the name.
        Err(Errno::ROFS) if dir.look(name).is_ok_and(|seen| seen == Seen::Absent) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the directory `name`, mode 0755; one that is already there is fine.
///
/// # Errors
/// Those of `mkdirat`.
pub fn make_dir(dir: &Dir, name: &OsStr) -> io::Result<()> {
    match sys::mkdirat(dir.fd(), name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the directory `name` if it is empty; says whether it did.
///
/// # Errors
/// Those of `unlinkat`, except that a directory which isn't empty is an answer.
pub fn remove_empty_dir(dir: &Dir, name: &OsStr) -> io::Result<bool> {
    match sys::unlinkat(dir.fd(), name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// Those of `fsync`. A failed `fsync` must not be tried again: the kernel may report success over lost data.
pub fn sync_dir(dir: &Dir) -> io::Result<()> {
    Ok(sys::fsync(dir.fd())?)
}

/// Writes a small file whole: staged, synced, renamed over `name`. The directory is synced by the caller.
///
/// # Errors
/// Those of the system calls.
pub fn write_whole(dir: &Dir, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let part = part_of(name);
    unlink(dir, &part)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(sys::openat(dir.fd(), &part, flags, Mode::from_raw_mode(mode))?);
    let made = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| replace(dir, &part, name));
    made.map_err(|error| also(error, unlink(dir, &part), "the staged file could not be removed"))
}

/// Joins an error with one of the clean-up after it, so that neither hides the other.
fn also(error: io::Error, cleanup: io::Result<()>, what: &str) -> io::Error {
    match cleanup {
        Ok(()) => error,
        Err(second) => io::Error::new(error.kind(), format!("{error}; besides, {what}: {second}")),
    }
}

/// An exclusive lock on a directory, held until dropped. Nothing is written for it.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] std::os::fd::OwnedFd);

/// Takes the lock of `dir`, waiting up to `patience`; `waiting` is called once when another process holds it.
///
/// # Errors
/// When the other process doesn't end in time, or the file system has no locks.
pub fn lock(dir: &Dir, patience: Duration, waiting: impl FnOnce()) -> anyhow::Result<Lock> {
    let fd = dir.fd().as_fd().try_clone_to_owned().context("can't copy a descriptor")?;
    // A descriptor of its own: flock belongs to the open file description, and `dir` may be shared.
    let fd = sys::openat(&fd, ".", OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("can't open `{}` for its lock", dir.path().display()))?;
    let start = Instant::now();
    let mut waiting = Some(waiting);
    loop {
        match sys::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(fd)),
            Err(Errno::WOULDBLOCK | Errno::INTR) if start.elapsed() < patience => {
                if let Some(call) = waiting.take() {
                    call();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::WOULDBLOCK) => {
                let error = anyhow::anyhow!("another rocm-fixup is at work on `{}`", dir.path().display());
                return Err(error
                    .context(Hint::new("wait for it to end, or raise --lock-timeout"))
                    .context(Exit::Failed));
            }
            Err(error) => {
                bail!("can't lock `{}`: {}", dir.path().display(), io::Error::from(error))
            }
        }
    }
}
