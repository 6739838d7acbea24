//! The files that a distribution's RECORD lists.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::read_some;
use crate::model::Distribution;

/// The RECORD of the largest wheels has some 10 MB.
const RECORD: u64 = 256 * 1024 * 1024;

/// Where the distribution's RECORD is, or would be.
#[must_use]
pub fn record(dist: &Distribution) -> PathBuf {
    dist.dist_info.join("RECORD")
}

/// The files of a distribution by its RECORD, absolute; `None` where it has none (distro packages, egg-info).
///
/// # Errors
/// If RECORD is there but can't be read.
pub fn files(dist: &Distribution) -> Result<Option<Vec<PathBuf>>> {
    let path = record(dist);
    files_in(&path, &dist.site_packages).with_context(|| format!("can't read `{}`", path.display()))
}

/// The bytes of a RECORD; `None` where there is none.
///
/// # Errors
/// If it is there but can't be read.
pub fn read_record(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_some(path, RECORD) {
        // An old egg-info can be a plain file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        bytes => bytes.map(Some),
    }
}

pub(super) fn files_in(record: &Path, site: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let Some(bytes) = read_record(record)? else { return Ok(None) };
    let rows = bytes.split(|&byte| byte == b'\n').filter_map(first_field);
    Ok(Some(rows.map(|field| site.join(OsStr::from_bytes(&field))).collect()))
}

/// The first field of a CSV row, unquoted.
fn first_field(row: &[u8]) -> Option<Vec<u8>> {
    let row = row.strip_suffix(b"\r").unwrap_or(row);
    let Some(quoted) = row.strip_prefix(b"\"") else {
        let end = row.iter().position(|&byte| byte == b',').unwrap_or(row.len());
        return (end > 0).then(|| row[..end].to_vec());
    };
    let mut field = Vec::new();
    let mut bytes = quoted.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if bytes.peek() == Some(&b'"') => field.extend(bytes.next()),
            b'"' => return Some(field),
            other => field.push(other),
        }
    }
    None
}
