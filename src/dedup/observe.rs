//! What the report says of a devel tree besides merges: links that are there already or broken, and files that are left
//! alone. Plans no change. No I/O.

use std::collections::{HashMap, HashSet};
use std::mem::discriminant;
use std::path::Path;

use super::aliases::Symlinks;
use super::decide::{Site, below_lib};
use super::known::{Headers, inode};
use super::owners::{Owner, is_library};
use super::{DedupPlan, Reason, Trouble, links};
use crate::compare::Verdict;
use crate::model::{Place, RelPath, Role};
use crate::scan::{FileRecord, Inventory, Kind, Leads};

/// Reports tarballs that are still there, and names the site-packages whose devel tree can't be trusted for that.
pub fn tarballs<'a>(inventory: &'a Inventory, out: &mut DedupPlan) -> HashSet<&'a Path> {
    let mut waiting = HashSet::new();
    for tarball in &inventory.tarballs {
        let site = tarball.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let tree = inventory.trees.iter().find(|tree| tree.role == Role::Devel && tree.site_packages == site);
        let (reason, what) = match tree {
            Some(_) => (Trouble::HalfExpanded, "was expanded in part only"),
            None => (Trouble::Unexpanded, "is not expanded yet"),
        };
        let detail = format!("the devel package {what}: run `rocm-sdk init` first, in the same RUN");
        out.refuse(tarball.clone(), tree.map(|tree| tree.path.clone()), reason, detail);
        waiting.insert(site);
    }
    waiting
}

/// How many paths a note names.
pub const NAMED: usize = 3;

