//! Writes a decided merge down as changes that can be undone. No I/O.
//!
//! Undo walks the changes backwards. So of several names on one inode, the last change brings the file back and each
//! earlier one links to the name after it: the hard links come back as they were.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::decide::Site;
use super::known::{Inode, inode};
use super::owners::Owner;
use super::{Linked, Was, links};
use crate::model::{Change, Digest, Entry, FileEntry, Meta, Place, Source};
use crate::scan::{FileRecord, Kind};

/// A devel name and the owner's file that a link there shall lead to.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub file: &'a FileRecord,
    pub owner: Owner<'a>,
}

impl Member<'_> {
    fn shares_inode(&self) -> bool {
        inode(self.file) == inode(self.owner.file)
    }
}

/// Adds the group's changes to the plan.
pub fn merge<'a>(site: &mut Site<'a, '_>, mut members: Vec<Member<'a>>) {
    let group = site.out.next_group();
    members.sort_by_key(|member| &member.file.place);
    let mut turned: BTreeMap<&Place, &FileRecord> = BTreeMap::new();
    for member in members.iter().filter(|member| member.owner.reversed) {
        turned.insert(&member.owner.at, member.owner.file);
    }
    for (at, file) in &turned {
        turn(site, at, file, group);
    }
    let moved: HashMap<Inode, &Place> = turned.iter().rev().map(|(at, file)| (inode(file), *at)).collect();
    let mut inodes: Vec<Vec<&Member<'a>>> = Vec::new();
    let mut index: HashMap<Inode, usize> = HashMap::new();
    for member in &members {
        let at = *index.entry(inode(member.file)).or_insert(inodes.len());
        if at == inodes.len() {
            inodes.push(Vec::new());
        }
        inodes[at].push(member);
    }
    for names in &inodes {
        // An owner's name of the inode keeps it alive, also one that was turned: undo takes that back last.
        let alive = names.iter().find(|member| member.shares_inode()).map(|member| member.owner.at.clone());
        let mut replaced = Vec::new();
        for (at, member) in names.iter().enumerate() {
            let source = if let Some(place) = &alive {
                Source::LinkTo(place.clone())
            } else if let Some(next) = names.get(at + 1) {
                Source::LinkTo(next.file.place.clone())
            } else if let Some(at) = moved.get(&inode(member.file)) {
                // The file itself is there now, whatever this name is linked to.
                Source::LinkTo((*at).clone())
            } else {
                last(site, member, names)
            };
            link(site, member, source, group);
            if !member.shares_inode() {
                replaced.push(*member);
            }
        }
        account(site, &replaced);
    }
}

/// An owner's symlink into the devel tree becomes the file itself, and others like it lead there: as long as one of
/// them leads into the devel tree, expanding that again can make a loop.
fn turn(site: &mut Site<'_, '_>, at: &Place, file: &FileRecord, group: u32) {
    let symlink = |place: &Place| match site.inventory.files.get(place).map(|record| &record.kind) {
        Some(Kind::Symlink { target, .. }) => Some(Entry::Symlink { target: target.clone() }),
        _ => None,
    };
    let others: Vec<Place> = site.owners.same_inode(file, true).map(|owner| owner.at.clone()).collect();
    let others = others.into_iter().filter(|other| other != at);
    let others: Vec<(Place, Entry)> =
        others.filter_map(|other| Some((other.clone(), symlink(&other)?))).collect();
    let Some(before) = symlink(at) else { return };
    let after = entry(file, known_meta(site, file), None, Source::LinkTo(file.place.clone()));
    let keeps = Some((file.place.clone(), file.id));
    let change = Change { at: at.clone(), before, after, seen: None, keeps, group, bytecode: false };
    site.out.plan.changes.push(change);
    let end = site.inventory.absolute(at);
    for (other, before) in others {
        let path = site.inventory.absolute(&other);
        let target = links::relative(path.parent().unwrap_or(&path), &end);
        let after = Entry::Symlink { target: target.clone() };
        let change = Change { at: other, before, after, seen: None, keeps: None, group, bytecode: false };
        site.out.plan.changes.push(change);
        site.out.linked.push(Linked { path, target, was: Was::Reversed, bytes: 0, blake3: None, group });
    }
}

/// How the last name of a split inode comes back: by a name of it that stays, or as a copy.
fn last(site: &Site<'_, '_>, member: &Member<'_>, names: &[&Member<'_>]) -> Source {
    let gone: HashSet<&Place> = names.iter().map(|name| &name.file.place).collect();
    let stays = site.names.get(&inode(member.file)).into_iter().flatten();
    let mut stays = stays.filter(|place| !gone.contains(**place));
    match stays.next() {
        Some(place) => Source::LinkTo((*place).clone()),
        None => Source::CopyOf(member.owner.at.clone()),
    }
}

fn link(site: &mut Site<'_, '_>, member: &Member<'_>, source: Source, group: u32) {
    let (file, owner) = (member.file, &member.owner);
    let path = site.inventory.absolute(&file.place);
    let directory = path.parent().unwrap_or(&path);
    let target = links::relative(directory, &site.inventory.absolute(&owner.at));
    let digest =
        if member.shares_inode() { None } else { site.known.digests.get(&inode(owner.file)).copied() };
    let before = entry(file, known_meta(site, file), digest, source);
    site.out.plan.changes.push(Change {
        at: file.place.clone(),
        before,
        after: Entry::Symlink { target: target.clone() },
        seen: Some(file.id),
        keeps: Some((owner.at.clone(), owner.file.id)),
        group,
        bytecode: false,
    });
    let was = match () {
        () if owner.reversed => Was::Reversed,
        () if member.shares_inode() => Was::HardLink,
        () => Was::Copy,
    };
    site.out.linked.push(Linked { path, target, was, bytes: file.id.size, blake3: digest, group });
}

/// An inode's space is free once all of its names are gone.
fn account(site: &mut Site<'_, '_>, replaced: &[&Member<'_>]) {
    let Some(first) = replaced.first() else { return };
    let known = site.names.get(&inode(first.file)).map_or(0, |names| names.len() as u64);
    if first.file.nlink == replaced.len() as u64 {
        site.out.bytes_freed += first.file.id.size;
    } else if first.file.nlink > known {
        let more = first.file.nlink - known;
        let path = site.inventory.absolute(&first.file.place);
        let note =
            format!("`{}` has {more} more names outside the SDK's libraries, which stay", path.display());
        site.out.notes.push(note);
    }
}

pub fn entry(file: &FileRecord, meta: Meta, digest: Option<Digest>, source: Source) -> Entry {
    Entry::File(FileEntry { size: file.id.size, digest, meta, source })
}

/// The metadata with extended attributes, which were asked for before anything was decided.
pub fn known_meta(site: &mut Site<'_, '_>, file: &FileRecord) -> Meta {
    site.meta(file).and_then(Result::ok).unwrap_or_else(|| file.meta.clone())
}
