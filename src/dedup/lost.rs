//! Devel links that lead nowhere because an installed package's own file was deleted, by that package's RECORD. Reads
//! RECORDs, and only where a link leads nowhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

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
pub fn read(inventory: &Inventory) -> anyhow::Result<BTreeMap<Place, Place>> {
    let mut lost = BTreeMap::new();
    let mut records: HashMap<usize, HashSet<PathBuf>> = HashMap::new();
    for link in inventory.files.values() {
        let devel = inventory.trees[link.place.root].role == Role::Devel;
        let Some(end) = end(inventory, link).filter(|_| devel && is_library(&link.place.path)) else {
            continue;
        };
        let tree = &inventory.trees[end.root];
        let Some(distribution) = tree.distribution.as_ref().filter(|_| tree.role != Role::Devel) else {
            continue;
        };
        let listed = match records.remove(&end.root) {
            Some(listed) => listed,
            None => dist::files(distribution)?.into_iter().flatten().collect(),
        };
        // As RECORD spells it: the tree's own path is physical.
        let path = distribution.site_packages.join(&tree.name).join(end.path.as_path());
        if listed.contains(&path) {
            lost.insert(link.place.clone(), end.clone());
        }
        records.insert(end.root, listed);
    }
    Ok(lost)
}

/// Where a link that leads nowhere ends, if that is in a tree.
fn end(inventory: &Inventory, link: &FileRecord) -> Option<Place> {
    let mut link = link;
    for _ in 0..HOPS {
        let Kind::Symlink { target, leads: Leads::Nowhere } = &link.kind else { return None };
        let hop = links::first_hop(&inventory.absolute(&link.place), target);
        let directory = hop.parent().and_then(|directory| directory.canonicalize().ok());
        let name = Path::new(hop.file_name()?);
        let end =
            inventory.place_of(&directory.map_or_else(|| hop.clone(), |directory| directory.join(name)))?;
        match inventory.files.get(&end) {
            Some(next) => link = next,
            None => return Some(end),
        }
    }
    None
}
