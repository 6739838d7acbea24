//! The SDK's trees among the site directories, by the names that its wheels use. Lists directories, opens dist-info;
//! reads nothing of the trees themselves.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{DevelState, push_new};
use crate::dist;
use crate::model::{Distribution, Role, Tree, normalised};

pub struct Found {
    pub trees: Vec<Tree>,
    pub devel: DevelState,
}

/// Beginnings of directory names, the role that they mean, and the distribution that brings them.
const NAMES: [(&[u8], Role, &str); 4] = [
    (b"_rocm_sdk_core", Role::Core, "rocm-sdk-core"),
    (b"_rocm_sdk_libraries", Role::Libraries, "rocm-sdk-libraries"),
    (b"_rocm_profiler", Role::Profiler, "rocm-profiler"),
    (b"_rocm_sdk_devel", Role::Devel, "rocm-sdk-devel"),
];

/// The trees in `sites`, and those that `packages` (name, place) say are imported from elsewhere. Core first, devel
/// last, each physical directory once.
///
/// # Errors
/// When a directory can't be listed: "nothing there" must not be said of what nobody could look at.
pub fn find(sites: &[PathBuf], packages: &[(String, PathBuf)]) -> Result<Found> {
    let mut trees: Vec<Tree> = Vec::new();
    let mut add = |name: &OsStr, path: &Path, site: &Path| -> Result<()> {
        let Some((role, base)) = role_of(name) else { return Ok(()) };
        let looked = path.canonicalize().and_then(|physical| Ok((physical.metadata()?.is_dir(), physical)));
        let (directory, physical) = match looked {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            looked => looked.with_context(|| format!("can't look at `{}`", path.display()))?,
        };
        if directory && trees.iter().all(|known| known.path != physical) {
            let distribution = distribution_of(site, name, base);
            let site_packages = site.to_path_buf();
            trees.push(Tree { role, name: name.to_owned(), path: physical, site_packages, distribution });
        }
        Ok(())
    };
    let mut tarballs = Vec::new();
    for site in sites {
        for (name, path) in entries(site).with_context(|| format!("can't list `{}`", site.display()))? {
            add(&name, &path, site)?;
            if name.as_bytes().starts_with(b"rocm_sdk_devel") && !name.as_bytes().ends_with(b".dist-info") {
                tarballs.extend(
                    ["_devel.tar.xz", "_devel.tar"]
                        .map(|tar| path.join(tar))
                        .into_iter()
                        .find(|p| p.is_file()),
                );
            }
        }
    }
    for (name, place) in packages {
        if let Some(site) = place.parent().and_then(|parent| parent.canonicalize().ok()) {
            add(OsStr::new(name), place, &site)?;
        }
    }
    trees.sort_by_key(|tree| tree.role);
    let has_tree = trees.iter().any(|tree| tree.role == Role::Devel);
    let devel = match (tarballs.into_iter().next(), has_tree) {
        (Some(tarball), true) => DevelState::HalfExpanded { tarball },
        (Some(tarball), false) => DevelState::Unexpanded { tarball },
        (None, true) => DevelState::Expanded,
        (None, false) => DevelState::None,
    };
    Ok(Found { trees, devel })
}

fn entries(dir: &Path) -> std::io::Result<Vec<(std::ffi::OsString, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        found.push((entry.file_name(), entry.path()));
    }
    found.sort();
    Ok(found)
}

/// The role of a tree of this name, and the distribution that brings it.
#[must_use]
pub fn role_of(name: &OsStr) -> Option<(Role, &'static str)> {
    let found = NAMES.iter().find(|(prefix, _, _)| {
        // A suffix is set off: `_rocm_sdk_core_1a2b`, but not `_rocm_sdk_core.libs` or `_rocm_sdk_corex`.
        let rest = name.as_bytes().strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with(b"_") && !rest.contains(&b'.')))
    });
    found.map(|(_, role, base)| (*role, *base))
}

/// The distribution that brought the tree `name`: the one of the same name, else the plain one, else the only one.
fn distribution_of(site: &Path, name: &OsStr, base: &str) -> Option<Distribution> {
    let wanted = normalised(&name.to_string_lossy());
    let mut candidates = dist::with_prefix(&[site.to_path_buf()], base);
    let named = |name: &str| candidates.iter().position(|dist| normalised(&dist.name) == name);
    match named(&wanted).or_else(|| named(base)) {
        Some(at) => Some(candidates.swap_remove(at)),
        None if candidates.len() == 1 => candidates.pop(),
        None => None,
    }
}

/// What is odd about an SDK: packages without payload, parts of different versions.
pub fn notes(sites: &[PathBuf], found: &Found) -> Vec<String> {
    let mut notes = Vec::new();
    for (_, role, base) in NAMES {
        let there = found.trees.iter().any(|tree| tree.role == role);
        let packed = role == Role::Devel && found.devel != DevelState::None;
        for dist in dist::with_prefix(sites, base) {
            if !there && !packed && normalised(&dist.name) == base {
                let place = dist.dist_info.display();
                notes.push(format!(
                    "{} {} is a stub: `{place}` is there, its files are not",
                    dist.name, dist.version
                ));
            }
        }
    }
    let mut versions: Vec<String> = Vec::new();
    for dist in found.trees.iter().filter_map(|tree| tree.distribution.as_ref()) {
        push_new(&mut versions, dist.version.clone());
    }
    if versions.len() > 1 {
        let parts = found.trees.iter().filter_map(|tree| tree.distribution.as_ref());
        let parts: Vec<String> = parts.map(|dist| format!("{} {}", dist.name, dist.version)).collect();
        notes.push(format!("the SDK's parts have different versions: {}", parts.join(", ")));
    }
    notes
}

/// Physical SDK trees below an interpreter's prefix, found without asking it.
pub fn below_prefix(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        for (name, python) in entries(&prefix.join(lib)).unwrap_or_default() {
            if name.as_bytes().starts_with(b"python3") {
                for site in ["site-packages", "dist-packages"] {
                    let here = entries(&python.join(site)).unwrap_or_default();
                    let trees = here.into_iter().filter(|(name, _)| role_of(name).is_some());
                    for tree in trees.filter_map(|(_, path)| path.canonicalize().ok()) {
                        push_new(&mut found, tree);
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_trees_may_have_a_suffix_that_is_set_off() {
        let role = |name: &str| role_of(OsStr::new(name)).map(|(role, _)| role);
        assert_eq!(role("_rocm_sdk_core"), Some(Role::Core));
        assert_eq!(role("_rocm_sdk_core_5f3a"), Some(Role::Core));
        assert_eq!(role("_rocm_sdk_libraries_gfx950_dcgpu"), Some(Role::Libraries));
        assert_eq!(role("_rocm_profiler"), Some(Role::Profiler));
        assert_eq!(role("_rocm_sdk_devel"), Some(Role::Devel));
        for other in ["rocm_sdk_core", "_rocm_sdk_corex", "_rocm_sdk_core.libs", "_rocm_sdk_core_1.dist-info"]
        {
            assert_eq!(role(other), None, "{other}");
        }
    }
}
