//! The rules of facts.md section 4 for one devel tree after another: what is merged, left alone, or in conflict.
//! No I/O: what isn't known yet is asked of `Known` and left out until it is.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::aliases::{self, Already, Group};
use super::device::{self, Device};
use super::encode::{self, Member};
use super::known::{Headers, Inode, Known, Names, inode};
use super::owners::{Owner, Owners, is_library};
use super::{DedupPlan, Options, Reason, Trouble, links, rights};
use crate::compare::Verdict;
use crate::model::{Meta, Place, RelPath, Role};
use crate::scan::{FileRecord, Inventory, Kind, Leads, is_program_path};

/// Everything that is known says what is to be done; `known` afterwards has the questions that are still open.
pub fn decide(inventory: &Inventory, device: &Device, options: &Options, known: &mut Known) -> DedupPlan {
    let mut out = DedupPlan::new(inventory);
    let names = names(inventory);
    for path in &inventory.vanished {
        out.notes.push(format!("`{}` went away while it was looked at", path.display()));
    }
    let waiting = tarballs(inventory, &mut out);
    for root in 0..inventory.trees.len() {
        let tree = &inventory.trees[root];
        if tree.role == Role::Devel && !waiting.contains(tree.site_packages.as_path()) {
            let owners = Owners::of(inventory, root);
            let mut site =
                Site { inventory, device, options, root, owners, names: &names, known, out: &mut out };
            site.run();
        }
    }
    out.left_alone.sort_unstable();
    out.left_alone.dedup();
    out.conflicts.sort_unstable();
    out.conflicts.dedup();
    out
}

fn names(inventory: &Inventory) -> Names<'_> {
    let mut names = Names::new();
    for file in inventory.files.values().filter(|file| file.kind == Kind::File) {
        names.entry(inode(file)).or_default().insert(&file.place);
    }
    names
}

/// Reports tarballs that are still there, and names the site-packages whose devel tree can't be trusted for that.
fn tarballs<'a>(inventory: &'a Inventory, out: &mut DedupPlan) -> HashSet<&'a Path> {
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

/// One devel tree with all that is needed to decide on it.
pub struct Site<'a, 'k> {
    pub inventory: &'a Inventory,
    pub device: &'a Device,
    pub options: &'k Options,
    root: usize,
    pub owners: Owners<'a>,
    pub names: &'k Names<'a>,
    pub known: &'k mut Known,
    pub out: &'k mut DedupPlan,
}

/// Who owns the bytes of a devel name.
enum Answer<'a> {
    Owner(Owner<'a>),
    /// Nobody has a file at its path or on its inode.
    Nobody,
    /// It isn't known yet.
    Open,
    Trouble(Option<PathBuf>, Trouble, String),
}

