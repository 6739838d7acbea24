//! Recorded runs whose tree was copied to another place, or whose paths went with an uninstalled package.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use rocm_fixup::model::Entry;
use serde_json::Value;

use crate::apply::{Site, edit};
use crate::cli::{json, tool};
use crate::sdk_tree::{Builder, Form, SdkTree};
use crate::snapshot::{assert_same, snapshot};

pub fn on(site: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let output: Output = tool(args).args(["--format", "json", "--site-packages"]).arg(site).output().unwrap();
    (output.status.code(), json(&output))
}

pub fn split(top: &Path) -> SdkTree {
    let tree = Builder::standard().build(top);
    tree.reshape(Form::Split);
    tree
}

pub fn text(value: &Value) -> String {
    value.to_string()
}

/// `COPY --from=stage /a /b`.
fn copied(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn a_copied_tree_is_judged_and_deduplicated_and_undo_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    fs::create_dir(&first).unwrap();
    let tree = split(&first);
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    let place = dir.path().join("second");
    copied(&tree.top, &place);
    let site = place.join(tree.site_packages.strip_prefix(&tree.top).unwrap());

    let (code, report) = on(&site, &["status"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["runs"][0]["moved_from"], tree.site_packages.to_str().unwrap());
    assert!(text(&report["notes"]).contains("is a copy of that tree"), "{report:#}");

    let (code, report) = on(&site, &["dedup"]);
    assert_eq!((code, report["journal"].is_null()), (Some(0), true), "{report:#}");

    // What was copied in besides is merged, recorded, and taken back; what came with the copy is not.
    fs::copy(place_of(&site, "core/lib/libamd_comgr.so.3"), place_of(&site, "core/lib/libnew.so.1")).unwrap();
    fs::copy(place_of(&site, "core/lib/libnew.so.1"), place_of(&site, "devel/lib/libnew.so.1")).unwrap();
    let before = snapshot(&place);
    let (code, report) = on(&site, &["dedup"]);
    assert_eq!((code, &report["journal"]["id"]), (Some(0), &"0002".into()), "{report:#}");
    let (code, report) = on(&site, &["undo", "--all"]);
    assert_eq!((code, &report["undo"]["runs"]), (Some(3), &serde_json::json!(["0002"])), "{report:#}");
    assert!(text(&report["error"]["hint"]).contains("before the tree is copied"), "{report:#}");
    assert_same(&before, &snapshot(&place));
    assert_eq!(on(&tree.site_packages, &["undo"]).0, Some(0), "at its own place it is as before");
}

fn place_of(site: &Path, name: &str) -> std::path::PathBuf {
    let (tree, rest) = name.split_once('/').unwrap();
    site.join(format!("_rocm_sdk_{tree}")).join(rest)
}

#[test]
fn an_interrupted_run_is_not_tidied_up_in_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    fs::create_dir(&first).unwrap();
    let tree = split(&first);
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    fs::remove_file(tree.site_packages.join(".rocm-fixup/0001.done")).unwrap();
    let place = dir.path().join("second");
    copied(&tree.top, &place);
    let site = place.join(tree.site_packages.strip_prefix(&tree.top).unwrap());
    // Nothing lies about: it is a tree like any other, and only undo refuses.
    let before = snapshot(&place);
    for (args, expected) in
        [(&["dedup"][..], 0), (&["dedup", "--dry-run"], 0), (&["status"], 0), (&["undo"], 3)]
    {
        let (code, report) = on(&site, args);
        assert_eq!(code, Some(expected), "{args:?}: {report:#}");
        assert!(expected == 0 || text(&report["error"]).contains("is a copy of that tree"), "{report:#}");
        assert_same(&before, &snapshot(&place));
    }
    // What was staged may be somebody's only copy.
    let stage = place_of(&site, "devel/lib").join(".rocm-fixup-0001-0");
    let index = (0..20).map(|n| stage.with_file_name(format!(".rocm-fixup-0001-{n}")));
    index.for_each(|stage| fs::write(stage, "x").unwrap());
    let before = snapshot(&place);
    for args in [&["dedup"][..], &["dedup", "--dry-run"], &["run", "--dry-run"], &["status"], &["undo"]] {
        let (code, report) = on(&site, args);
        assert_eq!(code, Some(3), "{args:?}: {report:#}");
        assert!(text(&report["error"]).contains(".rocm-fixup-0001-"), "{report:#}");
        assert!(text(&report["error"]["hint"]).contains("remove it"), "{report:#}");
        assert_eq!(report["next"], serde_json::json!([]));
        assert_same(&before, &snapshot(&place));
    }
    (0..20).for_each(|n| fs::remove_file(stage.with_file_name(format!(".rocm-fixup-0001-{n}"))).unwrap());
    assert_eq!(on(&site, &["dedup"]).0, Some(0), "what the hint says works");
    // A tree that was not copied has nothing lying about.
    fs::remove_dir_all(site.join("_rocm_sdk_devel")).unwrap();
    let (code, report) = on(&site, &["status"]);
    assert_eq!((code, report["error"].is_null()), (Some(0), true), "{report:#}");
}

