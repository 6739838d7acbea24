//! Which devel names are one library: names of one inode, and names in one directory with one SONAME. They must be
//! merged together, as `ldconfig` re-points a SONAME link to any real file of that SONAME beside it (facts.md
//! section 3). No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::known::{Headers, Inode, Known, inode};
use super::owners::Owner;
use crate::model::RelPath;
use crate::scan::FileRecord;

/// Names that go together, sorted.
#[derive(Debug, Default)]
pub struct Group<'a> {
    pub files: Vec<&'a FileRecord>,
    pub sonames: BTreeSet<Vec<u8>>,
    /// The file that a sibling symlink with the same SONAME leads to already, or that lies beside it in an owner's tree.
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

/// Devel symlinks that lead to libraries, by the directory that they lie in: they are names of these there.
#[derive(Debug, Default)]
pub struct Symlinks<'a> {
    /// Into an owner's file, or beside one (which may be still to be turned).
    pub already: Vec<(&'a Path, Owner<'a>)>,
    /// To a file of the devel tree itself.
    pub inside: HashMap<Inode, Vec<&'a Path>>,
}

/// What files of one group have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Soname(&'a Path, Vec<u8>),
    /// An owner's symlink that must be turned, once, before any of them is linked to it.
    Turned(Inode),
}

type Nodes<'a> = BTreeMap<Inode, Vec<&'a FileRecord>>;

/// Sorts devel files by inode into groups. `related` tells which files have an owner's file of the same inode or path.
/// `turns` which inodes of the devel tree an owner's symlink leads to that this file would be linked to.
/// Headers are asked for only where the answer can matter; inodes whose headers aren't known yet are left out.
pub fn sort<'a>(
    nodes: &Nodes<'a>,
    symlinks: &Symlinks<'a>,
    known: &mut Known,
    related: impl Fn(&FileRecord) -> bool,
    turns: impl Fn(&FileRecord) -> Vec<Inode>,
) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    let mut linked: HashMap<(&Path, u64), Vec<&Owner<'a>>> = HashMap::new();
    for (directory, owner) in &symlinks.already {
        linked.entry((directory, owner.file.id.size)).or_default().push(owner);
    }
    let nodes: Vec<Node<'_, 'a>> = nodes
        .iter()
        .map(|(inode, files)| {
            let own = files.iter().map(|file| file.place.path.parent());
            let directories: BTreeSet<&Path> =
                own.chain(symlinks.inside.get(inode).into_iter().flatten().copied()).collect();
            let beside =
                directories.iter().filter_map(|directory| linked.get(&(*directory, files[0].id.size)));
            let beside = beside.flatten().copied().collect();
            Node { files, related: files.iter().any(|file| related(file)), beside, directories }
        })
        .collect();
    let near = near(&nodes);

    let mut groups: Vec<(Group<'a>, bool)> = Vec::new();
    let mut by_key: HashMap<Key<'a>, usize> = HashMap::new();
    for Node { files, related, beside, directories } in nodes {
        if !directories.iter().any(|directory| near.contains(directory)) {
            sorted.rest.extend(files);
            continue;
        }
        let soname = match known.headers(files[0]) {
            None => continue,
            Some(Headers::Library { soname }) => soname,
            // What can't be read may be a name of any of the libraries beside it.
            Some(headers) if !related && !matches!(headers, Headers::Unreadable(_)) => {
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
        let mut keys: Vec<Key<'a>> = files.iter().flat_map(|file| turns(file)).map(Key::Turned).collect();
        if let Some(soname) = soname {
            let same = Headers::Library { soname: Some(soname.clone()) };
            let mut beside =
                beside.into_iter().filter(|owner| known.headers(owner.file).as_ref() == Some(&same));
            groups[at].0.linked = beside.next().cloned();
            let turned = groups[at].0.linked.iter().filter(|owner| owner.reversed);
            keys.extend(turned.map(|owner| Key::Turned(inode(owner.file))));
            keys.extend(directories.into_iter().map(|directory| Key::Soname(directory, soname.clone())));
            groups[at].0.sonames.insert(soname);
        }
        for key in keys {
            let before = by_key.insert(key, at);
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

/// One inode of the devel tree.
struct Node<'n, 'a> {
    files: &'n Vec<&'a FileRecord>,
    related: bool,
    /// Owners' files of the same size that a symlink beside one of the names leads to.
    beside: Vec<&'n Owner<'a>>,
    directories: BTreeSet<&'a Path>,
}

/// Directories in which a name may belong to something that is merged: those of files with an owner, and of what can
/// hang together with these.
fn near<'a>(nodes: &[Node<'_, 'a>]) -> HashSet<&'a Path> {
    let mut near: HashSet<&Path> = HashSet::new();
    let mut waiting: Vec<&Node<'_, 'a>> = nodes.iter().collect();
    loop {
        let touches = |node: &&Node<'_, 'a>| {
            node.related || !node.beside.is_empty() || node.directories.iter().any(|d| near.contains(d))
        };
        let (found, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(touches);
        if found.is_empty() {
            return near;
        }
        near.extend(found.into_iter().flat_map(|node| node.directories.iter().copied()));
        waiting = rest;
    }
}
