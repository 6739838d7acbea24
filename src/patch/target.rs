//! Which directories a recipe's target means on this image. Looks, never writes.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::past::Past;
use crate::dist;
use crate::model::{Distribution, RelPath, normalised};
use crate::recipe::Target;
use crate::recipe::when::Facts;

/// What the planner knows of the image.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// Physical directories.
    pub site_packages: &'a [PathBuf],
    pub facts: Facts<'a>,
    /// For taking patches back; empty else.
    pub past: &'a Past,
}

/// A directory that holds the files of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCopy {
    /// Physical; site-packages where the files lie below it.
    pub root: PathBuf,
    /// From `root` to the directory, empty if it is `root` itself.
    pub below: PathBuf,
    /// What is installed there, if it is known.
    pub distribution: Option<Distribution>,
}

impl TargetCopy {
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// A file of the patch, as a path below `root`; or below the site-packages directory that it lies in, which a root may
    /// be above of: there are the RECORDs that list it.
    #[must_use]
    pub fn file(&self, path: &RelPath, ground: &Ground<'_>) -> Option<(PathBuf, RelPath)> {
        let below = self.below.join(path.as_path());
        let absolute = self.root.join(&below);
        let deeper = |site: &&PathBuf| site.starts_with(&self.root) && absolute.starts_with(site);
        match ground.site_packages.iter().find(deeper) {
            Some(site) => Some((site.clone(), RelPath::new(absolute.strip_prefix(site).ok()?)?)),
            None => Some((self.root.clone(), RelPath::new(below)?)),
        }
    }
}

/// All copies of a target, the one in use first, each physical directory once.
///
/// # Errors
/// I/O errors other than "not there".
pub fn copies(target: &Target, ground: &Ground<'_>) -> Result<Vec<TargetCopy>> {
    let mut found: Vec<(PathBuf, TargetCopy)> = Vec::new();
    for root in &target.roots {
        for copy in candidates(root, target, ground) {
            let directory = copy.directory();
            let Ok(physical) = std::fs::canonicalize(&directory) else { continue };
            let marked =
                target.marker.as_ref().is_none_or(|m| std::fs::symlink_metadata(physical.join(m)).is_ok());
            let new = marked && physical.is_dir() && !found.iter().any(|(other, _)| *other == physical);
            if new && !is_of_another(&copy, ground)? {
                found.push((physical, copy));
            }
        }
    }
    Ok(found.into_iter().map(|(_, copy)| copy).collect())
}

/// Whether a directory is another distribution's: of two site-packages the target may be installed in one, and the other
/// have something else under that name.
fn is_of_another(copy: &TargetCopy, ground: &Ground<'_>) -> Result<bool> {
    if copy.distribution.is_some() {
        return Ok(false);
    }
    let directory = copy.directory();
    for other in ground.facts.distributions.iter().filter(|other| other.site_packages == copy.root) {
        let files = dist::files(other)?.unwrap_or_default();
        if files.iter().any(|file| file.starts_with(&directory)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn candidates(root: &str, target: &Target, ground: &Ground<'_>) -> Vec<TargetCopy> {
    let absolute = match expanded(root, ground.facts.env) {
        Some(path) if path.is_absolute() => path,
        Some(relative) => {
            return ground
                .site_packages
                .iter()
                .map(|site| TargetCopy {
                    root: site.clone(),
                    below: relative.clone(),
                    distribution: installed(&target.distribution, site, ground),
                })
                .collect();
        }
        None => return Vec::new(),
    };
    let Ok(physical) = std::fs::canonicalize(absolute) else { return Vec::new() };
    let copy = match ground.site_packages.iter().find(|site| physical.starts_with(site)) {
        Some(site) => TargetCopy {
            root: site.clone(),
            below: physical.strip_prefix(site).unwrap_or(Path::new("")).to_path_buf(),
            distribution: installed(&target.distribution, site, ground),
        },
        None => TargetCopy { root: physical, below: PathBuf::new(), distribution: None },
    };
    vec![copy]
}

/// A path of the recipe with its leading `$NAME` replaced; `None` if that isn't set.
#[must_use]
pub fn expanded(path: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let Some(rest) = path.strip_prefix('$') else { return Some(PathBuf::from(path)) };
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let value = env(name).filter(|value| value.starts_with('/'))?;
    Some(if rest.is_empty() { PathBuf::from(value) } else { Path::new(&value).join(rest) })
}

fn installed(name: &str, site: &Path, ground: &Ground<'_>) -> Option<Distribution> {
    let wanted = normalised(name);
    ground
        .facts
        .distributions
        .iter()
        .find(|d| normalised(&d.name) == wanted && d.site_packages == site)
        .cloned()
}
