//! The links of device manifests: left alone, or re-made as hard links with a fresh inode and mtime, the one form that
//! `rocm-sdk` leaves in peace and image builders keep whole (facts.md sections 1.3 and 2.4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::decide::Site;
use super::encode::{entry, known_meta};
use super::known::inode;
use super::refusal::trouble;
use super::{Reason, Remade, Trouble, rights};
use crate::compare::Verdict;
use crate::manifest;
use crate::model::{Change, Entry, FileEntry, Meta, Place, RelPath, Role, Source};
use crate::scan::{FileRecord, Inventory, Kind};

/// All manifest entries: devel places, with the libraries place that each shall be a hard link to.
#[derive(Debug, Default)]
pub struct Device {
    pub links: BTreeMap<Place, Place>,
    /// Places in devel whose entry names no file of a libraries tree: they are judged like any other name.
    astray: BTreeSet<Place>,
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
                let is_file =
                    |place: &Place| inventory.files.get(place).is_some_and(|file| file.kind == Kind::File);
                match target.filter(is_file) {
                    Some(target) => drop(device.links.entry(place).or_insert(target)),
                    None => drop(device.astray.insert(place)),
                }
            }
        }
    }
    device.astray.retain(|place| !device.links.contains_key(place) && inventory.files.contains_key(place));
    Ok(device)
}

/// Reports or re-makes the entries of one devel tree.
pub fn decide(site: &mut Site<'_, '_>, root: usize) {
    let mut by_target: BTreeMap<&Place, (&FileRecord, Vec<&FileRecord>)> = BTreeMap::new();
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
        let Some(other) = regular(target) else { continue };
        let intact = inode(file) == inode(other);
        split += u64::from(!intact);
        if site.options.device_links {
            by_target.entry(target).or_insert((other, Vec::new())).1.push(file);
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
    let mut astray = device.astray.iter().filter(|place| place.root == root);
    if let Some(first) = astray.next() {
        let path = inventory.absolute(first);
        let more = match astray.count() {
            0 => String::new(),
            more => format!(" and of {more} more"),
        };
        let text = format!(
            "the device manifest's entry of `{}`{more} names no file of a libraries tree",
            path.display()
        );
        site.out.notes.push(text);
    }
    for (kept, files) in by_target.into_values() {
        remake(site, kept, files);
    }
}

fn links_to(entry: &Entry, place: &Place) -> bool {
    matches!(entry, Entry::File(FileEntry { source: Source::LinkTo(to), .. }) if to == place)
}

/// The owner's link that became another name of a file, which undo takes back last.
fn turned_to(site: &Site<'_, '_>, file: &FileRecord) -> Option<Source> {
    let names = site.names.get(&inode(file))?;
    let turned = site.out.plan.changes.iter().find(|change| {
        matches!(change.before, Entry::Symlink { .. })
            && names.iter().any(|name| links_to(&change.after, name))
    });
    turned.map(|change| Source::LinkTo(change.at.clone()))
}

/// Re-makes one libraries file and all devel names that shall be hard links to it.
fn remake(site: &mut Site<'_, '_>, kept: &FileRecord, files: Vec<&FileRecord>) {
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
    // A link that is turned becomes a hard link to such a file, which must then stay the file that it is.
    let turned =
        |file: &&FileRecord| site.out.plan.changes.iter().any(|change| links_to(&change.after, &file.place));
    if let Some(file) = files.iter().copied().chain([kept]).find(turned) {
        let path = inventory.absolute(&file.place);
        site.out
            .notes
            .push(format!("`{}` is re-made by the next run: a link to it is turned first", path.display()));
        return;
    }
    let mut troubles = Vec::new();
    // Undo finds the content again by its digest only: every name of it gets another time.
    if site.options.hash {
        match site.known.whole(kept) {
            None => return,
            Some(Verdict::Equal { .. }) => {}
            Some(unread) => {
                let (reason, detail) = trouble(&unread, Trouble::Unreadable);
                return site.out.refuse(other, None, reason, detail);
            }
        }
    }
    for file in &files {
        if let Some((reason, detail)) = site.mounted(file).or_else(|| site.mounted(kept)) {
            troubles.push((inventory.absolute(&file.place), reason, detail));
            continue;
        }
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
    // The same chain as in `encode`: undo makes the last name of an inode a file of its own and links the others to
    // it, at last the libraries' name, where it was one of them.
    let first =
        |file: &FileRecord| files.iter().filter(|one| inode(one) == inode(file)).map(|one| &one.place).min();
    let mut order: Vec<_> =
        files.iter().map(|file| (!intact(file), first(file), &file.place, *file)).collect();
    order.sort_unstable_by_key(|key| (key.0, key.1, key.2));
    let files: Vec<&FileRecord> = order.into_iter().map(|key| key.3).collect();
    let group = site.out.next_group();
    let digest = site.known.digests.get(&inode(kept)).copied();
    let owner = known_meta(site, kept);
    // A name of an inode that no change of the plan is at is what the others are linked to again. The libraries were
    // planned before; a name of another device file is no such name.
    let mut changed: Vec<&Place> = site.device.links.keys().chain(site.device.links.values()).collect();
    changed.extend(site.out.plan.changes.iter().map(|change| &change.at));
    let stays = |file: &FileRecord| {
        let mut names = site.names.get(&inode(file)).into_iter().flatten();
        let stays =
            names.find(|place| !changed.contains(place)).map(|place| Source::LinkTo((*place).clone()));
        stays.or_else(|| turned_to(site, file))
    };
    let first = files[0].place.clone();
    let itself = if intact(files[0]) { Source::LinkTo(first) } else { Source::CopyOf(first) };
    let itself = stays(kept).unwrap_or(itself);
    let back: Vec<Option<Source>> = files.iter().map(|file| stays(file)).collect();
    drop(changed);
    let mut push = |file: &FileRecord, before, after, keeps| {
        let (at, seen) = (file.place.clone(), Some(file.id));
        site.out.plan.changes.push(Change { at, before, after, seen, keeps, group, bytecode: false });
    };
    let before = entry(kept, owner.clone(), digest, itself);
    push(kept, before, entry(kept, owner.clone(), digest, Source::Refresh), None);
    for (at, file) in files.iter().enumerate() {
        let before = match (files.get(at + 1), &back[at]) {
            (_, Some(stays)) => stays.clone(),
            (Some(next), None) if inode(next) == inode(file) => Source::LinkTo(next.place.clone()),
            _ => Source::CopyOf(kept.place.clone()),
        };
        // Equal but for the mode bits and owner that a link may differ in.
        let meta = Meta { xattrs: owner.xattrs.clone(), ..file.meta.clone() };
        let after = entry(kept, owner.clone(), digest, Source::LinkTo(kept.place.clone()));
        push(file, entry(file, meta, digest, before), after, Some((kept.place.clone(), kept.id)));
    }
    for file in files {
        let path = inventory.absolute(&file.place);
        site.out.remade.push(Remade { path, other: other.clone(), split: !intact(file), group });
    }
}
