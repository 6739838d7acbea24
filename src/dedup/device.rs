//! The links of device manifests: left alone, or re-made as hard links with a fresh inode and mtime, the one form that
//! `rocm-sdk` leaves in peace and image builders keep whole (facts.md sections 1.3 and 2.4).

use std::collections::BTreeMap;
use std::path::Path;

use super::decide::{Site, trouble};
use super::encode::{entry, known_meta};
use super::known::inode;
use super::{Reason, Remade, Trouble, rights};
use crate::compare::Verdict;
use crate::manifest;
use crate::model::{Change, Place, RelPath, Role, Source};
use crate::scan::{FileRecord, Inventory, Kind};

/// All manifest entries: devel places, with the libraries place that each shall be a hard link to.
#[derive(Debug, Default)]
pub struct Device {
    pub links: BTreeMap<Place, Option<Place>>,
}

/// Reads all manifests, and records the files that they name in the inventory.
pub fn read(inventory: &mut Inventory) -> anyhow::Result<Device> {
    let mut device = Device::default();
    let trees = inventory.trees.clone();
    for (root, devel) in trees.iter().enumerate().filter(|(_, tree)| tree.role == Role::Devel) {
        for libraries in trees.iter().filter(|tree| tree.site_packages == devel.site_packages) {
            for link in manifest::read(libraries, Path::new(&devel.name))? {
                let target = link.target.and_then(|path| {
                    trees.iter().enumerate().find_map(|(root, tree)| {
                        let mine = tree.role == Role::Libraries && tree.site_packages == devel.site_packages;
                        let path =
                            RelPath::new(path.as_path().strip_prefix(&tree.name).ok().filter(|_| mine)?)?;
                        Some(Place { root, path })
                    })
                });
                let place = Place { root, path: link.devel };
                inventory.look_at(&place)?;
                if let Some(target) = &target {
                    inventory.look_at(target)?;
                }
                device.links.entry(place).or_insert(target);
            }
        }
    }
    Ok(device)
}

/// Reports or re-makes the entries of one devel tree.
pub fn decide(site: &mut Site<'_, '_>, root: usize) {
    let mut by_target: BTreeMap<&Place, Vec<&FileRecord>> = BTreeMap::new();
    let (inventory, device) = (site.inventory, site.device);
    let regular = |place: &Place| inventory.files.get(place).filter(|file| file.kind == Kind::File);
    let mut split = 0;
    for (place, target) in device.links.iter().filter(|(place, _)| place.root == root) {
        let Some(found) = inventory.files.get(place) else { continue };
        let path = inventory.absolute(place);
        let Some(file) = regular(place) else {
            let is = if found.kind == Kind::Other { "no file" } else { "a symlink" };
            site.out.leave(
                path,
                Reason::DeviceManifest,
                format!("{is}; `rocm-sdk path` makes it a hard link"),
            );
            continue;
        };
        let Some((target, other)) = target.as_ref().and_then(|target| Some((target, regular(target)?)))
        else {
            site.out.leave(path, Reason::DeviceManifest, "there is no such file in the libraries tree");
            continue;
        };
        let intact = inode(file) == inode(other);
        split += u64::from(!intact);
        if site.options.device_links {
            by_target.entry(target).or_default().push(file);
        } else if intact {
            site.out.leave(path, Reason::DeviceManifest, "intact");
        } else {
            let other = inventory.absolute(target);
            site.out.leave(path, Reason::DeviceManifest, format!("split from `{}`", other.display()));
        }
    }
    if split > 0 && !site.options.device_links {
        let note = format!(
            "{split} per-GPU files are split from the libraries tree; --device-links joins them again"
        );
        site.out.notes.push(note);
    }
    for (target, files) in by_target {
        if let Some(kept) = regular(target) {
            remake(site, kept, files);
        }
    }
}

/// Re-makes one libraries file and all devel names that shall be hard links to it.
fn remake(site: &mut Site<'_, '_>, kept: &FileRecord, mut files: Vec<&FileRecord>) {
    let inventory = site.inventory;
    let other = inventory.absolute(&kept.place);
    let intact = |file: &FileRecord| inode(file) == inode(kept);
    if files.iter().all(|file| intact(file))
        && site.options.refreshed.contains(&(other.clone(), kept.id.mtime))
    {
        for file in files {
            site.out.leave(inventory.absolute(&file.place), Reason::DeviceManifest, "intact, re-made before");
        }
        return;
    }
    let mut troubles = Vec::new();
    for file in &files {
        let reason = match site.known.verdict(kept, file, site.options.hash) {
            None => return,
            Some(Verdict::Equal { .. }) => match (site.meta(file), site.meta(kept)) {
                (Some(Ok(copy)), Some(Ok(owner))) => {
                    rights::refusal(&copy, &owner).map(|reason| (Trouble::Metadata, reason))
                }
                (Some(Err(error)), _) | (_, Some(Err(error))) => Some((Trouble::Unreadable, error)),
                (None, _) | (_, None) => return,
            },
            Some(unequal) => Some(trouble(&unequal, Trouble::Content)),
        };
        if let Some((reason, detail)) = reason {
            troubles.push((inventory.absolute(&file.place), reason, detail));
        }
    }
    if !troubles.is_empty() {
        for (path, reason, detail) in troubles {
            site.out.refuse(path, Some(other.clone()), reason, detail);
        }
        return;
    }
    files.sort_by_key(|file| (intact(file), inode(file), &file.place));
    let group = site.out.next_group();
    let digest = site.known.digests.get(&inode(kept)).copied();
    let owner = known_meta(site, kept);
    let mut push = |at: &FileRecord, before, after, keeps| {
        let (at, seen) = (at.place.clone(), Some(at.id));
        site.out.plan.changes.push(Change { at, before, after, seen, keeps, group, bytecode: false });
    };
    // True of the file now, and true again once the devel names were undone: so nothing is left to undo here.
    let itself = match files.last() {
        Some(last) if intact(last) => Source::LinkTo(last.place.clone()),
        Some(last) => Source::CopyOf(last.place.clone()),
        None => return,
    };
    push(
        kept,
        entry(kept, owner.clone(), digest, itself),
        entry(kept, owner.clone(), digest, Source::Refresh),
        None,
    );
    for (at, file) in files.iter().enumerate() {
        let before = match files.get(at + 1) {
            _ if intact(file) => Source::LinkTo(kept.place.clone()),
            Some(next) if inode(next) == inode(file) => Source::LinkTo(next.place.clone()),
            _ => Source::CopyOf(kept.place.clone()),
        };
        let mut meta = owner.clone();
        if !intact(file) {
            meta = crate::model::Meta { xattrs: owner.xattrs.clone(), ..file.meta.clone() };
        }
        let after = entry(kept, owner.clone(), digest, Source::LinkTo(kept.place.clone()));
        push(file, entry(file, meta, digest, before), after, Some((kept.place.clone(), kept.id)));
    }
    for file in files {
        let path = inventory.absolute(&file.place);
        site.out.remade.push(Remade { path, other: other.clone(), split: !intact(file), group });
    }
}
