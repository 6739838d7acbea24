//! Installed distributions, read from `*.dist-info` and `*.egg-info` by the binary itself. Starts no Python, reads at
//! most [`HEADERS`] bytes of a METADATA, and never writes.

mod claims;
mod metadata;
mod record;
mod requires_txt;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags};

use crate::model::{Distribution, normalised};

pub use claims::{Claims, claims, unclear};
pub use metadata::{DirectUrl, HEADERS, VcsInfo, direct_url, extras, parse_headers, requirements};
pub use record::{files, read_record, record};

/// All distributions of the directories, in their order and by name; for one name the first counts. What can't be read
/// is left out.
#[must_use]
pub fn all(site_packages: &[PathBuf]) -> Vec<Distribution> {
    let read = |site: &PathBuf| metadata_dirs(site).iter().filter_map(|(dir, _)| read(site, dir)).collect();
    in_order(site_packages.iter().map(read))
}

/// The same for what is going to be changed, where a RECORD that goes with a change must not be missed: for one name the
/// first of each directory.
///
/// # Errors
/// When a directory or a METADATA is there and can't be read.
pub fn all_or_fail(site_packages: &[PathBuf]) -> Result<Vec<Distribution>> {
    let mut found = Vec::new();
    for site in site_packages {
        let mut here = Vec::new();
        let dirs = list_metadata_dirs(site).with_context(|| format!("can't list `{}`", site.display()))?;
        for (dir, _) in dirs {
            let doing = || format!("can't read the metadata in `{}`", dir.display());
            here.extend(read_or_fail(site, &dir).with_context(doing)?);
        }
        found.extend(in_order([here]));
    }
    Ok(found)
}

fn in_order(sites: impl IntoIterator<Item = Vec<Distribution>>) -> Vec<Distribution> {
    let mut found: Vec<Distribution> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for mut here in sites {
        here.sort_by_key(|dist| normalised(&dist.name));
        found.extend(here.into_iter().filter(|dist| names.insert(normalised(&dist.name))));
    }
    found
}

/// The distributions whose metadata directory's name begins with `prefix`, in any spelling.
#[must_use]
pub fn with_prefix(site_packages: &[PathBuf], prefix: &str) -> Vec<Distribution> {
    let prefix = normalised(prefix);
    let of = |site: &PathBuf| {
        let dirs = metadata_dirs(site).into_iter();
        let dirs = dirs.filter(|(_, stem)| normalised(&String::from_utf8_lossy(stem)).starts_with(&prefix));
        dirs.filter_map(|(dir, _)| read(site, &dir)).collect::<Vec<_>>()
    };
    site_packages.iter().flat_map(of).collect()
}

/// The metadata directories (or old egg-info files) of `site`, with their names up to the suffix.
fn metadata_dirs(site: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    list_metadata_dirs(site).unwrap_or_default()
}

fn list_metadata_dirs(site: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(site)? {
        let entry = entry?;
        let name = entry.file_name();
        let bytes = name.as_bytes();
        let stem = bytes.strip_suffix(b".dist-info").or_else(|| bytes.strip_suffix(b".egg-info"));
        // pip renames to `~name` what it is about to remove.
        if let Some(stem) = stem.filter(|stem| !stem.starts_with(b"~")) {
            found.push((entry.path(), stem.to_vec()));
        }
    }
    // Where a dist-info and an egg-info claim one name, the first counts.
    found.sort();
    Ok(found)
}

