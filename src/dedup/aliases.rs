//! Which devel names are one library: names of one inode, and names in one directory with one SONAME. They must be
//! merged together, as `ldconfig` re-points a SONAME link to any real file of that SONAME beside it (facts.md
//! section 3). No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::known::{Headers, Inode, Known, inode};
use super::owners::Owner;
use crate::model::{Place, RelPath};
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

/// Names of libraries that aren't files of the devel tree, by the directory that they are names in.
#[derive(Debug, Default)]
pub struct Symlinks<'a> {
    /// Owners' files of one size that a symlink leads to, or that lie (or will lie) beside it in an owner's tree.
    already: HashMap<(&'a Path, u64), Vec<Owner<'a>>>,
    seen: HashSet<(&'a Path, Place)>,
    /// To a file of the devel tree itself.
    pub inside: HashMap<Inode, Vec<&'a Path>>,
}

impl<'a> Symlinks<'a> {
    /// Notes that `owner`'s file has a name in `directory`.
    pub fn lead(&mut self, directory: &'a Path, owner: &Owner<'a>) {
        if self.seen.insert((directory, owner.at.clone())) {
            self.already.entry((directory, owner.file.id.size)).or_default().push(owner.clone());
        }
    }
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
    let nodes: Vec<Node<'_, 'a>> = nodes
        .iter()
        .map(|(inode, files)| {
            let own = files.iter().map(|file| file.place.path.parent());
            let directories: BTreeSet<&Path> =
                own.chain(symlinks.inside.get(inode).into_iter().flatten().copied()).collect();
            let mut beside = directories.iter().map(|directory| (*directory, files[0].id.size));
            let beside = beside.any(|key| symlinks.already.contains_key(&key));
            Node { files, related: files.iter().any(|file| related(file)), beside, directories }
        })
        .collect();
    let near = near(&nodes);

    let mut groups = Joined::default();
    let mut by_key: HashMap<Key<'a>, usize> = HashMap::new();
    let mut by_soname: BySoname<'_, 'a> = HashMap::new();
    for Node { files, related, directories, .. } in nodes {
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
        let mut group = Group { files: files.clone(), ..Group::default() };
        let mut keys: Vec<Key<'a>> = files.iter().flat_map(|file| turns(file)).map(Key::Turned).collect();
        if let Some(soname) = soname {
            let size = files[0].id.size;
            group.linked = directories.iter().find_map(|directory| {
                let owners = by_soname
                    .entry((directory, size))
                    .or_insert_with(|| sonames(symlinks.already.get(&(*directory, size)), known));
                owners.get(&soname).map(|owner| (*owner).clone())
            });
            keys.extend(group.linked.iter().filter(|o| o.reversed).map(|o| Key::Turned(inode(o.file))));
            keys.extend(directories.into_iter().map(|directory| Key::Soname(directory, soname.clone())));
            group.sonames.insert(soname);
        }
        let at = groups.add(group, related);
        for key in keys {
            if let Some(before) = by_key.insert(key, at) {
                groups.join(before, at);
            }
        }
    }
    for (mut group, related) in groups.all {
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

/// The first of the owners' files with each SONAME.
type BySoname<'s, 'a> = HashMap<(&'a Path, u64), HashMap<Vec<u8>, &'s Owner<'a>>>;

fn sonames<'s, 'a>(owners: Option<&'s Vec<Owner<'a>>>, known: &mut Known) -> HashMap<Vec<u8>, &'s Owner<'a>> {
    let mut found = HashMap::new();
    for owner in owners.into_iter().flatten() {
        if let Some(Headers::Library { soname: Some(soname) }) = known.headers(owner.file) {
            found.entry(soname).or_insert(owner);
        }
    }
    found
}

/// Groups that grow together: each is emptied into another at most as often as its size doubles.
#[derive(Default)]
struct Joined<'a> {
    /// With whether a file of it is related to an owner's. Those that were emptied stay, to keep the numbers.
    all: Vec<(Group<'a>, bool)>,
    /// Where the files of a group are now; itself if it is there still.
    now: Vec<usize>,
}

impl<'a> Joined<'a> {
    fn add(&mut self, group: Group<'a>, related: bool) -> usize {
        self.now.push(self.all.len());
        self.all.push((group, related));
        self.all.len() - 1
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.now[at] != at {
            self.now[at] = self.now[self.now[at]];
            at = self.now[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        if one == other {
            return;
        }
        let larger = self.all[one].0.files.len() >= self.all[other].0.files.len();
        let (to, from) = if larger { (one, other) } else { (other, one) };
        self.now[from] = to;
        let (group, related) = std::mem::take(&mut self.all[from]);
        let target = &mut self.all[to];
        target.0.files.extend(group.files);
        target.0.sonames.extend(group.sonames);
        let linked = [target.0.linked.take(), group.linked].into_iter().flatten();
        target.0.linked = linked.min_by(|a, b| a.at.cmp(&b.at));
        target.1 |= related;
    }
}

/// One inode of the devel tree.
struct Node<'n, 'a> {
    files: &'n Vec<&'a FileRecord>,
    related: bool,
    /// An owner's file of the same size has a name in one of the directories.
    beside: bool,
    directories: BTreeSet<&'a Path>,
}

/// Directories in which a name may belong to something that is merged: those of files with an owner, and of what can
/// hang together with these.
fn near<'a>(nodes: &[Node<'_, 'a>]) -> HashSet<&'a Path> {
    let mut there: HashMap<&Path, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        node.directories.iter().for_each(|directory| there.entry(directory).or_default().push(at));
    }
    let mut near: HashSet<&Path> = HashSet::new();
    let starts = |at: &usize| nodes[*at].related || nodes[*at].beside;
    let mut waiting: Vec<usize> = (0..nodes.len()).filter(starts).collect();
    while let Some(at) = waiting.pop() {
        for directory in nodes[at].directories.iter().filter(|directory| near.insert(directory)) {
            waiting.extend(&there[directory]);
        }
    }
    near
}
