//! Paths that went with a package which was uninstalled since: there is nothing to take back at them. Reads only.
//!
//! A run whose paths are gone is ended, and its originals with it; so that needs proof. A directory that was moved away,
//! or that a mount hides, looks empty too.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::listing::{Listing, listings, top_of};
use crate::discover::role_of;
use crate::dist;
use crate::ground::Ground;
use crate::held::Seen;
use crate::model::{Change, Entry};
use crate::stat;

/// Indices of changes that can't be taken back, and needn't be.
#[derive(Debug, Default)]
pub struct Gone {
    pub paths: BTreeSet<usize>,
    /// Owner's links into what is gone, that were turned: the file there may be the only one left, so it stays.
    pub kept: BTreeSet<usize>,
}

/// What is installed and uninstalled as one: an SDK tree (`None`), or a package's directory or module in site-packages.
pub type Unit = (usize, Option<OsString>);

/// Finds them: nothing is left of all that the run changed of a package or tree, its distribution is not installed any
/// more, and nothing is mounted there. What can't be looked at isn't gone.
#[must_use]
pub fn gone(ground: &Ground<'_>) -> Gone {
    let changes = &ground.plan.changes;
    let mut units: BTreeMap<Unit, Vec<usize>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate().filter(|(_, c)| matches!(c.before, Entry::File(_))) {
        units.entry(unit(ground, change)).or_default().push(index);
    }
    units.retain(|_, indices| {
        let mut changes = indices.iter().map(|index| &changes[*index]);
        changes.clone().any(|change| is_witness(ground, change)) && changes.all(|c| is_absent(ground, c))
    });
    if units.is_empty() {
        return Gone::default();
    }
    let Some(installed) = installed(ground) else { return Gone::default() };
    // The RECORDs that went with their whole directory.
    let mut went = listings(ground);
    went.retain(|listing| no_directory(ground, &changes[listing.index]));
    units.retain(|unit, indices| is_uninstalled(ground, &installed, &went, unit, indices));
    let paths: BTreeSet<usize> = units.into_values().flatten().collect();
    let groups: BTreeSet<u32> = paths.iter().map(|index| changes[*index].group).collect();
    let turned = |change: &Change| matches!(change.before, Entry::Symlink { .. });
    let kept = |index: &usize| turned(&changes[*index]) && groups.contains(&changes[*index].group);
    Gone { kept: (0..changes.len()).filter(kept).collect(), paths }
}

pub fn unit(ground: &Ground<'_>, change: &Change) -> Unit {
    let root = change.at.root;
    if ground.plan.roots.get(root).and_then(|root| root.file_name()).and_then(role_of).is_some() {
        return (root, None);
    }
    (root, Some(top_of(change)))
}

/// Bytecode may be made and removed by anybody: it says nothing.
fn is_absent(ground: &Ground<'_>, change: &Change) -> bool {
    change.bytecode || matches!(ground.look(&change.at), Ok(Seen::Absent))
}

/// What a run deleted itself is absent anyway, but its directory isn't.
fn is_witness(ground: &Ground<'_>, change: &Change) -> bool {
    !change.bytecode && (change.after != Entry::Absent || no_directory(ground, change))
}

pub fn no_directory(ground: &Ground<'_>, change: &Change) -> bool {
    matches!(ground.dir(&change.at), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// What the metadata in site-packages says is there.
struct Installed {
    /// Names of the metadata directories, normalised.
    names: Vec<String>,
    files: HashSet<PathBuf>,
}

/// `None` where that can't be told.
fn installed(ground: &Ground<'_>) -> Option<Installed> {
    let home = ground.journal.site_packages().path();
    let mut sites: BTreeSet<&Path> = ground.plan.roots.iter().map(PathBuf::as_path).collect();
    sites.extend(ground.plan.roots.iter().filter_map(|root| root.parent()));
    sites.insert(home);
    let mut installed = Installed { names: Vec::new(), files: HashSet::new() };
    for site in sites {
        match dist::listed(site) {
            Ok((names, files)) => {
                installed.names.extend(names);
                installed.files.extend(files);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && site != home => {}
            Err(_) => return None,
        }
    }
    Some(installed)
}

fn is_uninstalled(
    ground: &Ground<'_>,
    installed: &Installed,
    went: &[Listing],
    unit: &Unit,
    indices: &[usize],
) -> bool {
    let path = |index: &usize| ground.plan.absolute(&ground.plan.changes[*index].at);
    let listed = indices.iter().any(|index| installed.files.contains(&path(index)));
    if listed || indices.iter().any(|index| is_hidden(ground, &ground.plan.changes[*index])) {
        return false;
    }
    let Some(root) = ground.plan.roots.get(unit.0) else { return false };
    let top = unit.1.as_deref().or(root.file_name()).unwrap_or_default();
    match role_of(top) {
        // What `rocm-sdk init` made is in no RECORD: its distribution must be gone.
        Some((_, base)) => !installed.names.iter().any(|name| name.starts_with(base)),
        // The rest was in a RECORD that the run changed with it, and that must be gone.
        None => indices.iter().all(|index| {
            let change = &ground.plan.changes[*index];
            // Bytecode needs no row; its source does.
            change.bytecode || went.iter().any(|listing| listing.index == *index || listing.has(change))
        }),
    }
}

/// Whether something may be mounted on the way from site-packages to the path.
fn is_hidden(ground: &Ground<'_>, change: &Change) -> bool {
    let Some(root) = ground.plan.roots.get(change.at.root) else { return true };
    // site-packages may be a volume: the journal lies in it. A tree must lie where its link or directory lies.
    let home =
        if root == ground.journal.site_packages().path() { Some(root.as_path()) } else { root.parent() };
    let Some(Ok(wanted)) = home.map(stat::mount_or_device) else { return true };
    let path = ground.plan.absolute(&change.at);
    path.ancestors().skip(1).take_while(|dir| dir.starts_with(root)).any(|dir| {
        match stat::mount_or_device(dir) {
            Ok(mount) => mount != wanted,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    })
}
