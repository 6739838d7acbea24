//! Which runs a plain `undo` takes back, and in which order: the newest one, with a stopped one only where it went on from
//! that; by their numbers, whatever the clock said.

use std::fs;
use std::path::Path;

use rocm_fixup::journal::{Record, parse};
use serde_json::json;

use crate::hostile_journals::plant;
use crate::patch_cli::{Site, code};
use crate::recorded_runs::{on, split};
use crate::snapshot::{assert_same, snapshot};

/// As if the run had been killed when all was made: the next one finds it so, and calls it stopped.
fn kill_late(site: &Path) {
    fs::remove_file(site.join(".rocm-fixup/0001.done")).unwrap();
}

fn undone(site: &Path, runs: &[&str]) {
    let (code, report) = on(site, &["undo"]);
    assert_eq!((code, &report["undo"]["runs"]), (Some(0), &json!(runs)), "{report:#}");
    // What was stopped and is still there is told.
    let (_, left) = on(site, &["status"]);
    let newest = left["runs"].as_array().and_then(|runs| runs.last());
    let stopped = newest.filter(|run| run["state"] == "stopped").map(|run| {
        let id = run["id"].as_str().unwrap();
        format!("run {id} was stopped half-way: rocm-fixup undo {id} takes back what it made")
    });
    assert_eq!(report["notes"], stopped.map_or(json!([]), |note| json!([note])), "{report:#}");
}

#[test]
fn a_later_run_of_another_kind_is_taken_back_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = split(dir.path());
    let (site, folder) = (&tree.site_packages, dir.path().join("patches"));
    fs::write(site.join("demo.py"), "one\n").unwrap();
    fs::create_dir(&folder).unwrap();
    let diff = "--- a/demo.py\n+++ b/demo.py\n@@ -1 +1 @@\n-one\n+ONE\n";
    fs::write(folder.join("p.patch"), diff).unwrap();
    let before = snapshot(&tree.top);
    assert_eq!(on(site, &["dedup"]).0, Some(0));
    kill_late(site);
    assert_eq!(on(site, &["dedup"]).0, Some(0));
    assert_eq!(on(site, &["status"]).1["runs"][0]["state"], "stopped");
    let merged = snapshot(&tree.top);
    assert_eq!(on(site, &["patch", "--from", folder.to_str().unwrap()]).0, Some(0));
    undone(site, &["0002"]);
    assert_same(&merged, &snapshot(&tree.top));
    undone(site, &["0001"]);
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn a_merge_of_what_came_since_a_stopped_one_is_taken_back_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = split(dir.path());
    let site = &tree.site_packages;
    assert_eq!(on(site, &["dedup"]).0, Some(0));
    kill_late(site);
    for name in ["core/lib/libnew.so.1", "devel/lib/libnew.so.1"] {
        fs::copy(tree.path("core/lib/libamd_comgr.so.3"), tree.path(name)).unwrap();
    }
    assert_eq!(on(site, &["dedup"]).1["journal"]["id"], "0002");
    undone(site, &["0002"]);
    assert!(tree.path("devel/lib/libamd_comgr.so.3").is_symlink());
}

#[test]
fn another_patch_than_the_stopped_one_is_taken_back_alone() {
    let site = Site::new();
    let before = snapshot(&site.at("."));
    let p = site.patch("p", "demo/a.py", "five", "FIVE");
    assert_eq!(code(&site.run(&p, &[])), 0);
    kill_late(&site.at("."));
    for (folder, more) in [(site.patch("q", "demo/b.py", "six", "SIX"), &[][..]), (p, &["--revert"])] {
        let output = site.run(&folder, more);
        assert_eq!(code(&output), 0, "{output:?}");
        undone(&site.at("."), &["0002"]);
    }
    undone(&site.at("."), &["0001"]);
    assert_same(&before, &snapshot(&site.at(".")));
}

#[test]
fn the_same_patch_again_is_taken_back_with_the_one_that_was_killed() {
    let site = Site::new();
    let (before, journal) = (snapshot(&site.at(".")), site.at(".rocm-fixup"));
    let p = site.patch("p", "demo/a.py", "five", "FIVE");
    assert_eq!(code(&site.run(&p, &[])), 0);
    // As if it had been killed before its first change.
    let plan = fs::read(journal.join("0001.plan")).unwrap();
    undone(&site.at("."), &["0001"]);
    fs::create_dir(&journal).unwrap();
    fs::write(journal.join("0001.plan"), plan).unwrap();
    assert_eq!(code(&site.run(&p, &[])), 0);
    undone(&site.at("."), &["0002", "0001"]);
    assert_same(&before, &snapshot(&site.at(".")));
}

#[test]
fn a_clock_that_went_back_changes_no_order() {
    let site = Site::new();
    let before = snapshot(&site.at("."));
    let source = fs::read_to_string(site.at("demo/a.py")).unwrap();
    let p = site.patch("p", "demo/a.py", "five", "FIVE");
    assert_eq!(code(&site.run(&p, &[])), 0);
    let q = site.patch_to("q", "demo/a.py", &source.replace("five", "V"));
    assert_eq!(code(&site.run(&q, &[])), 0);
    let path = site.at(".rocm-fixup/0002.plan");
    let record: Record = parse(&fs::read(&path).unwrap()).unwrap();
    let reset = Record { started: "2000-01-01T00:00:00Z".to_owned(), ..record };
    plant(&path, &serde_json::to_vec(&reset).unwrap());

    let (code, report) = on(&site.at("."), &["status"]);
    assert_eq!((code, &report["runs"][1]["id"]), (Some(0), &json!("0002")), "{report:#}");
    let (code, report) = on(&site.at("."), &["undo", "0001"]);
    assert_eq!(code, Some(3), "{report:#}");
    assert!(report["error"]["hint"].to_string().contains("first rocm-fixup undo 0002"), "{report:#}");
    undone(&site.at("."), &["0002"]);
    undone(&site.at("."), &["0001"]);
    assert_same(&before, &snapshot(&site.at(".")));
}
