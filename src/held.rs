//! Held directories: every look at a place goes through a directory descriptor that was opened beneath its root,
//! so that a swapped path component can't lead outside (reliability.md, section 0.5). Reads only; never writes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::model::{Digest, FileId};
use crate::stat;

/// One read of a file that is hashed or copied, bytes.
pub const CHUNK: usize = 1 << 20;

/// A root directory, held open. Its path is physical: no symlink on the way.
#[derive(Debug)]
pub struct Root {
    dir: Dir,
}

/// A directory below a root, held open; `path` serves messages only.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// What is at a name right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Absent,
    File {
        id: FileId,
        nlink: u64,
    },
    Symlink {
        target: PathBuf,
    },
    /// A directory, fifo, socket or device: never ours.
    Other(&'static str),
}

impl Root {
    /// Opens `path`, which must be absolute and physical.
    ///
    /// # Errors
    /// When it is missing, no directory, unreadable, or when a component of it is a symlink.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let fd = (|| -> rustix::io::Result<OwnedFd> {
            let slash = sys::openat(CWD, "/", DIRECTORY, Mode::empty())?;
            match path.strip_prefix("/") {
                Ok(rel) if rel.as_os_str().is_empty() => Ok(slash),
                Ok(rel) => open_beneath(slash.as_fd(), rel),
                Err(_) => Err(Errno::INVAL),
            }
        })()
        .with_context(|| format!("can't open the directory `{}` without following links", path.display()))?;
        Ok(Self { dir: Dir { fd, path: path.to_path_buf() } })
    }

    /// The root itself.
    #[must_use]
    pub fn itself(&self) -> &Dir {
        &self.dir
    }

    /// The directory `rel` below the root, reached without following any link; the root itself for an empty path.
    ///
    /// # Errors
    /// Those of the kernel; `ELOOP` or `ENOTDIR` where a component is a symlink.
    pub fn dir(&self, rel: &Path) -> io::Result<Dir> {
        let path = self.dir.path.join(rel);
        let fd = if rel.as_os_str().is_empty() {
            self.dir.fd.try_clone()?
        } else {
            open_beneath(self.dir.fd.as_fd(), rel)?
        };
        Ok(Dir { fd, path })
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// `openat2` where the kernel and its seccomp profile allow it, else a walk that follows no link.
fn open_beneath(at: BorrowedFd<'_>, rel: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match sys::openat2(at, rel, DIRECTORY, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk_beneath(at, rel),
        other => other,
    }
}

fn walk_beneath(at: BorrowedFd<'_>, rel: &Path) -> rustix::io::Result<OwnedFd> {
    let mut held: Option<OwnedFd> = None;
    for component in rel.components() {
        let std::path::Component::Normal(name) = component else { return Err(Errno::XDEV) };
        let here = held.as_ref().map_or(at, OwnedFd::as_fd);
        held = Some(sys::openat(here, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?);
    }
    held.ok_or(Errno::INVAL)
}

impl Dir {
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The absolute path of `name` in here, for messages.
    #[must_use]
    pub fn named(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is at `name`; links are not followed.
    ///
    /// # Errors
    /// Those of `fstatat` and `readlinkat`, except that a missing name is an answer.
    pub fn look(&self, name: &OsStr) -> io::Result<Seen> {
        // Between the two calls a link can be replaced by a file, or go: then that is what is there now.
        for _ in 0..100 {
            match self.look_once(name) {
                Err(Errno::INVAL | Errno::NOENT) => {}
                looked => return Ok(looked?),
            }
        }
        Ok(self.look_once(name)?)
    }

    fn look_once(&self, name: &OsStr) -> rustix::io::Result<Seen> {
        let stat = match sys::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Seen::Absent),
            Err(error) => return Err(error),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Seen::File { id: stat::id_of(&stat), nlink: stat.st_nlink },
            FileType::Symlink => {
                let target = sys::readlinkat(&self.fd, name, Vec::new())?;
                Seen::Symlink { target: PathBuf::from(OsString::from_vec(target.into_bytes())) }
            }
            FileType::Directory => Seen::Other("a directory"),
            FileType::Fifo => Seen::Other("a fifo"),
            FileType::Socket => Seen::Other("a socket"),
            _ => Seen::Other("a device"),
        })
    }

    /// Opens the regular file `name` for reading; follows no link and never blocks on a fifo.
    ///
    /// # Errors
    /// Those of `openat`; `InvalidInput` where `name` is no regular file.
    pub fn open(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(sys::openat(&self.fd, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }

    /// The names in this directory, in no order.
    ///
    /// # Errors
    /// Those of `getdents`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut found = Vec::new();
        for entry in sys::Dir::read_from(&self.fd)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Whether this directory lies on overlayfs, where moving a file of a lower layer copies it up first.
    #[must_use]
    pub fn on_overlay(&self) -> bool {
        const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
        sys::fstatfs(&self.fd).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(OVERLAYFS_SUPER_MAGIC))
    }
}

/// Whether a directory could not be opened because a component of its path is a link or no directory.
#[must_use]
pub fn is_link_on_the_way(error: &io::Error) -> bool {
    let codes = [Errno::LOOP, Errno::NOTDIR, Errno::XDEV].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// BLAKE3 of what is left to read.
///
/// # Errors
/// Those of `read`.
pub fn digest_of(mut file: &File) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Digest(*hasher.finalize().as_bytes())),
            Ok(n) => {
                hasher.update(&buffer[..n]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
