//! The rules of facts.md section 4 for one devel tree after another: what is merged, left alone, or in conflict.
//! No I/O: what isn't known yet is asked of `Known` and left out until it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use super::aliases::{self, Group};
use super::device::{self, Device};
use super::encode::{self, Member};
use super::known::{Inode, Known, Names, inode};
use super::observe::{in_tests, tarballs};
use super::owners::{Owner, Owners, is_library};
use super::refusal::trouble;
use super::spelled::Spelled;
use super::{DedupPlan, Options, Reason, Trouble};
use crate::compare::Verdict;
use crate::model::{Place, RelPath, Role};
use crate::scan::{FileRecord, Inventory, Kind, is_below_lib, is_program_path};

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
            let spelled = Spelled::of(inventory, root, &owners.trees);
            let (names, out) = (&names, &mut out);
            let known = &mut *known;
            let mut site = Site { inventory, device, options, root, owners, spelled, names, known, out };
            site.run();
            // Neither asks anything, so it is enough to tell it in the last round, in which nobody asks.
            if !site.known.asks() {
                site.odd_names();
                site.shared();
            }
        }
    }
    out.left_alone.sort_unstable();
    out.left_alone.dedup();
    out.conflicts.sort_unstable();
    out.conflicts.dedup();
    out.doubles.sort_unstable();
    out.doubles.dedup();
    out
}

fn names(inventory: &Inventory) -> Names<'_> {
    let mut names = Names::new();
    for file in inventory.files.values().filter(|file| file.kind == Kind::File) {
        names.entry(inode(file)).or_default().insert(&file.place);
    }
    names
}

/// One devel tree with all that is needed to decide on it.
pub struct Site<'a, 'k> {
    pub inventory: &'a Inventory,
    pub device: &'a Device,
    pub options: &'k Options,
    pub root: usize,
    pub owners: Owners<'a>,
    pub spelled: Spelled<'a>,
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
        let mut symlinks = self.symlinks();
        let mut candidates: BTreeMap<Inode, Vec<&'a FileRecord>> = BTreeMap::new();
        for file in self.files().filter(|file| file.kind == Kind::File) {
            let path = &file.place.path;
            if self.device.links.contains_key(&file.place) {
                continue;
            }
            if is_program_path(path.as_path()) {
                self.program(file);
            } else if is_library(path) && below_lib(path) && !in_tests(path) {
                candidates.entry(inode(file)).or_default().push(file);
            } else if is_library(path) {
                self.elsewhere(file);
            }
        }
        let owners = &self.owners;
        // A copy under none of the owner's names (`libX.so.1.2.3`, where the owner has `libX.so.1`) is one all the same
        // if its SONAME says so; a symlink under the owner's name may lead to it, as after `ldconfig`.
        let nameless =
            |files: &&Vec<&FileRecord>| files.iter().all(|file| owners.twins(&file.place.path).is_empty());
        let mut looked = HashSet::new();
        for file in candidates.values().filter(nameless).flatten() {
            let directory = file.place.path.parent();
            if looked.insert((directory, file.id.size)) {
                let beside = owners.beside(directory, file.id.size).iter();
                beside.for_each(|owner| symlinks.lead(directory, owner));
            }
        }
        let related = |file: &FileRecord| {
            let linked = owners.same_inode(file, false).chain(owners.same_inode(file, true)).next().is_some();
            linked || !owners.twins(&file.place.path).is_empty()
        };
        let turns = |file: &FileRecord| {
            let twins = owners.twins(&file.place.path).iter().filter(|twin| twin.reversed);
            owners.same_inode(file, true).take(1).chain(twins).map(|owner| inode(owner.file)).collect()
        };
        let sorted = aliases::sort(&candidates, &symlinks, self.known, related, turns);
        for group in &sorted.groups {
            self.group(group);
        }
        for (file, headers) in sorted.others {
            self.no_library(file, &headers);
        }
        for &file in &sorted.rest {
            self.elsewhere(file);
        }
        self.other_file();
        self.owners_through_links();
        self.doubles(&sorted.rest);
        device::decide(self, self.root);
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &'a FileRecord> + use<'a> {
        let root = self.root;
        self.inventory.files.values().filter(move |file| file.place.root == root)
    }

