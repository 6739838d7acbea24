//! The applier, the journal and undo on plans made by hand: what they promise whoever plans. Edited files are in
//! `apply_edits`, runs that were killed in `apply_killed`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rocm_fixup::apply::{Outcome, apply};
use rocm_fixup::held::{Root, Seen};
use rocm_fixup::journal::{Ended, Journal};
use rocm_fixup::model::{Change, Digest, Entry, FileEntry, FileId, Place, Plan, RelPath, Source};
use rocm_fixup::stat::meta_of;
use rocm_fixup::undo::{tidy, undo};

use crate::snapshot::snapshot;

pub struct Site {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl Site {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("site-packages");
        fs::create_dir(&path).unwrap();
        let site = Self { _dir: dir, path };
        for (name, text) in files {
            fs::create_dir_all(site.at(name).parent().unwrap()).unwrap();
            fs::write(site.at(name), text).unwrap();
        }
        site
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn id(&self, name: &str) -> FileId {
        let root = Root::open(&self.path).unwrap();
        let place = RelPath::new(name).unwrap();
        match root.dir(place.parent()).unwrap().look(place.name()).unwrap() {
            Seen::File { id, .. } => id,
            other => panic!("{name}: {other:?}"),
        }
    }

    pub fn file(&self, name: &str, source: Source) -> Entry {
        let text = fs::read(self.at(name)).unwrap();
        let meta = meta_of(&fs::File::open(self.at(name)).unwrap()).unwrap();
        Entry::File(FileEntry { size: text.len() as u64, digest: Some(Digest::of(&text)), meta, source })
    }

    pub fn journal(&self) -> Journal {
        Journal::open(&self.path).unwrap()
    }

    pub fn plan(&self, changes: Vec<Change>) -> Plan {
        let mut plan = Plan { roots: vec![self.path.clone()], changes, ..Plan::default() };
        for change in &plan.changes {
            if let Entry::File(FileEntry { source: Source::Bytes, digest: Some(digest), .. }) = &change.before
            {
                let path = plan.absolute(&change.at);
                plan.originals.insert(*digest, fs::read(path).unwrap());
            }
        }
        plan
    }

    pub fn run(&self, plan: Plan) -> (rocm_fixup::journal::Record, Outcome) {
        let journal = self.journal();
        let record = journal.begin("test", None, false, plan.clone()).unwrap();
        let record = rocm_fixup::journal::Record { plan, ..record };
        let outcome = apply(&record, &journal, |_| {}).unwrap();
        (record, outcome)
    }

