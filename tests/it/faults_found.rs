//! One test for each fault that the fault tests, the model or hostile input found, where it can be made to happen without
//! strace. docs/reliability.md lists them all, with the line that replays each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rocm_fixup::apply::apply;
use rocm_fixup::elf;
use rocm_fixup::ground::{Ground, Swap};
use rocm_fixup::journal::{Ended, Record};
use rocm_fixup::model::{Change, Entry, FileEntry, Plan, Source};
use rocm_fixup::undo::{tidy, undo};

use crate::apply::{Site, edit, place, split_pair, stray};
use crate::cli::tool;
use crate::sdk_tree::SdkTree;
use crate::snapshot::{assert_same, snapshot};

/// core/x is a link to d/x, and the file shall be core's.
fn turned() -> (Site, Plan) {
    let site = Site::new(&[("d/x", "library"), ("core/.keep", "")]);
    symlink("../d/x", site.at("core/x")).unwrap();
    let id = site.id("d/x");
    let file = |source| match site.file("d/x", source) {
        Entry::File(file) => Entry::File(FileEntry { digest: None, ..file }),
        _ => unreachable!(),
    };
    let change = |at: &str, before, after, seen, keeps| Change {
        at: place(at),
        before,
        after,
        seen,
        keeps: Some((place(keeps), id)),
        group: 0,
        bytecode: false,
    };
    let plan = site.plan(vec![
        change(
            "core/x",
            Entry::Symlink { target: "../d/x".into() },
            file(Source::LinkTo(place("d/x"))),
            None,
            "d/x",
        ),
        change(
            "d/x",
            file(Source::LinkTo(place("core/x"))),
            Entry::Symlink { target: "../core/x".into() },
            Some(id),
            "core/x",
        ),
    ]);
    (site, plan)
}

#[test]
fn a_group_may_keep_a_file_that_it_makes_itself() {
    let (site, plan) = turned();
    let before = snapshot(&site.path);
    let (_, outcome) = site.run(plan);
    assert!(outcome.refused.is_empty() && outcome.failed.is_none(), "{outcome:?}");
    assert!(site.at("core/x").symlink_metadata().unwrap().is_file());
    site.undo_newest();
    assert_same(&before, &snapshot(&site.path));
}

#[test]
fn an_undo_that_was_complete_but_for_its_journal_finds_everything_as_before() {
    let (site, plan) = turned();
    let before = snapshot(&site.path);
    let (record, _) = site.run(plan);
    let kept = site.path.parent().unwrap().join("kept");
    let copy = |from: &Path, to: &Path| {
        let done = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(done.success());
    };
    copy(&site.at(".rocm-fixup"), &kept);
    site.undo_newest();
    copy(&kept, &site.at(".rocm-fixup"));
    let undone = undo(&record, &site.journal(), std::slice::from_ref(&site.path)).unwrap();
    assert_eq!((undone.already, undone.refused), (2, Vec::new()));
    assert_same(&before, &snapshot(&site.path));
}

#[test]
fn the_stage_of_a_turned_link_is_tidied_away() {
    let (site, plan) = turned();
    let before = snapshot(&site.path);
    let record = site.journal().begin("test", None, false, plan).unwrap();
    fs::hard_link(site.at("d/x"), site.at("core/.rocm-fixup-0001-0")).unwrap();
    tidy(&record, &site.journal(), std::slice::from_ref(&site.path)).unwrap();
    assert_eq!(stray(&site.at("core")), Vec::<String>::new());
    site.undo_newest();
    assert_same(&before, &snapshot(&site.path));
}

#[test]
fn what_a_forgotten_run_left_does_not_speak_for_the_next_one() {
    let (site, plan) = split_pair();
    let journal = site.journal();
    site.run(plan.clone());
    fs::copy(site.at(".rocm-fixup/0001.done"), site.path.join("done")).unwrap();
    site.undo_newest();
    // As if the undo had been killed after it removed the plan.
    fs::create_dir(site.at(".rocm-fixup")).unwrap();
    fs::rename(site.at("done"), site.at(".rocm-fixup/0001.done")).unwrap();
    fs::write(site.at(".rocm-fixup/0001.undoing.part"), "").unwrap();
    journal.sweep().unwrap();
    assert!(!site.at(".rocm-fixup").exists());
    let record = journal.begin("test", None, false, plan).unwrap();
    assert!(journal.runs().unwrap()[0].unsettled(), "{}", record.id);
}

#[test]
fn a_half_made_patch_is_taken_back_before_the_next_run() {
    let site = Site::new(&[("p/a.py", "one\n"), ("p/b.py", "two\n")]);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "p/a.py", "ONE\n");
    edit(&site, &mut plan, "p/b.py", "TWO\n");
    let record = site.journal().begin("test", None, false, plan).unwrap();
    // The first file was replaced, then the power went.
    fs::write(site.at("p/a.py"), "ONE\n").unwrap();
    tidy(&record, &site.journal(), std::slice::from_ref(&site.path)).unwrap();
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"one\n");
    site.undo_newest();
    assert_same(&before, &snapshot(&site.path));
}

