//! What somebody changes between the plan and the change, or between the change and undo: each thing that is looked at
//! again refuses by itself. Made where a mutant of the code lived.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

use rocm_fixup::ground::Ground;
use rocm_fixup::held::Seen;
use rocm_fixup::journal::Record;
use rocm_fixup::model::{Entry, Plan};
use rocm_fixup::undo::{in_the_way, tidy};

use crate::apply::{Site, edit, place, split_pair};
use crate::snapshot::snapshot;

/// As a tool leaves it that puts times back: only the ctime tells.
#[test]
fn a_file_of_the_same_size_and_mtime_has_changed_all_the_same() {
    for name in ["d/x", "core/x"] {
        let (site, plan) = split_pair();
        let file = fs::File::options().write(true).open(site.at(name)).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"LIBRARY", 0).unwrap();
        file.set_modified(time).unwrap();
        let before = snapshot(&site.path);
        let (_, outcome) = site.run(plan);
        assert_eq!(outcome.refused.len(), 1, "{name}: {outcome:?}");
        assert_eq!(snapshot(&site.path), before, "{name}");
    }
}

/// By what it changed, by what it kept or copied, and by what the older one did.
#[test]
fn each_way_in_which_a_newer_run_builds_on_an_older_one_is_seen() {
    let (site, merge) = split_pair();
    fs::write(site.at("alone"), "x").unwrap();
    let edited = |name: &str| {
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, name, "another");
        plan
    };
    let journal = site.journal();
    let record =
        |plan: Plan| Record { plan: plan.clone(), ..journal.begin("test", None, false, plan).unwrap() };
    let (merge, owner) = (record(merge), record(edited("core/x")));
    let (copy, alone) = (record(edited("d/x")), record(edited("alone")));
    assert_eq!(in_the_way(&merge, &[&copy]), [&*copy.id], "both changed one path");
    assert_eq!(in_the_way(&merge, &[&owner]), [&*owner.id], "it changed what the older one relies on");
    assert_eq!(in_the_way(&owner, &[&merge]), [&*merge.id], "it relies on what the older one changed");
    assert!(in_the_way(&merge, &[&alone]).is_empty());
}

/// A run of edits that was killed after its first change, in this tree.
fn killed_after_the_first(site: &Site, plan: Plan, made: &str) {
    let journal = site.journal();
    journal.begin("patch", None, false, plan).unwrap();
    fs::write(site.at("p/a.py"), made).unwrap();
}

fn tidied(site: &Site) {
    let (journal, allowed) = (site.journal(), std::slice::from_ref(&site.path));
    let run = journal.runs().unwrap().pop().unwrap();
    tidy(&run.record, &journal, allowed).unwrap();
}

/// As where a patch makes two files: half of it fits nothing any more.
#[test]
fn new_files_of_a_half_made_group_are_taken_back() {
    let site = Site::new(&[("p/a.py", "new"), ("p/b.py", "new")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "p/a.py", "made");
    edit(&site, &mut plan, "p/b.py", "made");
    for (change, name) in plan.changes.iter_mut().zip(["p/a.py", "p/b.py"]) {
        (change.before, change.seen) = (Entry::Absent, None);
        fs::remove_file(site.at(name)).unwrap();
    }
    killed_after_the_first(&site, plan, "made");
    tidied(&site);
    assert!(!site.at("p/a.py").exists());
}

/// Of a group that somebody has changed, too, nothing is taken back unasked: undo tells.
#[test]
fn a_half_made_group_with_another_change_is_left() {
    let site = Site::new(&[("p/a.py", "old"), ("p/b.py", "old"), ("p/c.py", "old")]);
    let mut plan = site.plan(vec![]);
    for name in ["p/a.py", "p/b.py", "p/c.py"] {
        edit(&site, &mut plan, name, "made");
    }
    killed_after_the_first(&site, plan, "made");
    fs::write(site.at("p/c.py"), "somebody's").unwrap();
    tidied(&site);
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"made");
}

