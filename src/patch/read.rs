//! Looks at targets: never follows a link below the root, never opens anything but regular files, never writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::lint::SIZE_CAP;
use crate::model::{FileId, Meta, RelPath};
use crate::stat;

/// A regular file as one `open` and `fstat` saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: FileId,
    pub meta: Meta,
    pub links: u64,
    pub bytes: Vec<u8>,
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, in a directory with this owner.
    Absent {
        uid: u32,
        gid: u32,
    },
    /// Nothing, and no directory for it either.
    NoDirectory,
    File(Seen),
    /// Something that isn't changed; why, in words.
    Unfit(String),
}

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Reads the file at `path` below `root`, which must be physical.
///
/// # Errors
/// I/O errors. That a file is missing or isn't a regular one is a [`Found`].
pub fn read(root: &Path, path: &RelPath) -> Result<Found> {
    found(root, path).with_context(|| format!("can't read `{}`", root.join(path.as_path()).display()))
}

fn found(root: &Path, path: &RelPath) -> Result<Found> {
    let directory = match directory(root, path.parent())? {
        Ok(directory) => directory,
        Err(found) => return Ok(found),
    };
    let name = path.name();
    let looked = match openat(&directory, name, LOOK, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => {
            let stat = fstat(&directory)?;
            return Ok(Found::Absent { uid: stat.st_uid, gid: stat.st_gid });
        }
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&looked)?;
    if let Some(unfit) = unfit(&looked, &stat, path.as_path()) {
        return Ok(Found::Unfit(unfit));
    }
    // Not a device, so opening it does nothing but open it.
    let fd = openat(&directory, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    let opened = fstat(&fd)?;
    if (opened.st_dev, opened.st_ino) != (stat.st_dev, stat.st_ino) {
        anyhow::bail!("the file was replaced while it was read");
    }
    let meta = Meta {
        mode: opened.st_mode & 0o7777,
        uid: opened.st_uid,
        gid: opened.st_gid,
        xattrs: stat::xattrs(&fd).context("can't read its extended attributes")?,
    };
    let mut bytes = Vec::new();
    let mut file = File::from(fd).take(SIZE_CAP as u64 + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() > SIZE_CAP {
        return Ok(Found::Unfit(format!("the file is larger than {} MiB", SIZE_CAP >> 20)));
    }
    Ok(Found::File(Seen { id: stat::id_of(&opened), meta, links: opened.st_nlink, bytes }))
}

/// Opens a directory below the root one component at a time, so that a link in it is seen.
fn directory(root: &Path, below: &Path) -> Result<Result<OwnedFd, Found>> {
    // The root is physical: a link as its last component means that somebody changed it since.
    let mut fd = openat(CWD, root, DIRECTORY, Mode::empty())?;
    let mut so_far = std::path::PathBuf::new();
    for part in below.components() {
        so_far.push(part);
        let looked = match openat(&fd, part.as_os_str(), LOOK, Mode::empty()) {
            Ok(looked) => looked,
            Err(Errno::NOENT) => return Ok(Err(Found::NoDirectory)),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&looked)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => fd = openat(&fd, part.as_os_str(), DIRECTORY, Mode::empty())?,
            FileType::Symlink => {
                let text =
                    format!("`{}` above it is a symbolic link to `{}`", so_far.display(), target(&looked));
                return Ok(Err(Found::Unfit(text)));
            }
            _ => return Ok(Err(Found::Unfit(format!("`{}` above it is no directory", so_far.display())))),
        }
    }
    Ok(Ok(fd))
}

/// Why a thing isn't patched, if it isn't.
fn unfit(fd: &OwnedFd, stat: &Stat, path: &Path) -> Option<String> {
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & 0o6000 != 0 => {
            "it has the setuid or setgid bit: such a file is not patched".to_owned()
        }
        FileType::RegularFile => return None,
        FileType::Symlink => {
            let target = target(fd);
            let cache =
                if target.contains("/uv/") || target.contains("archive-v0") { " in uv's cache" } else { "" };
            format!(
                "`{}` is a symbolic link to `{target}`{cache}: replace it by a copy first (uv: --link-mode copy)",
                path.display()
            )
        }
        FileType::Directory => "it is a directory, not a regular file".to_owned(),
        FileType::Fifo => "it is a FIFO, not a regular file".to_owned(),
        _ => "it is not a regular file".to_owned(),
    })
}

/// Where an opened link points.
fn target(link: &OwnedFd) -> String {
    let target = rustix::fs::readlinkat(link, "", Vec::new());
    target.map_or_else(|_| "?".to_owned(), |t| t.to_string_lossy().escape_debug().to_string())
}

/// The names in a directory below the root, sorted; none if it isn't there or is a link.
///
/// # Errors
/// I/O errors.
pub fn names(root: &Path, below: &RelPath) -> Result<Vec<OsString>> {
    let list = || -> Result<Vec<OsString>> {
        let Ok(fd) = directory(root, below.as_path())? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        Ok(names)
    };
    list().with_context(|| format!("can't list `{}`", root.join(below.as_path()).display()))
}
