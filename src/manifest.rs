//! Reads device manifests: the links below the devel tree that the per-GPU packages own and that `rocm-sdk` re-makes
//! as hard links on every call (facts.md section 1). Decides nothing, and trusts nothing that they say.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::error::Hint;
use crate::model::{RelPath, Role, Tree};
use crate::stat::open_regular;

/// Real ones have some hundred kilobytes.
const LARGEST: u64 = 16 << 20;

/// One entry: a file of a libraries tree that shall also be in the devel tree, as a hard link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceLink {
    /// Below the devel tree.
    pub devel: RelPath,
    /// The path below site-packages that the target spells out, if it stays in there.
    pub target: Option<RelPath>,
}

#[derive(Deserialize)]
struct Document {
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    relpath: PathBuf,
    target: PathBuf,
}

/// All entries of one libraries tree's manifests for a devel directory that is called `devel` in site-packages.
/// Entries that don't name something below the devel tree are dropped. A libraries tree without manifests has none.
///
/// # Errors
/// When a manifest can't be read, is over 16 MB, or isn't the JSON that it should be.
pub fn read(libraries: &Tree, devel: &Path) -> anyhow::Result<Vec<DeviceLink>> {
    let directory = libraries.path.join(".devel_links");
    let mut found = Vec::new();
    // A symlink in its place is not what the wheel brought.
    let listing = || format!("can't list `{}`", directory.display());
    let there = match directory.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        looked => looked.with_context(listing)?.is_dir(),
    };
    if libraries.role != Role::Libraries || !there {
        return Ok(found);
    }
    for entry in directory.read_dir().with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let bytes =
                bytes(&path).with_context(|| format!("can't read device manifest `{}`", path.display()))?;
            let links = parse(&bytes, devel)
                .with_context(|| format!("bad device manifest `{}`", path.display()))
                .context(Hint::new("reinstall the device package that it belongs to"))?;
            found.extend(links);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        bail!("larger than {} MB", LARGEST >> 20);
    }
    Ok(bytes)
}

/// The links that a manifest names, below the devel tree of that name; public for the fuzz target.
///
/// # Errors
/// When it isn't the JSON that it should be.
pub fn parse(bytes: &[u8], devel: &Path) -> anyhow::Result<Vec<DeviceLink>> {
    let document: Document = serde_json::from_slice(bytes)?;
    Ok(document
        .links
        .into_iter()
        .filter_map(|link| {
            let path = RelPath::new(&link.relpath)?;
            let target = resolve(&devel.join(path.parent()), &link.target);
            Some(DeviceLink { devel: path, target })
        })
        .collect())
}

/// Follows `target` from `directory`, both below site-packages, by spelling alone.
fn resolve(directory: &Path, target: &Path) -> Option<RelPath> {
    let mut parts: Vec<_> = directory.components().collect();
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(_) => parts.push(component),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    RelPath::new(parts.into_iter().collect::<PathBuf>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_resolved_from_the_links_directory() {
        let json = br#"{"links":[
            {"relpath":"lib/k/a.co","target":"../../../_rocm_sdk_libraries/lib/k/a.co"},
            {"relpath":"lib/b.co","target":"../../../../etc/passwd"},
            {"relpath":"lib/c.co","target":"/etc/passwd"},
            {"relpath":"../d.co","target":"x"},
            {"relpath":"/e.co","target":"x"}]}"#;
        let links = parse(json, Path::new("_rocm_sdk_devel")).unwrap();
        let target = |i: usize| links[i].target.as_ref().map(ToString::to_string);
        assert_eq!(links.len(), 3);
        assert_eq!(target(0).as_deref(), Some("_rocm_sdk_libraries/lib/k/a.co"));
        assert_eq!((target(1), target(2)), (None, None));
    }

    #[test]
    fn other_documents_are_an_error() {
        for bad in
            ["", "[]", "{}", r#"{"links":{}}"#, r#"{"links":[{"relpath":1}]}"#, "{\"links\":[", "\u{0}"]
        {
            assert!(parse(bad.as_bytes(), Path::new("d")).is_err(), "{bad}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(deep.as_bytes(), Path::new("d")).is_err());
    }
}