    pub fn undo_newest(&self) -> rocm_fixup::undo::Undone {
        let journal = self.journal();
        let run = journal.runs().unwrap().pop().unwrap();
        undo(&run.record, &journal, std::slice::from_ref(&self.path)).unwrap()
    }
}

pub fn place(name: &str) -> Place {
    Place { root: 0, path: RelPath::new(name).unwrap() }
}

fn merge(site: &Site, devel: &str, target: &str, core: &str, source: Source, group: u32) -> Change {
    Change {
        at: place(devel),
        before: site.file(devel, source),
        after: Entry::Symlink { target: target.into() },
        seen: Some(site.id(devel)),
        keeps: Some((place(core), site.id(core))),
        group,
        bytecode: false,
    }
}

pub fn edit(site: &Site, plan: &mut Plan, name: &str, text: &str) {
    let Entry::File(before) = site.file(name, Source::Bytes) else { unreachable!() };
    plan.originals.insert(before.digest.unwrap(), fs::read(site.at(name)).unwrap());
    let digest = Digest::of(text.as_bytes());
    plan.contents.insert(digest, text.as_bytes().to_vec());
    let after = FileEntry { size: text.len() as u64, digest: Some(digest), ..before.clone() };
    plan.changes.push(Change {
        at: place(name),
        before: Entry::File(before),
        after: Entry::File(after),
        seen: Some(site.id(name)),
        keeps: None,
        group: 0,
        bytecode: false,
    });
}

pub fn stray(dir: &Path) -> Vec<String> {
    let names = snapshot(dir).into_keys().map(|p| p.display().to_string());
    names.filter(|name| name.contains(".rocm-fixup")).collect()
}

/// core/x and an inode group d/x, d/y split from it.
pub fn split_pair() -> (Site, Plan) {
    let site = Site::new(&[("core/x", "library"), ("d/x", "library")]);
    fs::hard_link(site.at("d/x"), site.at("d/y")).unwrap();
    let plan = site.plan(vec![
        merge(&site, "d/x", "../core/x", "core/x", Source::LinkTo(place("d/y")), 0),
        merge(&site, "d/y", "../core/x", "core/x", Source::CopyOf(place("core/x")), 0),
    ]);
    (site, plan)
}

#[test]
fn a_merge_is_made_recorded_and_undone_to_the_same_tree() {
    let (site, plan) = split_pair();
    let before = snapshot(&site.path);
    let (_, outcome) = site.run(plan);
    assert!(outcome.refused.is_empty() && outcome.failed.is_none());
    assert_eq!(fs::read_link(site.at("d/x")).unwrap(), Path::new("../core/x"));
    assert_eq!(fs::read_link(site.at("d/y")).unwrap(), Path::new("../core/x"));
    assert_eq!(site.journal().runs().unwrap()[0].ended, Some(Ended::Complete));
    let undone = site.undo_newest();
    assert_eq!(undone.restored.len(), 2);
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn a_group_with_one_changed_member_is_refused_whole() {
    let (site, plan) = split_pair();
    fs::remove_file(site.at("d/y")).unwrap();
    fs::write(site.at("d/y"), "another").unwrap();
    let before = snapshot(&site.path);
    let (_, outcome) = site.run(plan);
    assert_eq!(outcome.refused.len(), 1, "{outcome:?}");
    assert_eq!(snapshot(&site.path), before, "nothing changed, and no journal stays");
}

#[test]
fn a_changed_owner_refuses_the_merge() {
    let (site, plan) = split_pair();
    fs::write(site.at("core/x"), "newer!!").unwrap();
    let before = snapshot(&site.path);
    let (_, outcome) = site.run(plan);
    assert!(outcome.refused[0].reason.contains("core/x"), "{outcome:?}");
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn undo_leaves_what_changed_since_and_names_it() {
    let (site, plan) = split_pair();
    site.run(plan);
    fs::remove_file(site.at("d/y")).unwrap();
    fs::write(site.at("d/y"), "somebody's").unwrap();
    let undone = site.undo_newest();
    let refused: Vec<_> = undone.refused.iter().map(|r| r.path.clone()).collect();
    assert!(refused.contains(&site.at("d/y")), "{undone:?}");
    assert_eq!(fs::read(site.at("d/y")).unwrap(), b"somebody's");
    assert_eq!(site.journal().runs().unwrap().len(), 1, "the run stays recorded");
}

#[test]
fn intact_hard_links_become_symlinks_and_come_back_as_hard_links() {
    let site = Site::new(&[("core/x", "library"), ("d/.keep", "")]);
    fs::hard_link(site.at("core/x"), site.at("d/x")).unwrap();
    let before = snapshot(&site.path);
    let mut change = merge(&site, "d/x", "../core/x", "core/x", Source::LinkTo(place("core/x")), 0);
    let Entry::File(file) = &mut change.before else { unreachable!() };
    file.digest = None;
    site.run(site.plan(vec![change]));
    assert!(site.at("d/x").is_symlink());
    site.undo_newest();
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn a_reversed_link_is_turned_and_turned_back() {
    let site = Site::new(&[("d/x", "library"), ("core/.keep", "")]);
    symlink(site.at("d/x"), site.at("core/x")).unwrap();
    let before = snapshot(&site.path);
    let id = site.id("d/x");
    let file = |source| match site.file("d/x", source) {
        Entry::File(file) => Entry::File(FileEntry { digest: None, ..file }),
        _ => unreachable!(),
    };
    let plan = site.plan(vec![
        Change {
            at: place("core/x"),
            before: Entry::Symlink { target: site.at("d/x") },
            after: file(Source::LinkTo(place("d/x"))),
            seen: None,
            keeps: None,
            group: 0,
            bytecode: false,
        },
        Change {
            at: place("d/x"),
            before: file(Source::LinkTo(place("core/x"))),
            after: Entry::Symlink { target: "../core/x".into() },
            seen: Some(id),
            keeps: None,
            group: 0,
            bytecode: false,
        },
    ]);
    let (_, outcome) = site.run(plan);
    assert!(outcome.refused.is_empty() && outcome.failed.is_none(), "{outcome:?}");
    assert!(site.at("core/x").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read(site.at("d/x")).unwrap(), b"library");
    assert!(site.at("d/x").is_symlink());
    site.undo_newest();
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn device_links_are_re_made_on_a_fresh_inode_with_a_fresh_time() {
    let site = Site::new(&[("lib/k", "kernel"), ("d/k", "kernel")]);
    let before = snapshot(&site.path);
    let old = site.id("lib/k");
    let plan = site.plan(vec![
        Change {
            at: place("lib/k"),
            before: site.file("lib/k", Source::Refresh),
            after: site.file("lib/k", Source::Refresh),
            seen: Some(old),
            keeps: None,
            group: 0,
            bytecode: false,
        },
        Change {
            at: place("d/k"),
            before: site.file("d/k", Source::CopyOf(place("lib/k"))),
            after: site.file("lib/k", Source::LinkTo(place("lib/k"))),
            seen: Some(site.id("d/k")),
            keeps: None,
            group: 0,
            bytecode: false,
        },
    ]);
    let (_, outcome) = site.run(plan);
    assert!(outcome.refused.is_empty() && outcome.failed.is_none(), "{outcome:?}");
    let age = site.at("lib/k").metadata().unwrap().modified().unwrap().elapsed().unwrap();
    assert!(age.as_secs() < 600, "{age:?}");
    let (lib, d) = (site.id("lib/k"), site.id("d/k"));
    assert_eq!(lib.ino, d.ino);
    assert_ne!(lib.ino, old.ino);
    assert_ne!(lib.mtime, old.mtime);
    assert_eq!(lib.mtime % 1_000_000_000, 0, "whole seconds survive every archive");
    site.undo_newest();
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn a_link_on_the_way_stops_everything() {
    let (site, plan) = split_pair();
    let outside = site.path.parent().unwrap().join("outside");
    fs::rename(site.at("d"), &outside).unwrap();
    symlink(&outside, site.at("d")).unwrap();
    let before = snapshot(site.path.parent().unwrap());
    let (_, outcome) = site.run(plan);
    assert_eq!(outcome.refused.len(), 1, "{outcome:?}");
    assert_eq!(snapshot(site.path.parent().unwrap()), before);
}

#[test]
fn a_journal_of_another_tree_or_with_foreign_roots_grants_nothing() {
    let (site, plan) = split_pair();
    site.run(plan);
    let other = Site::new(&[("core/x", "library")]);
    let copy =
        std::process::Command::new("cp").arg("-a").arg(site.at(".rocm-fixup")).arg(&other.path).status();
    assert!(copy.unwrap().success());
    let run = other.journal().runs().unwrap().pop().unwrap();
    assert!(run.moved);
    let allowed = [site.path.clone(), other.path.clone()];
    let error = undo(&run.record, &other.journal(), &allowed).unwrap_err();
    assert!(rocm_fixup::error::message(&error).contains("is a copy of that tree"), "{error:?}");
    assert_eq!(rocm_fixup::error::exit_of(&error), rocm_fixup::error::Exit::Refused);
    let before = snapshot(&other.path);
    tidy(&run.record, &other.journal(), &allowed).unwrap();
    assert_eq!(snapshot(&other.path), before, "there is nothing to tidy, and the record stays");

    let journal = site.journal();
    let run = journal.runs().unwrap().pop().unwrap();
    let before = snapshot(&site.path);
    let error = undo(&run.record, &journal, std::slice::from_ref(&other.path)).unwrap_err();
    assert_eq!(rocm_fixup::error::exit_of(&error), rocm_fixup::error::Exit::Refused);
    assert_eq!(snapshot(&site.path), before);
}