    /// Merges a group, or refuses it as a whole.
    fn group(&mut self, group: &Group<'a>) {
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut orphans: Vec<&'a FileRecord> = Vec::new();
        let mut troubles = Vec::new();
        let mut kept = Vec::new();
        // All questions are asked before waiting for answers: one a round would make as many rounds as there are names.
        let mut open = false;
        for &file in &group.files {
            // Told by `odd_names` as well, in the same words; here it keeps the name's whole group as it is.
            if let Some((twin, detail)) = self.twin_outside(file) {
                troubles.push((file, Some(self.inventory.absolute(&twin)), Trouble::Outside, detail));
                continue;
            }
            if self.options.keep_hard_links
                && let Some(owner) = self.linked_owner(file)
            {
                kept.push((file, owner));
                continue;
            }
            match self.owner_of(file, group) {
                Answer::Owner(owner) => members.push(Member { file, owner }),
                Answer::Nobody => orphans.push(file),
                Answer::Open => open = true,
                Answer::Trouble(other, reason, detail) => troubles.push((file, other, reason, detail)),
            }
        }
        if open {
            return self.ask_ahead(group);
        }
        unturn(&mut members);
        let primary = members.iter().find(|m| group.has_soname(&m.file.place.path)).or(members.first());
        let primary = primary.map(|member| &member.owner).or(kept.first().map(|kept| &kept.1));
        let linked = group.linked.as_ref().map(|owner| self.turned(owner.clone(), group));
        let primary = primary.cloned().or(linked);
        let mut own: HashMap<Inode, Owner<'a>> = HashMap::new();
        for member in &members {
            own.entry(inode(member.file)).or_insert_with(|| member.owner.clone());
        }
        for file in orphans.iter().copied() {
            let Some(owner) = own.get(&inode(file)).or(primary.as_ref()).cloned() else { continue };
            match self.known.verdict(owner.file, file, self.options.hash) {
                None => open = true,
                Some(Verdict::Equal { .. }) => members.push(Member { file, owner }),
                Some(other) => {
                    let (reason, detail) = trouble(&other, Trouble::AliasContent);
                    troubles.push((file, Some(self.inventory.absolute(&owner.file.place)), reason, detail));
                }
            }
        }
        for member in &members {
            match self.refusal(member) {
                None => open = true,
                Some(None) => {}
                Some(Some((reason, detail))) => {
                    let owner = self.inventory.absolute(&member.owner.at);
                    troubles.push((member.file, Some(owner), reason, detail));
                }
            }
        }
        if open {
            return;
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

    /// Asks with the comparisons what will be asked after them: each round of questions costs a look at everything.
    fn ask_ahead(&mut self, group: &Group<'a>) {
        for file in &group.files {
            self.known.xattrs(file);
            for twin in self.owners.twins(&file.place.path) {
                self.known.xattrs(twin.file);
            }
        }
    }

    /// The owner's name on a file's inode: that at the same path, or any where no owner has another file at that path.
    fn linked_owner(&self, file: &FileRecord) -> Option<Owner<'a>> {
        let path = &file.place.path;
        let others = self.owners.twins(path).iter().any(|twin| inode(twin.file) != inode(file));
        let best = self.owners.same_inode(file, false).min_by_key(|owner| owner.at.path != *path);
        best.filter(|owner| owner.at.path == *path || !others).cloned()
    }

    /// Same inode first, then the first equal twin, then an owner's symlink that leads here.
    fn owner_of(&mut self, file: &'a FileRecord, group: &Group<'a>) -> Answer<'a> {
        let path = &file.place.path;
        if let Some(owner) = self.linked_owner(file) {
            return Answer::Owner(owner);
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
}

/// Where an owner has the file itself under another name, its link into the devel tree needn't become one, too.
fn unturn(members: &mut [Member<'_>]) {
    let real: HashMap<Inode, Owner<'_>> = members
        .iter()
        .filter(|member| !member.owner.reversed)
        .map(|member| (inode(member.file), member.owner.clone()))
        .collect();
    for member in members {
        let leads_here = member.owner.reversed && inode(member.owner.file) == inode(member.file);
        if let Some(owner) = real.get(&inode(member.file)).filter(|_| leads_here) {
            member.owner = owner.clone();
        }
    }
}

/// In a directory of libraries, or below one.
pub fn below_lib(path: &RelPath) -> bool {
    is_below_lib(path.parent())
}