impl<'a> Site<'a, '_> {
    pub(super) fn versions(&mut self) {
        let devel = &self.inventory.trees[self.root];
        for &root in &self.owners.trees {
            let other = &self.inventory.trees[root];
            if let (Some(a), Some(b), Role::Core) = (&devel.distribution, &other.distribution, other.role)
                && a.version != b.version
            {
                self.out.notes.push(format!("{} is {}, but {} is {}", a.name, a.version, b.name, b.version));
            }
        }
        if !self.files().any(|file| file.kind == Kind::File || is_library(&file.place.path)) {
            self.out.notes.push(format!("`{}` holds no libraries", devel.path.display()));
        }
    }

    /// Counts and reports the tree's symlinks, which stay as they are; returns those that lead to a library.
    pub(super) fn symlinks(&mut self) -> Symlinks<'a> {
        let mut symlinks = Symlinks::default();
        let mut loops = HashSet::new();
        let mut dangling = Vec::new();
        let inventory = self.inventory;
        for file in self.files().filter(|file| is_library(&file.place.path)) {
            let Kind::Symlink { target, leads } = &file.kind else { continue };
            let path = inventory.absolute(&file.place);
            match leads {
                Leads::To(end) => {
                    let end = inventory.place_of(end).and_then(|end| inventory.files.get(&end));
                    let Some(end) = end.filter(|end| end.kind == Kind::File) else { continue };
                    let directory = file.place.path.parent();
                    if self.owners.trees.contains(&end.place.root) {
                        let twins = self.owners.twins(&file.place.path);
                        let own = twins.is_empty() || twins.iter().any(|twin| inode(twin.file) == inode(end));
                        self.out.already += u64::from(own);
                        let owner = Owner { at: end.place.clone(), file: end, reversed: false };
                        symlinks.lead(directory, &owner);
                    } else if end.place.root == self.root {
                        symlinks.inside.entry(inode(end)).or_default().push(directory);
                    }
                }
                Leads::InCircles => {
                    let hop = links::first_hop(&path, target);
                    loops.extend(inventory.place_of(&hop));
                    let detail =
                        "symlinks that lead to each other: the content is gone; reinstall the packages";
                    self.out.refuse(path, Some(hop), Trouble::LinkLoop, detail);
                }
                Leads::Nowhere => match self.known.lost.get(&file.place) {
                    Some(lost) => {
                        let detail = "it leads to a file that is gone, though its package's RECORD lists it";
                        self.out.refuse(path, Some(lost.clone()), Trouble::Dangling, detail);
                    }
                    None if self.options.linked.contains(&path) => {
                        let hop = links::first_hop(&path, target);
                        let detail = "rocm-fixup made it a link, and the file that it leads to is gone";
                        self.out.refuse(path, Some(hop), Trouble::Dangling, detail);
                    }
                    None => dangling.push(&file.place.path),
                },
                Leads::Unknown(why) => {
                    self.out.notes.push(format!("can't follow `{}`: {why}", path.display()))
                }
            }
        }
        if !dangling.is_empty() {
            let tree = inventory.trees[self.root].path.display();
            let named: Vec<String> = dangling.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
            let more = if dangling.len() > NAMED { ", …" } else { "" };
            let (count, named) = (dangling.len(), named.join(", "));
            self.out
                .notes
                .push(format!("library links in `{tree}` that lead nowhere: {count} ({named}{more})"));
        }
        for file in self.owners.broken.iter().filter(|file| !loops.contains(&file.place)) {
            let Kind::Symlink { target, leads } = &file.kind else { continue };
            let path = inventory.absolute(&file.place);
            let hop = links::first_hop(&path, target);
            let (reason, what) = match leads {
                Leads::InCircles => (Trouble::LinkLoop, "symlinks that lead to each other"),
                _ => (Trouble::Dangling, "a link into the devel tree that leads nowhere"),
            };
            let detail = format!("{what}: the content is gone; reinstall the packages");
            self.out.refuse(path, Some(hop), reason, detail);
        }
        symlinks
    }

    /// A name that leads to another file than the owner's of that name once all is merged: whoever opens both has two
    /// libraries. What lies outside of the trees is told elsewhere, and so are files that aren't merged, and two equal
    /// files side by side in an owner's tree.
    pub(super) fn other_file(&mut self) {
        let inventory = self.inventory;
        let kept =
            self.out.plan.changes.iter().filter_map(|c| Some((c.at.clone(), c.keeps.as_ref()?.0.clone())));
        let kept: HashMap<Place, Place> = kept.collect();
        for name in self.files() {
            let path = &name.place.path;
            let twins = self.owners.twins(path).to_vec();
            if twins.is_empty() || !below_lib(path) || in_tests(path) {
                continue;
            }
            let file = match &name.kind {
                Kind::Symlink { leads: Leads::To(end), .. }
                    if !inventory.is_outside(end) && inventory.directory(end).is_none() =>
                {
                    inventory.place_of(end).and_then(|end| inventory.files.get(&end))
                }
                Kind::File if kept.contains_key(&name.place) => Some(name),
                _ => continue,
            };
            // A copy is what it will be linked to, also one that the owner's link leads to.
            let merged = |file: &'a FileRecord| kept.get(&file.place);
            let stays = |file| inode(merged(file).and_then(|at| inventory.files.get(at)).unwrap_or(file));
            let one = |twin: &Owner<'a>| {
                file.is_some_and(|file| merged(file) == Some(&twin.at) || stays(file) == stays(twin.file))
            };
            if twins.iter().any(one) || file.is_some_and(|file| self.doubled(file, &twins)) {
                continue;
            }
            let mut no_library =
                |file: &FileRecord| matches!(self.known.headers(file), Some(Headers::NotElf(_)));
            if file.is_some_and(&mut no_library) && twins.iter().all(|twin| no_library(twin.file)) {
                continue;
            }
            self.refuse_other_file(name, &twins[0].at);
        }
    }

    fn refuse_other_file(&mut self, name: &FileRecord, owner: &Place) {
        let (path, owner) = (self.inventory.absolute(&name.place), self.inventory.absolute(owner));
        match &name.kind {
            Kind::Symlink { leads: Leads::To(end), .. } => {
                let detail = format!("a symlink to `{}`, another file than the owner's", end.display());
                self.out.refuse(path, Some(owner), Trouble::OtherFile, detail);
            }
            // The devel name is merged; what stays as it is, is the owner's link.
            _ => {
                let detail = "a symlink to another file than the one that the devel tree has of this name";
                self.out.refuse(owner, Some(path), Trouble::OtherFile, detail);
            }
        }
    }

    /// Whether one of an owner's files lies beside `file`, with equal bytes; also while that isn't known.
    fn doubled(&mut self, file: &FileRecord, owners: &[Owner<'_>]) -> bool {
        let (place, directory) = (&file.place, file.place.path.parent());
        if !self.owners.trees.contains(&place.root) {
            return false;
        }
        let beside =
            |o: &&Owner<'_>| o.file.place.root == place.root && o.file.place.path.parent() == directory;
        owners.iter().filter(beside).any(|owner| {
            matches!(self.known.verdict(owner.file, file, false), None | Some(Verdict::Equal { .. }))
        })
    }

    pub(super) fn program(&mut self, file: &'a FileRecord) {
        for &root in &self.owners.trees {
            let place = Place { root, path: file.place.path.clone() };
            let Some(twin) = self.inventory.files.get(&place).filter(|twin| twin.kind == Kind::File) else {
                continue;
            };
            let detail = self.likeness(file, twin);
            self.out.leave(self.inventory.absolute(&file.place), Reason::Executable, detail);
            return;
        }
    }

    /// Reports what has a library's name and an owner's twin, but is no library. That is fine where the twin is none
    /// either; beside a library it is what a broken download or a full disk leaves.
    pub(super) fn no_library(&mut self, file: &'a FileRecord, headers: &Headers) {
        let (mut alike, mut unlike) = (false, None);
        for twin in self.owners.twins(&file.place.path).to_vec() {
            match self.known.headers(twin.file) {
                None => return,
                Some(theirs) if discriminant(&theirs) == discriminant(headers) => alike = true,
                Some(theirs) => drop(unlike.get_or_insert((twin.at, theirs))),
            }
        }
        let path = self.inventory.absolute(&file.place);
        let (reason, what) = match headers {
            Headers::NotElf(why) => (Reason::NotElf, why.as_str()),
            Headers::Unreadable(why) => return self.out.refuse(path, None, Trouble::Unreadable, why),
            Headers::Program | Headers::Library { .. } => {
                (Reason::Executable, "an ELF program under a library's name")
            }
        };
        let Some((twin, theirs)) = unlike.filter(|_| !alike) else {
            return self.out.leave(path, reason, what);
        };
        let (reason, theirs) = match theirs {
            Headers::Library { .. } => (Trouble::Content, "a library".to_owned()),
            Headers::Program => (Trouble::Content, "a program".to_owned()),
            Headers::NotElf(why) => (Trouble::Content, why),
            Headers::Unreadable(why) => (Trouble::Unreadable, why),
        };
        let twin = self.inventory.absolute(&twin);
        self.out.refuse(path, Some(twin), reason, format!("{what}; the owner's: {theirs}"));
    }

    /// Reports a library that nothing is done about, if it looks like an owner's.
    pub(super) fn elsewhere(&mut self, file: &'a FileRecord) {
        let path = &file.place.path;
        if !in_tests(path) && self.through_links(file) {
            return;
        }
        let twin = self.owners.twins(path).first().map(|twin| twin.file);
        let same = self.owners.same_inode(file, false).next().map(|owner| owner.file);
        let Some(other) = twin.or(same).or_else(|| self.owners.namesake(file)) else { return };
        let reason = match () {
            () if in_tests(path) => Reason::TestFixture,
            () if twin.is_some() => Reason::OutsideLib,
            () => Reason::OtherPath,
        };
        let detail = self.likeness(file, other);
        self.out.leave(self.inventory.absolute(&file.place), reason, detail);
    }

    fn likeness(&self, file: &FileRecord, other: &FileRecord) -> String {
        let how = match () {
            () if inode(file) == inode(other) => "a hard link to",
            () if file.id.size == other.id.size => "not compared; the same size as",
            () => "another size than",
        };
        format!("{how} `{}`", self.inventory.absolute(&other.place).display())
    }

    pub(super) fn shared(&mut self) {
        for owners in self.owners.shared() {
            let first = &owners[0];
            for other in &owners[1..] {
                if !first.reversed && !other.reversed && other.file.id.size == first.file.id.size {
                    let detail = self.likeness(other.file, first.file);
                    self.out.leave(self.inventory.absolute(&other.at), Reason::TwoOwners, detail);
                }
            }
        }
    }
}

/// Fixtures such as `share/rocprofiler-sdk/tests/duplicate-sdk/…` are duplicates on purpose.
pub fn in_tests(path: &RelPath) -> bool {
    path.parent().components().any(|part| part.as_os_str() == "tests")
}
