//! What the METADATA and `direct_url.json` of a distribution say.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

use super::{read_some, requires_txt};
use crate::model::Distribution;

/// Headers come first in a METADATA, before the description; of torch's they are 30 KiB.
pub const HEADERS: u64 = 512 * 1024;
/// `direct_url.json` is a few hundred bytes.
const DIRECT_URL: u64 = 64 * 1024;

/// The `Requires-Dist` lines of a distribution, as written; where there are none, those of `requires.txt`.
///
/// # Errors
/// If its METADATA can't be read, or not to the end of its headers.
pub fn requirements(dist: &Distribution) -> Result<Vec<String>> {
    let found = header(dist, "requires-dist")?;
    if found.is_empty() { Ok(requires_txt::requirements(&egg_info(dist)?)) } else { Ok(found) }
}

/// The extras that a distribution has, as written.
///
/// # Errors
/// If its METADATA can't be read, or not to the end of its headers.
pub fn extras(dist: &Distribution) -> Result<Vec<String>> {
    let mut found = header(dist, "provides-extra")?;
    found.extend(requires_txt::extras(&egg_info(dist)?));
    Ok(found)
}

fn header(dist: &Distribution, wanted: &str) -> Result<Vec<String>> {
    let doing = || format!("can't read the metadata in `{}`", dist.dist_info.display());
    let text = text(&dist.dist_info).with_context(doing)?;
    if is_cut(&text) {
        // What stands behind is as true as what was read, and might be the one dependency that isn't met.
        return Err(anyhow!("its headers are longer than {} KiB", HEADERS / 1024)).with_context(doing);
    }
    let headers = parse_headers(&text).into_iter();
    Ok(headers.filter(|(key, _)| key == wanted).map(|(_, value)| value).collect())
}

/// Whether [`HEADERS`] was too little to see the end of the headers.
fn is_cut(text: &[u8]) -> bool {
    text.len() as u64 >= HEADERS && !String::from_utf8_lossy(text).lines().any(|line| line.trim().is_empty())
}

/// Why a metadata directory tells no name that Python would see; `None` where it does.
pub(super) fn in_doubt(dir: &Path) -> Option<String> {
    let text = match text(dir) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_any(dir) => {
            return Some("has something else than a file as METADATA".into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some("has no METADATA".into()),
        Err(error) => return Some(format!("has a METADATA that can't be read: {error}")),
    };
    // After a first line that is no header, Python takes all for the description; a byte order mark is enough.
    let key = text.split(|&byte| byte == b':' || byte == b'\n').next().unwrap_or_default();
    let is_header = key.iter().all(u8::is_ascii_graphic) && text.get(key.len()) == Some(&b':');
    if !text.is_empty() && !is_header {
        return Some("has a METADATA that doesn't begin with a header: Python sees none in it".into());
    }
    let named = |(key, value): &(String, String)| key == "name" && !value.is_empty();
    (!parse_headers(&text).iter().any(named)).then(|| "has no Name in its METADATA".into())
}

/// Whether anything is there under the name of a metadata file.
pub(super) fn has_any(dir: &Path) -> bool {
    let absent = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    let there = |name: &str| !dir.join(name).symlink_metadata().is_err_and(absent);
    !dir.is_dir() || there("METADATA") || there("PKG-INFO")
}

/// The text of `requires.txt`; empty where there is none.
fn egg_info(dist: &Distribution) -> Result<String> {
    let path = dist.dist_info.join("requires.txt");
    let doing = || format!("can't read `{}`", path.display());
    match read_some(&path, HEADERS) {
        // An old egg-info can be a plain file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(String::new())
        }
        Ok(bytes) if bytes.len() as u64 >= HEADERS => {
            Err(anyhow!("it is longer than {} KiB", HEADERS / 1024)).with_context(doing)
        }
        bytes => Ok(String::from_utf8_lossy(&bytes.with_context(doing)?).into_owned()),
    }
}

/// The headers of METADATA or PKG-INFO: lower-case keys, folded lines joined. Whatever isn't a header is passed over.
pub(super) fn headers(dir: &Path) -> io::Result<Vec<(String, String)>> {
    Ok(parse_headers(&text(dir)?))
}

/// The beginning of METADATA or PKG-INFO, with all headers if they are of any reasonable length.
fn text(dir: &Path) -> io::Result<Vec<u8>> {
    let file = [dir.join("METADATA"), dir.join("PKG-INFO"), dir.to_path_buf()];
    for path in file {
        match read_some(&path, HEADERS) {
            Ok(bytes) => return Ok(bytes),
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
    Err(io::ErrorKind::NotFound.into())
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
