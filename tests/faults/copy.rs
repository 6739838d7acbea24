//! Copies a tree with everything that the oracle looks at: hard links, modes, owners, attributes, times.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs as sys;

/// Copies what lies in `from` into `to`, which must be an empty directory.
pub fn tree(from: &Path, to: &Path) -> std::io::Result<()> {
    inside(from, to, &mut HashMap::new())
}

fn inside(from: &Path, to: &Path, made: &mut HashMap<(u64, u64), PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        let meta = old.symlink_metadata()?;
        if meta.is_dir() {
            fs::create_dir(&new)?;
            inside(&old, &new, made)?;
        } else if meta.is_symlink() {
            symlink(fs::read_link(&old)?, &new)?;
        } else if let Some(first) = made.get(&(meta.dev(), meta.ino())) {
            fs::hard_link(first, &new)?;
            continue;
        } else if meta.is_file() {
            fs::copy(&old, &new)?;
            made.insert((meta.dev(), meta.ino()), new.clone());
        } else {
            continue;
        }
        if (meta.uid(), meta.gid()) != owner(&new)? {
            lchown(&new, Some(meta.uid()), Some(meta.gid()))?;
        }
        if !meta.is_symlink() {
            fs::set_permissions(&new, fs::Permissions::from_mode(meta.mode()))?;
            attributes(&old, &new)?;
        }
        times(&new, &meta)?;
    }
    Ok(())
}

fn owner(path: &Path) -> std::io::Result<(u32, u32)> {
    path.symlink_metadata().map(|meta| (meta.uid(), meta.gid()))
}

fn attributes(old: &Path, new: &Path) -> std::io::Result<()> {
    let mut names = vec![0_u8; 4096];
    let length = sys::llistxattr(old, &mut names[..]).unwrap_or(0);
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0_u8; 4096];
        let length = sys::lgetxattr(old, &name, &mut value[..])?;
        sys::lsetxattr(new, &name, &value[..length], sys::XattrFlags::empty())?;
    }
    Ok(())
}

fn times(path: &Path, meta: &fs::Metadata) -> std::io::Result<()> {
    let at = |tv_sec, tv_nsec: i64| sys::Timespec { tv_sec, tv_nsec };
    let times = sys::Timestamps {
        last_access: at(meta.atime(), meta.atime_nsec()),
        last_modification: at(meta.mtime(), meta.mtime_nsec()),
    };
    Ok(sys::utimensat(sys::CWD, path, &times, sys::AtFlags::SYMLINK_NOFOLLOW)?)
}