/// Python may have compiled the old text again meanwhile: that holds up nothing.
#[test]
fn bytecode_that_was_made_anew_does_not_hold_up_the_taking_back() {
    let pyc = "p/__pycache__/b.cpython-311.pyc";
    let site = Site::new(&[("p/a.py", "old"), ("p/b.py", "old"), (pyc, "code of old")]);
    let mut plan = site.plan(vec![]);
    for name in ["p/a.py", "p/b.py", pyc] {
        edit(&site, &mut plan, name, "made");
    }
    let compiled = plan.changes.last_mut().unwrap();
    (compiled.after, compiled.bytecode) = (Entry::Absent, true);
    killed_after_the_first(&site, plan, "made");
    fs::write(site.at(pyc), "code, compiled again").unwrap();
    tidied(&site);
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"old");
}

/// What a swap brought out of a name, under the name of its stage, may be somebody's: it goes back where it came from, and
/// nothing else is overwritten for that.
#[test]
fn what_lies_under_a_stage_and_is_not_ours_comes_back() {
    let edited = || {
        let site = Site::new(&[("p/a.py", "old")]);
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, "p/a.py", "made");
        site.journal().begin("patch", None, false, plan).unwrap();
        fs::write(site.at("p/.rocm-fixup-0001-0"), "mine").unwrap();
        site
    };
    let read = |site: &Site| fs::read_to_string(site.at("p/a.py")).unwrap();
    let site = edited();
    fs::remove_file(site.at("p/a.py")).unwrap();
    tidied(&site);
    assert_eq!(read(&site), "mine", "nothing has its name");

    let site = edited();
    fs::write(site.at("p/a.py"), "made").unwrap();
    tidied(&site);
    assert_eq!(read(&site), "mine", "ours has its name");
    assert!(!site.at("p/.rocm-fixup-0001-0").exists());

    let site = edited();
    fs::write(site.at("p/a.py"), "third").unwrap();
    let (journal, allowed) = (site.journal(), std::slice::from_ref(&site.path));
    let run = journal.runs().unwrap().pop().unwrap();
    tidy(&run.record, &journal, allowed).unwrap_err();
    assert_eq!(read(&site), "third");
    assert_eq!(fs::read(site.at("p/.rocm-fixup-0001-0")).unwrap(), b"mine");
}

/// A link of somebody's is no link of ours.
#[test]
fn a_foreign_link_under_a_stage_comes_back() {
    let (site, plan) = split_pair();
    site.journal().begin("dedup", None, false, plan).unwrap();
    fs::remove_file(site.at("d/x")).unwrap();
    symlink("../core/x", site.at("d/x")).unwrap();
    symlink("elsewhere", site.at("d/.rocm-fixup-0001-0")).unwrap();
    tidied(&site);
    assert_eq!(fs::read_link(site.at("d/x")).unwrap(), Path::new("elsewhere"));
}

/// Under a name that was free, and under one that was looked at: neither may be lost, however alike it looks.
#[test]
fn what_comes_between_the_look_and_the_swap_is_noticed() {
    let (site, plan) = split_pair();
    let journal = site.journal();
    let record = journal.begin("test", None, false, plan.clone()).unwrap();
    let record = Record { plan, ..record };
    let mut ground = Ground::open(&record, &journal).unwrap();
    let (stage, link) = (OsStr::new(".rocm-fixup-0001-0"), record.plan.changes[0].after.clone());

    fs::write(site.at("d/new"), "somebody's").unwrap();
    ground.stage(&place("d/new"), stage, &link, false).unwrap();
    ground.swap(&place("d/new"), stage, Seen::Absent, &link, false).unwrap().unwrap_err();
    assert_eq!(fs::read(site.at("d/new")).unwrap(), b"somebody's");
    ground.discard(&place("d/new"), stage).unwrap();

    // Another file of the same size and mtime, as `cp -p` puts there.
    let at = place("d/x");
    let old = ground.look(&at).unwrap();
    let time = fs::metadata(site.at("d/x")).unwrap().modified().unwrap();
    fs::remove_file(site.at("d/x")).unwrap();
    fs::write(site.at("d/x"), "LIBRARY").unwrap();
    fs::File::options().write(true).open(site.at("d/x")).unwrap().set_modified(time).unwrap();
    ground.stage(&at, stage, &link, false).unwrap();
    let swapped = ground.swap(&at, stage, old, &link, true).unwrap().unwrap();
    ground.came_out(&at, stage, &swapped).unwrap().unwrap_err();
    ground.swap_back(&at, stage, &swapped).unwrap();
    assert_eq!(fs::read(site.at("d/x")).unwrap(), b"LIBRARY");

    // Nothing is left of a stage whose directory went.
    ground.discard(&place("gone/x"), stage).unwrap();
}
