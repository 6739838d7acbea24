//! What somebody changes between the plan and the change, or between the change and undo: each thing that is looked at
//! again refuses by itself. Made where a mutant of the code lived.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt as _;

use rocm_fixup::ground::Ground;
use rocm_fixup::held::Seen;
use rocm_fixup::journal::Record;
use rocm_fixup::model::Plan;
use rocm_fixup::undo::in_the_way;

use crate::apply::{edit, place, split_pair};
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
