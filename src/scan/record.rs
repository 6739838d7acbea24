//! One name of a library or program: what `lstat` tells of it, and where it leads.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::model::{FileId, Meta, Place};
use crate::stat::{file_id, meta, mount_of};

/// One name of a library or executable, as `lstat` told. `meta.xattrs` is empty: see [`crate::stat::xattrs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    pub place: Place,
    pub id: FileId,
    pub nlink: u64,
    pub meta: Meta,
    pub kind: Kind,
    /// It lies on another mount than its tree's root, and so may not be there in the image.
    pub mounted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Symlink {
        target: PathBuf,
        leads: Leads,
    },
    /// A directory, device, socket or pipe under a library's name.
    Other,
}

/// Where a symlink ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// At this physical path.
    To(PathBuf),
    Nowhere,
    InCircles,
    /// It can't be told, for this reason.
    Unknown(String),
}

impl FileRecord {
    /// Looks at `path`, the name of `place` in a tree whose root lies on `mount`.
    pub(super) fn of(place: &Place, path: &Path, mount: Option<u64>) -> io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        let file_type = metadata.file_type();
        let kind = if file_type.is_file() {
            Kind::File
        } else if file_type.is_symlink() {
            Kind::Symlink { target: path.read_link()?, leads: leads(path) }
        } else {
            Kind::Other
        };
        let mounted = mount.is_some() && mount_of(path)?.is_some_and(|own| Some(own) != mount);
        let (id, nlink, meta) = (file_id(&metadata), metadata.nlink(), meta(&metadata));
        Ok(Self { place: place.clone(), id, nlink, meta, kind, mounted })
    }
}

fn leads(path: &Path) -> Leads {
    match path.canonicalize() {
        Ok(end) => Leads::To(end),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Leads::Nowhere
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Leads::InCircles
        }
        Err(error) => Leads::Unknown(error.to_string()),
    }
}
