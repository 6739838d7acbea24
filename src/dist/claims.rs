//! Who claims a name: the metadata directories that say so, and those of which only the directory's own name does.
//!
//! Python finds a distribution by its directory's name (`pi-1.0.dist-info`), whatever is in it; pip passes over one without
//! a Name, with a warning. So where the METADATA can't be understood, the distribution is neither installed nor not.

use std::path::{Path, PathBuf};

use super::{may_be, metadata, metadata_dirs, read_or_fail};
use crate::error::message;
use crate::model::{Distribution, normalised};

/// All metadata directories that claim a name in the first site directory that has one.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// More than one means that an upgrade left the old one behind (`pip install --target --upgrade` does).
    pub read: Vec<Distribution>,
    /// A sentence for each that can't be understood.
    pub unclear: Vec<String>,
}

impl Claims {
    /// The one distribution that has the name; `None` where nothing claims it.
    ///
    /// # Errors
    /// A sentence that says why it can't be told which one that is, or whether there is one.
    pub fn one(self, name: &str) -> Result<Option<Distribution>, String> {
        let versions: Vec<&str> = self.read.iter().map(|dist| dist.version.as_str()).collect();
        if self.unclear.is_empty() && versions.windows(2).all(|two| two[0] == two[1]) {
            return Ok(self.read.into_iter().next());
        }
        let read = self.read.iter().map(|dist| format!("`{}`", dist.dist_info.display()));
        let all: Vec<String> = read.chain(self.unclear).collect();
        if let [one] = all.as_slice() {
            return Err(format!(
                "whether {name} is installed can't be told: {one}; reinstall it, or remove that"
            ));
        }
        Err(format!("{name} is there more than once: {}", all.join(", ")))
    }
}

/// Who claims `name`, in any spelling. A directory without any METADATA, as a broken uninstall leaves it, counts only
/// where nothing else has the name: pip passes over it, and newer Pythons prefer the other.
#[must_use]
pub fn claims(site_packages: &[PathBuf], name: &str) -> Claims {
    let name = normalised(name);
    let found = site_packages.iter().map(|site| claims_in(site, &name));
    found.into_iter().find(|here| !(here.read.is_empty() && here.unclear.is_empty())).unwrap_or_default()
}

fn claims_in(site: &Path, name: &str) -> Claims {
    let (mut here, mut empty) = (Claims::default(), Vec::new());
    for (dir, stem) in metadata_dirs(site).into_iter().filter(|(_, stem)| may_be(stem, name)) {
        match understood(site, &dir) {
            Ok(dist) if normalised(&dist.name) == name => here.read.push(dist),
            Err(why) if names(&stem).iter().any(|claimed| claimed == name) => {
                let all = if metadata::has_any(&dir) { &mut here.unclear } else { &mut empty };
                all.push(format!("`{}` {why}", dir.display()));
            }
            // Another one's, whose name begins so.
            Ok(_) | Err(_) => {}
        }
    }
    if here.read.is_empty() {
        here.unclear.append(&mut empty);
    }
    here
}

fn understood(site: &Path, dir: &Path) -> Result<Distribution, String> {
    if let Some(why) = metadata::in_doubt(dir) {
        return Err(why);
    }
    match read_or_fail(site, dir) {
        Ok(found) => found.ok_or_else(|| "has no Name in its METADATA".into()),
        Err(error) => Err(format!("can't be read: {}", message(&error.into()))),
    }
}

/// The names that a metadata directory can have been made for: Python takes what is before the first `-`, old tools left
/// the `-` in a name as it is.
fn names(stem: &[u8]) -> Vec<String> {
    let stem = String::from_utf8_lossy(stem);
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    ends.map(|end| normalised(&stem[..end])).collect()
}

/// The names, normalised, of which can't be told whether they are installed, or in which version.
#[must_use]
pub fn unclear(site_packages: &[PathBuf]) -> Vec<String> {
    let dirs = site_packages.iter().flat_map(|site| metadata_dirs(site));
    let mut found: Vec<String> = dirs
        .filter(|(dir, _)| metadata::in_doubt(dir).is_some())
        .flat_map(|(_, stem)| names(&stem))
        .filter(|name| !claims(site_packages, name).unclear.is_empty())
        .collect();
    found.sort();
    found.dedup();
    found
}