#[test]
fn an_uninstalled_devel_package_ends_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let tree = split(dir.path());
    let (_, report) = on(&tree.site_packages, &["dedup"]);
    let count = report["dedup"]["linked"].as_array().unwrap().len();
    fs::remove_dir_all(tree.path("devel")).unwrap();
    fs::remove_dir_all(tree.path("rocm_sdk_devel-10.0.0.dist-info")).unwrap();
    let (code, report) = on(&tree.site_packages, &["status"]);
    assert_eq!((code, &report["runs"][0]["gone"]), (Some(0), &count.into()), "{report:#}");
    assert!(text(&report["notes"]).contains("went with what was uninstalled"), "{report:#}");
    let before = snapshot(&tree.path("core"));
    let (code, report) = on(&tree.site_packages, &["undo"]);
    assert_eq!((code, &report["undo"]["gone"]), (Some(0), &count.into()), "{report:#}");
    assert_same(&before, &snapshot(&tree.path("core")));
    let (code, report) = on(&tree.site_packages, &["undo"]);
    assert_eq!(code, Some(0));
    assert!(text(&report["notes"]).contains("no run is recorded"), "{report:#}");
}

#[test]
fn one_name_that_is_missing_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let tree = split(dir.path());
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    let (_, report) = on(&tree.site_packages, &["status"]);
    assert_eq!(report["runs"][0]["gone"], 0);
    fs::remove_file(tree.path("devel/lib/libamd_comgr.so")).unwrap();
    for _ in 0..2 {
        let (code, report) = on(&tree.site_packages, &["undo"]);
        assert_eq!(code, Some(3), "{report:#}");
        assert_eq!(report["undo"]["refused"].as_array().unwrap().len(), 1);
        assert!(text(&report["next"]).contains(".rocm-fixup/0001.plan"), "{report:#}");
    }
    fs::remove_file(tree.site_packages.join(".rocm-fixup/0001.plan")).unwrap();
    assert_eq!(on(&tree.site_packages, &["undo"]).0, Some(0), "what the hint says works");
    assert!(!tree.site_packages.join(".rocm-fixup").exists());
}

