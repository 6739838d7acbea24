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
    let block = parse_headers(&text);
    // What stands behind is as true as what was read, and might be the one dependency that isn't met.
    let goes_on = block.broken_by.as_ref().map_or(!block.ended, |line| text.ends_with(line.as_bytes()));
    if goes_on && text.len() as u64 >= HEADERS {
        return Err(anyhow!("its headers are longer than {} KiB", HEADERS / 1024)).with_context(doing);
    }
    if let Some(line) = block.broken_by {
        let line: String = line.chars().take(60).collect();
        return Err(anyhow!("Python sees no header behind `{line}`, which is none")).with_context(doing);
    }
    let headers = block.headers.into_iter();
    Ok(headers.filter(|(key, _)| key == wanted).map(|(_, value)| value).collect())
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
    let block = parse_headers(&text);
    // A byte order mark before the first one is enough.
    if block.headers.is_empty() && block.broken_by.is_some() {
        return Some("has a METADATA that doesn't begin with a header: Python sees none in it".into());
    }
    let named = |(key, value): &(String, String)| key == "name" && !value.is_empty();
    (!block.headers.iter().any(named)).then(|| "has no Name in its METADATA".into())
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

/// The headers of METADATA or PKG-INFO, as far as Python sees them.
pub(super) fn headers(dir: &Path) -> io::Result<Vec<(String, String)>> {
    Ok(parse_headers(&text(dir)?).headers)
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

/// The headers before a description.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeaderBlock {
    /// Lower-case keys; folded lines are joined.
    pub headers: Vec<(String, String)>,
    /// An empty line or one that is no header came.
    pub ended: bool,
    /// The line that is no header.
    pub broken_by: Option<String>,
}

/// The headers in the text of METADATA as Python's `email.parser` sees them, with which pip and `importlib.metadata`
/// read: they end at an empty line or at one that is no header. A line of blanks goes on with the header before it,
/// as in the licence texts that many wheels have there. Public for the fuzz target.
#[must_use]
pub fn parse_headers(text: &[u8]) -> HeaderBlock {
    let mut block = HeaderBlock::default();
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    for line in text.split_terminator(['\n', '\r']) {
        if line.is_empty() {
            block.ended = true;
            break;
        }
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = block.headers.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((key, value)) = line.split_once(':').filter(|(key, _)| is_key(key)) {
            block.headers.push((key.to_ascii_lowercase(), value.trim().to_owned()));
        } else if !line.starts_with("From ") {
            block.ended = true;
            block.broken_by = Some(line.to_owned());
            break;
        }
    }
    block
}

fn is_key(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic())
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