#[test]
fn taking_a_swap_back_never_takes_what_somebody_put_there_meanwhile() {
    let (site, plan) = split_pair();
    let journal = site.journal();
    let record = journal.begin("test", None, false, plan.clone()).unwrap();
    let record = Record { plan, ..record };
    let mut ground = Ground::open(&record, &journal).unwrap();
    let (at, stage) = (place("d/x"), std::ffi::OsStr::new(".rocm-fixup-0001-0"));
    let after = record.plan.changes[0].after.clone();
    let old = ground.look(&at).unwrap();
    ground.stage(&at, stage, &after, false).unwrap();
    let swapped = ground.swap(&at, stage, old, &after, true).unwrap().unwrap();
    assert_eq!(swapped.how, Swap::Exchanged);
    fs::remove_file(site.at("d/x")).unwrap();
    fs::write(site.at("d/x"), "from pip").unwrap();
    ground.swap_back(&at, stage, &swapped).unwrap_err();
    assert_eq!(fs::read(site.at("d/x")).unwrap(), b"from pip");
}

#[test]
fn undo_takes_back_a_stopped_run_with_the_one_that_went_on_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder()
        .line("core/lib/libX.so.3 library libX.so.3 1")
        .line("devel/lib/libX.so.3 copy core/lib/libX.so.3")
        .line("core/lib/libY.so.3 library libY.so.3 1")
        .line("devel/lib/libY.so.3 copy core/lib/libY.so.3")
        .build(dir.path());
    let before = snapshot(&tree.top);
    let options = rocm_fixup::dedup::Options { hash: true, ..Default::default() };
    let mut plan = rocm_fixup::dedup::plan(&tree.trees(), &options, &|_| {}).unwrap().plan;
    let journal = rocm_fixup::journal::Journal::open(&tree.site_packages).unwrap();
    let record = journal.begin("dedup", None, false, plan.clone()).unwrap();
    plan.changes.truncate(1);
    let record = Record { plan, ..record };
    apply(&record, &journal, |_| {}).unwrap();
    journal.finish(&record, Ended::Stopped).unwrap();
    let call = |verb: &str| {
        let output = tool(&[verb, "--site-packages"]).arg(&tree.site_packages).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    call("dedup");
    assert_eq!(journal.runs().unwrap().len(), 2);
    call("undo");
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn device_links_of_an_old_install_are_undone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder()
        .line("libraries/lib/k/a.co text kernels")
        .line("devel/lib/k/a.co hardlink libraries/lib/k/a.co")
        .line("manifest libraries gfx942 lib/k/a.co")
        .build(dir.path());
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    fs::File::open(tree.path("devel/lib/k/a.co")).unwrap().set_modified(then).unwrap();
    let before = snapshot(&tree.top);
    for args in [&["dedup", "--device-links", "--site-packages"][..], &["undo", "--site-packages"]] {
        let output = tool(args).arg(&tree.site_packages).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn a_file_that_cannot_be_read_is_not_called_no_library() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "text".repeat(32)).unwrap();
    let unreadable = fs::OpenOptions::new().write(true).open(dir.path().join("x")).unwrap();
    elf::read_or_fail(&unreadable).unwrap_err();
    let text = fs::File::open(dir.path().join("x")).unwrap();
    elf::read_or_fail(&text).unwrap().unwrap_err();
}

#[test]
fn a_full_standard_error_stops_nothing() {
    let (site, plan) = split_pair();
    site.journal().begin("test", None, false, plan).unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = tool(&["undo", "--site-packages"]).arg(&site.path).stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// A link that is turned becomes a hard link to the file that it led to. A device file must then wait for the next run:
/// made anew in the same one it was no longer that file, and undo refused the link.
#[test]
fn a_device_file_that_a_turned_link_leads_to_is_made_anew_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        "core/lib/llvm/lib/libX.so library libX.so 1",
        "devel/lib/libX.so.3 copy core/lib/llvm/lib/libX.so",
        "devel/lib/libX.so copy core/lib/llvm/lib/libX.so",
        "libraries/lib/libX.so.3 copy core/lib/llvm/lib/libX.so",
        "core/lib/libX.so symlink ../../_rocm_sdk_devel/lib/libX.so.3",
        "manifest libraries gfx942 lib/libX.so.3",
    ];
    let tree = lines.iter().fold(SdkTree::builder(), |builder, line| builder.line(*line)).build(dir.path());
    let before = snapshot(&tree.top);
    let call = |args: &[&str]| {
        let output = tool(args).arg("--site-packages").arg(&tree.site_packages).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(call(&["dedup", "--device-links"]).contains("is re-made by the next run"));
    let after_one = snapshot(&tree.top);
    call(&["undo"]);
    assert_same(&before, &snapshot(&tree.top));
    call(&["dedup", "--device-links"]);
    assert!(call(&["dedup", "--device-links"]).contains("re-linked      1 device"));
    assert_ne!(after_one, snapshot(&tree.top));
    call(&["undo", "--all"]);
    assert_same(&before, &snapshot(&tree.top));
}