impl<'a> Site<'a, '_> {
    fn run(&mut self) {
        self.versions();
        let already = self.symlinks();
        let mut candidates: BTreeMap<Inode, Vec<&'a FileRecord>> = BTreeMap::new();
        for file in self.files().filter(|file| file.kind == Kind::File) {
            let path = &file.place.path;
            if self.device.links.contains_key(&file.place) {
                continue;
            }
            if is_program_path(path) {
                self.program(file);
            } else if is_library(path) && below_lib(path) && !in_tests(path) {
                candidates.entry(inode(file)).or_default().push(file);
            } else if is_library(path) {
                self.elsewhere(file);
            }
        }
        let owners = &self.owners;
        let related = |file: &FileRecord| {
            let linked = owners.same_inode(file, false).chain(owners.same_inode(file, true)).next().is_some();
            linked || !owners.twins(&file.place.path).is_empty()
        };
        let sorted = aliases::sort(&candidates, &already, self.known, related);
        for group in &sorted.groups {
            self.group(group);
        }
        for (file, headers) in sorted.others {
            let path = self.inventory.absolute(&file.place);
            match headers {
                Headers::NotElf(why) => self.out.leave(path, Reason::NotElf, why),
                Headers::Unreadable(why) => self.out.refuse(path, None, Trouble::Unreadable, why),
                Headers::Program | Headers::Library { .. } => {
                    self.out.leave(path, Reason::Executable, "an ELF program under a library's name");
                }
            }
        }
        for file in sorted.rest {
            self.elsewhere(file);
        }
        self.shared();
        device::decide(self, self.root);
    }

    fn files(&self) -> impl Iterator<Item = &'a FileRecord> + use<'a> {
        let root = self.root;
        self.inventory.files.values().filter(move |file| file.place.root == root)
    }

    fn versions(&mut self) {
        let devel = &self.inventory.trees[self.root];
        for &root in &self.owners.trees {
            let other = &self.inventory.trees[root];
            if let (Some(a), Some(b), Role::Core) = (&devel.distribution, &other.distribution, other.role)
                && a.version != b.version
            {
                self.out.notes.push(format!("{} is {}, but {} is {}", a.name, a.version, b.name, b.version));
            }
        }
        if self.files().next().is_none() {
            self.out.notes.push(format!("`{}` holds no libraries", devel.path.display()));
        }
    }

    /// Counts and reports the tree's symlinks, which stay as they are; returns those that lead into an owner's file.
    fn symlinks(&mut self) -> Vec<Already<'a>> {
        let mut already = Vec::new();
        let mut loops = HashSet::new();
        let mut dangling = 0;
        let inventory = self.inventory;
        for file in self.files().filter(|file| is_library(&file.place.path)) {
            let Kind::Symlink { target, leads } = &file.kind else { continue };
            let path = inventory.absolute(&file.place);
            match leads {
                Leads::To(end) => {
                    let end = inventory.place_of(end).and_then(|end| inventory.files.get(&end));
                    let owned = |end: &&FileRecord| {
                        end.kind == Kind::File && self.owners.trees.contains(&end.place.root)
                    };
                    if let Some(end) = end.filter(owned) {
                        self.out.already += 1;
                        let owner = Owner { at: end.place.clone(), file: end, reversed: false };
                        already.push((file.place.path.parent(), owner));
                    }
                }
                Leads::InCircles => {
                    let hop = links::first_hop(&path, target);
                    loops.extend(inventory.place_of(&hop));
                    let detail =
                        "symlinks that lead to each other: the content is gone; reinstall the packages";
                    self.out.refuse(path, Some(hop), Trouble::LinkLoop, detail);
                }
                Leads::Nowhere => dangling += 1,
                Leads::Unknown(why) => {
                    self.out.notes.push(format!("can't follow `{}`: {why}", path.display()))
                }
            }
        }
        if dangling > 0 {
            let tree = inventory.trees[self.root].path.display();
            self.out.notes.push(format!("library links in `{tree}` that lead nowhere: {dangling}"));
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
        already
    }

    fn program(&mut self, file: &'a FileRecord) {
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

    /// Reports a library that nothing is done about, if it looks like an owner's.
    fn elsewhere(&mut self, file: &'a FileRecord) {
        let path = &file.place.path;
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

    fn shared(&mut self) {
        for owners in self.owners.shared() {
            let first = &owners[0];
            for other in &owners[1..] {
                let distinct = !first.reversed && !other.reversed && other.at.root != first.at.root;
                if distinct && other.file.id.size == first.file.id.size {
                    let detail = self.likeness(other.file, first.file);
                    self.out.leave(self.inventory.absolute(&other.at), Reason::TwoOwners, detail);
                }
            }
        }
    }

    /// Merges a group, or refuses it as a whole.
    fn group(&mut self, group: &Group<'a>) {
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut orphans: Vec<&'a FileRecord> = Vec::new();
        let mut troubles = Vec::new();
        let mut kept = Vec::new();
        for &file in &group.files {
            if self.options.keep_hard_links
                && let Some(owner) = self.owners.same_inode(file, false).next()
            {
                kept.push((file, owner.clone()));
                continue;
            }
            match self.owner_of(file, group) {
                Answer::Owner(owner) => members.push(Member { file, owner }),
                Answer::Nobody => orphans.push(file),
                Answer::Open => return,
                Answer::Trouble(other, reason, detail) => troubles.push((file, other, reason, detail)),
            }
        }
        let primary = members.iter().find(|m| group.has_soname(&m.file.place.path)).or(members.first());
        let primary = primary.map(|member| &member.owner).or(kept.first().map(|kept| &kept.1));
        let primary = primary.or(group.linked.as_ref()).cloned();
        for file in orphans.iter().copied() {
            let own =
                members.iter().find(|member| inode(member.file) == inode(file)).map(|m| m.owner.clone());
            let Some(owner) = own.or_else(|| primary.clone()) else { continue };
            match self.known.verdict(owner.file, file, self.options.hash) {
                None => return,
                Some(Verdict::Equal { .. }) => members.push(Member { file, owner }),
                Some(other) => {
                    let (reason, detail) = trouble(&other, Trouble::AliasContent);
                    troubles.push((file, Some(self.inventory.absolute(&owner.file.place)), reason, detail));
                }
            }
        }
        for member in &members {
            match self.refusal(member) {
                None => return,
                Some(None) => {}
                Some(Some((reason, detail))) => {
                    let owner = self.inventory.absolute(&member.owner.at);
                    troubles.push((member.file, Some(owner), reason, detail));
                }
            }
        }
        for (file, _) in kept {
            let path = self.inventory.absolute(&file.place);
            self.out.leave(path, Reason::HardLink, "a hard link between trees, kept as asked");
        }
        if troubles.is_empty() {
            encode::merge(self, members);
            return;
        }
        let culprit = self.inventory.absolute(&troubles[0].0.place);
        let bad: HashSet<&Place> = troubles.iter().map(|trouble| &trouble.0.place).collect();
        for file in members.iter().map(|member| member.file).chain(orphans) {
            if !bad.contains(&file.place) {
                let detail = format!("goes together with `{}`, which is in conflict", culprit.display());
                self.out.leave(self.inventory.absolute(&file.place), Reason::GroupRefused, detail);
            }
        }
        for (file, other, reason, detail) in troubles {
            self.out.refuse(self.inventory.absolute(&file.place), other, reason, detail);
        }
    }

    /// Same inode first, then the first equal twin, then an owner's symlink that leads here.
    fn owner_of(&mut self, file: &'a FileRecord, group: &Group<'a>) -> Answer<'a> {
        let path = &file.place.path;
        let mut same: Vec<&Owner<'a>> = self.owners.same_inode(file, false).collect();
        same.sort_by_key(|owner| owner.at.path != *path);
        if let Some(owner) = same.first() {
            return Answer::Owner((*owner).clone());
        }
        let twins = self.owners.twins(path).to_vec();
        let mut first = None;
        for twin in twins {
            match self.known.verdict(twin.file, file, self.options.hash) {
                None => return Answer::Open,
                Some(Verdict::Equal { .. }) => return Answer::Owner(self.turned(twin, group)),
                Some(other) => {
                    let (reason, detail) = trouble(&other, Trouble::Content);
                    first.get_or_insert((self.inventory.absolute(&twin.at), reason, detail));
                }
            }
        }
        if let Some((other, reason, detail)) = first {
            return Answer::Trouble(Some(other), reason, detail);
        }
        let reversed = self.owners.same_inode(file, true).next().cloned();
        reversed.map_or(Answer::Nobody, |owner| Answer::Owner(self.turned(owner, group)))
    }

    /// Of several owner's symlinks that lead to one inode, only one becomes the file: that under the SONAME, or the
    /// first.
    fn turned(&self, owner: Owner<'a>, group: &Group<'a>) -> Owner<'a> {
        let all = self.owners.same_inode(owner.file, true).filter(|_| owner.reversed);
        let best = all.min_by_key(|one| (!group.has_soname(&one.at.path), &one.at));
        best.map_or_else(|| owner.clone(), |best| best.clone())
    }

    /// Why the owner's file can't stand for the copy; `None` while it isn't known.
    fn refusal(&mut self, member: &Member<'a>) -> Option<Option<(Trouble, String)>> {
        let (file, owner) = (member.file, &member.owner);
        let (copy, kept) = (self.meta(file)?, self.meta(owner.file)?);
        let reason = match (copy, kept) {
            (Err(error), _) | (_, Err(error)) => return Some(Some((Trouble::Unreadable, error))),
            (Ok(copy), Ok(kept)) if inode(file) != inode(owner.file) => rights::refusal(&copy, &kept),
            _ => None,
        };
        let reason = reason.or_else(|| rights::unreachable(self.inventory, &file.place, &owner.at));
        Some(reason.map(|reason| (Trouble::Metadata, reason)))
    }

    /// A file's metadata with its extended attributes; `None` while these aren't known.
    pub fn meta(&mut self, file: &FileRecord) -> Option<Result<Meta, String>> {
        let xattrs = self.known.xattrs(file)?;
        Some(xattrs.map(|xattrs| Meta { xattrs, ..file.meta.clone() }))
    }
}

/// What a verdict other than "equal" means, with `unequal` for other bytes.
pub fn trouble(verdict: &Verdict, unequal: Trouble) -> (Trouble, String) {
    match verdict {
        Verdict::Differ { at: Some(at) } => (unequal, format!("other bytes, for example at offset {at}")),
        Verdict::Differ { at: None } | Verdict::Equal { .. } => (unequal, "another size".into()),
        Verdict::Changed { path } => {
            (Trouble::Changed, format!("`{}` changed while it was read", path.display()))
        }
        Verdict::Unreadable { path, error } => {
            (Trouble::Unreadable, format!("can't read `{}`: {error}", path.display()))
        }
    }
}

/// Below `lib*/` of the tree.
fn below_lib(path: &RelPath) -> bool {
    let top = path.parent().components().next();
    top.is_some_and(|top| top.as_os_str().as_encoded_bytes().starts_with(b"lib"))
}

/// Fixtures such as `share/rocprofiler-sdk/tests/duplicate-sdk/…` are duplicates on purpose.
fn in_tests(path: &RelPath) -> bool {
    path.parent().components().any(|part| part.as_os_str() == "tests")
}