/// Whether the directory `stem` (`name-version`, or only `name`) can belong to `name`.
fn may_be(stem: &[u8], name: &str) -> bool {
    let stem = normalised(&String::from_utf8_lossy(stem));
    stem.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Reads one metadata directory; `None` where it has no usable Name (an interrupted install, a stray directory).
fn read(site: &Path, dir: &Path) -> Option<Distribution> {
    read_or_fail(site, dir).ok().flatten()
}

fn read_or_fail(site: &Path, dir: &Path) -> io::Result<Option<Distribution>> {
    let (mut name, mut version) = (None, None);
    let headers = match metadata::headers(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        headers => headers?,
    };
    for (key, value) in headers {
        match key.as_str() {
            "name" if name.is_none() => name = Some(value),
            "version" if version.is_none() => version = Some(value),
            _ => {}
        }
    }
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    Ok(Some(Distribution {
        name,
        version: version.unwrap_or_default(),
        dist_info: std::fs::canonicalize(dir)?,
        site_packages: std::fs::canonicalize(site)?,
    }))
}

/// Where the RECORDs of all that is installed in a directory are, or would be.
///
/// # Errors
/// When the directory can't be listed.
pub fn records(site: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(list_metadata_dirs(site)?.into_iter().map(|(dir, _)| dir.join("RECORD")).collect())
}

/// What is installed in `site` (physical), without a look at any METADATA: the normalised names of the metadata
/// directories with their versions, and the files that a RECORD lists.
///
/// # Errors
/// When the directory or a RECORD can't be read.
pub fn listed(site: &Path) -> io::Result<(Vec<String>, Vec<PathBuf>)> {
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for (dir, stem) in list_metadata_dirs(site)? {
        names.push(normalised(&String::from_utf8_lossy(&stem)));
        files.extend(record::files_in(&dir.join("RECORD"), site)?.into_iter().flatten());
    }
    Ok((names, files))
}

fn read_some(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC; // a pipe would block the open itself
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        // A pipe or a device under this name must not stop the run; a directory is the metadata directory itself.
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their fixtures")]
mod tests {
    use super::*;

    fn site(dists: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::TempDir::new().unwrap();
        for (name, metadata) in dists {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("METADATA"), metadata).unwrap();
        }
        let sites = vec![dir.path().canonicalize().unwrap()];
        (dir, sites)
    }

    fn find(sites: &[PathBuf], name: &str) -> Option<Distribution> {
        claims(sites, name).one(name).unwrap()
    }

    #[test]
    fn a_distribution_is_found_in_any_spelling_but_not_by_a_part_of_its_name() {
        let (_dir, sites) = site(&[
            ("rocm_sdk-1.0.dist-info", "Name: rocm-sdk\nVersion: 1.0\n"),
            (
                "rocm_sdk_core-10.0.0.dist-info",
                "Metadata-Version: 2.1\nName: rocm-sdk-core\nVersion: 10.0.0\n\nName: x\n",
            ),
        ]);
        assert_eq!(find(&sites, "ROCm_SDK.core").unwrap().version, "10.0.0");
        assert_eq!(find(&sites, "rocm-sdk").unwrap().version, "1.0");
        assert!(find(&sites, "rocm").is_none());
        assert_eq!(all(&sites).len(), 2);
        assert_eq!(with_prefix(&sites, "rocm-sdk-core").len(), 1);
    }

    #[test]
    fn broken_metadata_is_passed_over() {
        let (dir, sites) =
            site(&[("a-1.dist-info", "\u{feff}junk\n"), ("~b-1.dist-info", "Name: b\nVersion: 1\n")]);
        std::fs::create_dir(dir.path().join("c-1.dist-info")).unwrap();
        std::fs::write(dir.path().join("d-2-py3.11.egg-info"), "Name: d\nVersion: 2\n").unwrap();
        let names: Vec<String> = all(&sites).into_iter().map(|dist| dist.name).collect();
        assert_eq!(names, ["d"]);
    }

    #[test]
    fn requirements_and_the_files_of_a_record_are_read() {
        let metadata =
            "Name: a\nVersion: 1\nRequires-Dist: b>=2;\n  python_version>'3'\nRequires-Dist: c\n\ntext\n";
        let (dir, sites) = site(&[("a-1.dist-info", metadata)]);
        let dist = find(&sites, "a").unwrap();
        assert_eq!(requirements(&dist).unwrap(), ["b>=2; python_version>'3'", "c"]);
        assert_eq!(files(&dist).unwrap(), None);
        let rows = "a/x.so,sha256=1,2\r\n\"a/odd,\"\"name.py\",,\n\n";
        std::fs::write(dir.path().join("a-1.dist-info/RECORD"), rows).unwrap();
        let expected = [sites[0].join("a/x.so"), sites[0].join("a/odd,\"name.py")];
        assert_eq!(files(&dist).unwrap().unwrap(), expected);
        assert_eq!(direct_url(&dist).unwrap(), None);
        std::fs::write(dir.path().join("a-1.dist-info/direct_url.json"), "{\"url\": 1}").unwrap();
        assert!(direct_url(&dist).is_err());
    }
}