/// Undoing the turn of a link into an uninstalled tree would lose the library.
#[test]
fn a_turned_link_stays_a_file_when_devel_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder()
        .line("devel/lib/libX.so.3 library libX.so.3 1")
        .line("dist rocm-sdk-core 1")
        .line("core/include/x.h text x")
        .build(dir.path());
    fs::create_dir_all(tree.path("core/lib")).unwrap();
    symlink("../../_rocm_sdk_devel/lib/libX.so.3", tree.path("core/lib/libX.so.3")).unwrap();
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    let bytes = fs::read(tree.path("core/lib/libX.so.3")).unwrap();
    fs::remove_dir_all(tree.path("devel")).unwrap();
    let (code, report) = on(&tree.site_packages, &["undo"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert!(text(&report["notes"]).contains("stays a file"), "{report:#}");
    assert_eq!(fs::read(tree.path("core/lib/libX.so.3")).unwrap(), bytes);
    assert!(!tree.site_packages.join(".rocm-fixup").exists());
}

/// Its bytecode lies beside that of others, and is in the unit of its source.
#[test]
fn an_uninstalled_module_goes_with_its_bytecode() {
    let (pyc, record) = ("__pycache__/mod.cpython-311.pyc", "mod-1.dist-info/RECORD");
    let rows = format!("mod.py,,\n{record},,\n");
    let site = Site::new(&[("mod.py", "one\n"), (record, &rows), (pyc, "code"), ("stays.py", "two\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "mod.py", "ONE\n");
    edit(&site, &mut plan, record, "A\n");
    edit(&site, &mut plan, pyc, "");
    let compiled = plan.changes.last_mut().unwrap();
    (compiled.after, compiled.bytecode) = (Entry::Absent, true);
    edit(&site, &mut plan, "stays.py", "TWO\n");
    site.run(plan);
    fs::remove_dir_all(site.at("mod-1.dist-info")).unwrap();
    fs::remove_file(site.at("mod.py")).unwrap();
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused), (1, 3, Vec::new()));
    assert!(!site.at(pyc).exists() && site.journal().runs().unwrap().is_empty());
}

/// A RECORD that went speaks for the paths that it listed only.
#[test]
fn a_patched_file_of_nobody_was_not_uninstalled() {
    let rows = "gone/a.py,,\ngone-1.dist-info/RECORD,,\n";
    let files = [("gone/a.py", "one\n"), ("gone/mine.py", "two\n"), ("gone-1.dist-info/RECORD", rows)];
    let site = Site::new(&files);
    let mut plan = site.plan(vec![]);
    for (name, _) in files {
        edit(&site, &mut plan, name, "CHANGED\n");
    }
    site.run(plan);
    fs::remove_dir_all(site.at("gone-1.dist-info")).unwrap();
    fs::remove_dir_all(site.at("gone")).unwrap();
    let undone = site.undo_newest();
    assert!(undone.refused.iter().any(|refused| refused.path == site.at("gone/mine.py")), "{undone:?}");
    assert_eq!(site.journal().runs().unwrap().len(), 1, "the run stays recorded");
}

/// One package went, the other stays: what is left of the run is taken back.
#[test]
fn an_uninstalled_patched_package_does_not_hold_up_another() {
    let rows = "gone/a.py,,\ngone-1.dist-info/RECORD,,\n";
    let site =
        Site::new(&[("gone/a.py", "one\n"), ("gone-1.dist-info/RECORD", rows), ("stays/b.py", "two\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "gone/a.py", "ONE\n");
    edit(&site, &mut plan, "gone-1.dist-info/RECORD", "A\n");
    edit(&site, &mut plan, "stays/b.py", "TWO\n");
    site.run(plan);
    fs::remove_dir_all(site.at("gone-1.dist-info")).unwrap();
    fs::remove_file(site.at("gone/a.py")).unwrap();
    fs::create_dir(site.at("gone/__pycache__")).unwrap();
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused), (1, 2, Vec::new()));
    assert_eq!(fs::read(site.at("stays/b.py")).unwrap(), b"two\n");
    assert!(!site.at("gone/a.py").exists());
    assert!(site.journal().runs().unwrap().is_empty());
}

#[test]
fn a_record_under_another_number_is_not_believed() {
    let site = Site::new(&[("a/a.py", "one\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "a/a.py", "ONE\n");
    site.run(plan);
    let journal = site.at(".rocm-fixup");
    fs::rename(journal.join("0001.plan"), journal.join("0002.plan")).unwrap();
    let (code, report) = on(&site.path, &["undo"]);
    assert_ne!(code, Some(0), "{report:#}");
    assert!(text(&report).contains("says that it is run 0001"), "{report:#}");
    assert_eq!(fs::read(site.at("a/a.py")).unwrap(), b"ONE\n");
}

#[test]
fn only_a_run_of_the_same_command_and_recipe_goes_on_from_another() {
    let site = Site::new(&[("a/a.py", "one\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "a/a.py", "ONE\n");
    let (mut record, _) = site.run(plan.clone());
    assert!(record.is_gone_on_by("test", None, &plan));
    assert!(!record.is_gone_on_by("dedup", None, &plan));
    assert!(!record.is_gone_on_by("test", Some("mine"), &plan));
    assert_eq!(record.flaw(&record.id), None);
    record.plan.changes[0].at.root = record.plan.roots.len();
    assert!(record.flaw(&record.id).unwrap().contains("names a root"));
}
