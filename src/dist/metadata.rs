//! What the METADATA and `direct_url.json` of a distribution say.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::read_some;
use crate::model::Distribution;

/// Headers come first in a METADATA, before the description; of torch's they are 30 KiB.
pub const HEADERS: u64 = 512 * 1024;
/// `direct_url.json` is a few hundred bytes.
const DIRECT_URL: u64 = 64 * 1024;

/// The `Requires-Dist` lines of a distribution, as written.
///
/// # Errors
/// If its METADATA can't be read.
pub fn requirements(dist: &Distribution) -> Result<Vec<String>> {
    header(dist, "requires-dist")
}

/// The extras that a distribution has, as written.
///
/// # Errors
/// If its METADATA can't be read.
pub fn extras(dist: &Distribution) -> Result<Vec<String>> {
    header(dist, "provides-extra")
}

fn header(dist: &Distribution, wanted: &str) -> Result<Vec<String>> {
    let headers =
        headers(&dist.dist_info).with_context(|| format!("can't read `{}`", dist.dist_info.display()))?;
    Ok(headers.into_iter().filter(|(key, _)| key == wanted).map(|(_, value)| value).collect())
}

/// The headers of METADATA or PKG-INFO: lower-case keys, folded lines joined. Whatever isn't a header is passed over.
pub(super) fn headers(dir: &Path) -> io::Result<Vec<(String, String)>> {
    let file = [dir.join("METADATA"), dir.join("PKG-INFO"), dir.to_path_buf()];
    let mut text = None;
    for path in file {
        match read_some(&path, HEADERS) {
            Ok(bytes) => {
                text = Some(bytes);
                break;
            }
            // A link is there, so it isn't absent: what it should lead to tells a name, and with it a RECORD.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() && path != dir => {
                let name = path.file_name().unwrap_or_default().display();
                return Err(io::Error::other(format!("{name} is a symbolic link that leads to no file")));
            }
            // An old egg-info can be a plain file.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(parse_headers(&text.ok_or(io::ErrorKind::NotFound)?))
}

/// The headers in the text of METADATA; public for the fuzz target.
#[must_use]
pub fn parse_headers(text: &[u8]) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in String::from_utf8_lossy(text).lines() {
        if line.trim().is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = headers.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((key, value)) = line.split_once(':') {
            headers.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    headers
}

/// What `direct_url.json` (PEP 610) says about an install that didn't come from an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DirectUrl {
    pub url: String,
    pub vcs_info: Option<VcsInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VcsInfo {
    pub vcs: String,
    pub commit_id: String,
}

/// `None` where the distribution came from an index, or says nothing.
///
/// # Errors
/// If the file is there, but can't be read or understood.
pub fn direct_url(dist: &Distribution) -> Result<Option<DirectUrl>> {
    let path = dist.dist_info.join("direct_url.json");
    let bytes = match read_some(&path, DIRECT_URL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("can't read `{}`", path.display()))?,
    };
    serde_json::from_slice(&bytes).map(Some).with_context(|| format!("can't understand `{}`", path.display()))
}
