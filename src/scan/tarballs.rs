//! Payload tarballs of devel packages, which `rocm-sdk init` expands and removes.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// `rocm_sdk_devel*/_devel.tar*` below a site-packages directory: there until the devel tree is completely expanded
/// (facts.md section 1).
pub fn tarballs(site_packages: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for package in names_with(site_packages, b"rocm_sdk_devel")? {
        found.extend(names_with(&package, b"_devel.tar")?.into_iter().filter(|path| path.is_file()));
    }
    found.sort_unstable();
    Ok(found)
}

fn names_with(directory: &Path, prefix: &[u8]) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).with_context(|| format!("can't list `{}`", directory.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("can't list `{}`", directory.display()))?;
        if entry.file_name().as_bytes().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}
