//! What a killed run left: staged files, swaps half-way, files of others that were in the way.

use std::fs;
use std::os::unix::fs::symlink;

use rocm_fixup::undo::tidy;

use crate::apply::{split_pair, stray};
use crate::snapshot::snapshot;

#[test]
fn an_interrupted_run_is_tidied_and_undone() {
    let (site, plan) = split_pair();
    let before = snapshot(&site.path);
    let journal = site.journal();
    let record = journal.begin("test", None, false, plan).unwrap();
    // As if killed after the first swap and while a copy was being staged.
    symlink("../core/x", site.at("d/.rocm-fixup-0001-0")).unwrap();
    fs::rename(site.at("d/.rocm-fixup-0001-0"), site.at("d/x")).unwrap();
    symlink("../core/x", site.at("d/.rocm-fixup-0001-1")).unwrap();
    fs::write(site.at("d/.rocm-fixup-0001-u1.part"), "libr").unwrap();
    let run = site.journal().runs().unwrap().pop().unwrap();
    assert!(run.unsettled());
    tidy(&record, &journal, std::slice::from_ref(&site.path)).unwrap();
    assert_eq!(stray(&site.at("d")), Vec::<String>::new());
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.already), (1, 1));
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn what_somebody_put_there_before_the_kill_goes_back_to_its_name() {
    let (site, plan) = split_pair();
    let journal = site.journal();
    let record = journal.begin("test", None, false, plan).unwrap();
    // The swap took out a file that pip had just written, and the kill came before it was put back.
    fs::remove_file(site.at("d/x")).unwrap();
    symlink("../core/x", site.at("d/x")).unwrap();
    fs::write(site.at("d/.rocm-fixup-0001-0"), "from pip").unwrap();
    tidy(&record, &journal, std::slice::from_ref(&site.path)).unwrap();
    assert_eq!(fs::read(site.at("d/x")).unwrap(), b"from pip");
    assert_eq!(stray(&site.at("d")), Vec::<String>::new());
}

#[test]
fn the_last_copy_is_never_tidied_away() {
    let (site, plan) = split_pair();
    let journal = site.journal();
    let record = journal.begin("test", None, false, plan).unwrap();
    fs::rename(site.at("d/x"), site.at("d/.rocm-fixup-0001-0")).unwrap();
    symlink("../core/x", site.at("d/x")).unwrap();
    fs::remove_file(site.at("core/x")).unwrap(); // pip uninstalled the owner meanwhile
    tidy(&record, &journal, std::slice::from_ref(&site.path)).unwrap();
    assert_eq!(fs::read(site.at("d/x")).unwrap(), b"library");
}
