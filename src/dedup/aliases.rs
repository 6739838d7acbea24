//! Which devel names are one library: names of one inode, and names in one directory with one SONAME. They must be
//! merged together, as `ldconfig` re-points a SONAME link to any real file of that SONAME beside it (facts.md
//! section 3). No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::known::{Headers, Inode, Known};
use super::owners::Owner;
use crate::model::RelPath;
use crate::scan::FileRecord;

/// Names that go together, sorted.
#[derive(Debug, Default)]
pub struct Group<'a> {
    pub files: Vec<&'a FileRecord>,
    pub sonames: BTreeSet<Vec<u8>>,
    /// The file that a sibling symlink with the same SONAME leads to already.
    pub linked: Option<Owner<'a>>,
}

impl Group<'_> {
    /// The file is called as one of the group's SONAMEs says.
    pub fn has_soname(&self, path: &RelPath) -> bool {
        self.sonames.iter().any(|soname| *soname == path.name().as_bytes())
    }
}

#[derive(Debug, Default)]
pub struct Sorted<'a> {
    pub groups: Vec<Group<'a>>,
    /// Files that have an owner's twin, but are no libraries.
    pub others: Vec<(&'a FileRecord, Headers)>,
    /// Files that belong to no group.
    pub rest: Vec<&'a FileRecord>,
}

/// A devel symlink that leads into an owner's file: the directory it lies in, and that file.
pub type Already<'a> = (&'a Path, Owner<'a>);

type Nodes<'a> = BTreeMap<Inode, Vec<&'a FileRecord>>;

/// Sorts devel files by inode into groups. `related` tells which files have an owner's file of the same inode or path.
/// Headers are asked for only where the answer can matter; inodes whose headers aren't known yet are left out.
pub fn sort<'a>(
    nodes: &Nodes<'a>,
    already: &[Already<'a>],
    known: &mut Known,
    related: impl Fn(&FileRecord) -> bool,
) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    let nodes: Vec<(&Vec<&FileRecord>, bool)> =
        nodes.values().map(|files| (files, files.iter().any(|file| related(file)))).collect();
    let near: HashSet<&Path> =
        nodes.iter().filter(|node| node.1).flat_map(|node| directories(node.0)).collect();
    let mut linked: HashMap<(&Path, u64), &Owner<'a>> = HashMap::new();
    for (directory, owner) in already {
        linked.entry((directory, owner.file.id.size)).or_insert(owner);
    }

    let mut groups: Vec<(Group<'a>, bool)> = Vec::new();
    let mut by_key: HashMap<(&Path, Vec<u8>), usize> = HashMap::new();
    for (files, related) in nodes {
        let size = files[0].id.size;
        let beside = directories(files).find_map(|directory| linked.get(&(directory, size)).copied());
        if !related && beside.is_none() && !directories(files).any(|directory| near.contains(directory)) {
            sorted.rest.extend(files);
            continue;
        }
        let soname = match known.headers(files[0]) {
            None => continue,
            Some(Headers::Library { soname }) => soname,
            Some(_) if !related => {
                sorted.rest.extend(files);
                continue;
            }
            Some(other) => {
                sorted.others.extend(files.iter().map(|file| (*file, other.clone())));
                continue;
            }
        };
        let at = groups.len();
        groups.push((Group { files: files.clone(), ..Group::default() }, related));
        let Some(soname) = soname else { continue };
        if let Some(owner) = beside
            && known.headers(owner.file) == Some(Headers::Library { soname: Some(soname.clone()) })
        {
            groups[at].0.linked = Some(owner.clone());
        }
        groups[at].0.sonames.insert(soname.clone());
        for directory in directories(files) {
            let before = by_key.insert((directory, soname.clone()), at);
            if let Some(before) = before.filter(|&before| before != at) {
                join(&mut groups, before, at);
                by_key.values_mut().filter(|group| **group == before).for_each(|group| *group = at);
            }
        }
    }
    for (mut group, related) in groups {
        group.files.sort_by_key(|file| &file.place);
        if related || group.linked.is_some() {
            sorted.groups.push(group);
        } else {
            sorted.rest.extend(group.files);
        }
    }
    sorted.groups.retain(|group| !group.files.is_empty());
    sorted.groups.sort_by_key(|group| group.files[0].place.clone());
    sorted
}

/// Empties group `from` into group `to`.
fn join(groups: &mut [(Group<'_>, bool)], from: usize, to: usize) {
    let (group, related) = std::mem::take(&mut groups[from]);
    let target = &mut groups[to];
    target.0.files.extend(group.files);
    target.0.sonames.extend(group.sonames);
    target.0.linked = target.0.linked.take().or(group.linked);
    target.1 |= related;
}

fn directories<'a>(files: &[&'a FileRecord]) -> impl Iterator<Item = &'a Path> {
    files.iter().map(|file| file.place.path.parent())
}
