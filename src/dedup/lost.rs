//! Devel links that lead nowhere because another installed package's file was deleted, by that package's RECORD. Reads
//! RECORDs, and only where a link leads nowhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::links;
use super::owners::is_library;
use crate::dist;
use crate::model::{Place, Role};
use crate::scan::{FileRecord, Inventory, Kind, Leads};

/// Links among links that the kernel follows.
const HOPS: usize = 40;

/// The links, with the file that each should lead to.
///
/// # Errors
/// When a RECORD is there, but can't be read.
pub fn read(inventory: &Inventory) -> anyhow::Result<BTreeMap<Place, PathBuf>> {
    let mut lost = BTreeMap::new();
    let mut listed: HashMap<PathBuf, HashSet<PathBuf>> = HashMap::new();
    let links = inventory.files.values().filter(|link| inventory.trees[link.place.root].role == Role::Devel);
    for link in links.filter(|link| is_library(&link.place.path)) {
        let Some(end) = end(inventory, link) else { continue };
        let Some((site, path)) = as_recorded(inventory, link.place.root, &end) else { continue };
        if !listed.contains_key(&site) {
            let (_, files) = dist::listed(&site)
                .with_context(|| format!("can't read the RECORDs in `{}`", site.display()))?;
            listed.insert(site.clone(), files.into_iter().collect());
        }
        if listed[&site].contains(&site.join(path)) {
            lost.insert(link.place.clone(), end);
        }
    }
    Ok(lost)
}

/// The site-packages directory of a path, and the path in there as a RECORD spells it: trees are known by their physical
/// paths. A tree that is gone as a whole was beside the devel tree. None for what the devel tree itself lacks.
fn as_recorded(inventory: &Inventory, devel: usize, end: &Path) -> Option<(PathBuf, PathBuf)> {
    match inventory.place_of(end) {
        Some(place) => {
            let tree = &inventory.trees[place.root];
            let path = Path::new(&tree.name).join(place.path.as_path());
            (tree.role != Role::Devel).then(|| (tree.site_packages.clone(), path))
        }
        None => {
            let tree = &inventory.trees[devel];
            let path = end.strip_prefix(tree.path.parent()?).ok()?;
            Some((tree.site_packages.clone(), path.to_path_buf()))
        }
    }
}

/// Where a link that leads nowhere ends.
fn end(inventory: &Inventory, link: &FileRecord) -> Option<PathBuf> {
    let mut link = link;
    for _ in 0..HOPS {
        let Kind::Symlink { target, leads: Leads::Nowhere } = &link.kind else { return None };
        let hop = links::first_hop(&inventory.absolute(&link.place), target);
        let end = match hop.parent().map(Path::canonicalize) {
            Some(Ok(directory)) => directory.join(hop.file_name()?),
            _ => hop,
        };
        match inventory.place_of(&end).and_then(|place| inventory.files.get(&place)) {
            Some(next) => link = next,
            None => return Some(end),
        }
    }
    None
}
