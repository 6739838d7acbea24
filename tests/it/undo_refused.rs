//! What undo must not do: end a run on a guess, link to another's file, or take runs back in an order that breaks them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::apply::{Site, edit};
use crate::cli::tool;
use crate::recorded_runs::{on, split, text};
use crate::snapshot::{assert_same, snapshot};

/// It refuses, by the code and by the reason, and changes nothing.
pub fn refuses(site: &Path, why: &str) {
    // Only how the run ended may be written anew.
    let look = || {
        let mut tree = snapshot(site);
        tree.remove(Path::new(".rocm-fixup/0001.done"));
        tree
    };
    let before = look();
    let (code, report) = on(site, &["undo"]);
    assert_eq!((code, &report["undo"]["gone"]), (Some(3), &0.into()), "{report:#}");
    assert!(text(&report["undo"]["refused"]).contains(why), "{report:#}");
    assert!(!report["next"].as_array().unwrap().is_empty(), "{report:#}");
    assert_same(&before, &look());
}

#[test]
fn a_file_deleted_by_hand_is_no_uninstalled_package() {
    let rows = "kern/b.py,,\nkern-1.dist-info/RECORD,,\n";
    for listed in [true, false] {
        let site =
            Site::new(&[("kern/b.py", "one\n"), ("kern-1.dist-info/RECORD", if listed { rows } else { "" })]);
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, "kern/b.py", "ONE\n");
        site.run(plan);
        fs::remove_dir_all(site.at("kern")).unwrap();
        refuses(&site.path, "it is gone since the run");
        fs::create_dir(site.at("kern")).unwrap();
        fs::write(site.at("kern/b.py"), "ONE\n").unwrap();
        assert_eq!(on(&site.path, &["undo"]).0, Some(0));
        assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"one\n");
    }
}

/// Also where the run had changed RECORD, and only the files went.
#[test]
fn a_package_whose_record_is_there_is_installed() {
    let rows = "kern/b.py,,\nkern-1.dist-info/RECORD,,\n";
    let site = Site::new(&[("kern/b.py", "one\n"), ("kern-1.dist-info/RECORD", rows)]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "kern/b.py", "ONE\n");
    edit(&site, &mut plan, "kern-1.dist-info/RECORD", "kern/b.py,,4\nkern-1.dist-info/RECORD,,\n");
    site.run(plan);
    fs::remove_dir_all(site.at("kern")).unwrap();
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused.len()), (0, 0, 2));
    assert_eq!(site.journal().runs().unwrap().len(), 1);
    // A newer version that doesn't bring the file does not list it: then it is gone.
    fs::rename(site.at("kern-1.dist-info"), site.at("kern-2.dist-info")).unwrap();
    fs::write(site.at("kern-2.dist-info/RECORD"), "kern/other.py,,\n").unwrap();
    let undone = site.undo_newest();
    assert_eq!((undone.gone.len(), undone.refused), (2, Vec::new()));
    assert!(!site.at(".rocm-fixup").exists());
}

#[test]
fn a_devel_tree_that_was_moved_away_can_be_undone_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let tree = split(dir.path());
    let before = snapshot(&tree.top);
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    fs::rename(tree.path("devel"), tree.path("away")).unwrap();
    refuses(&tree.site_packages, "it is gone since the run");
    fs::rename(tree.path("away"), tree.path("devel")).unwrap();
    assert_eq!(on(&tree.site_packages, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&tree.top));
}

/// Even where no distribution says that it is installed.
#[test]
fn what_a_mount_hides_is_not_gone() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: no mount namespace can be made here");
        return;
    }
    for mounted in ["devel", "devel/lib"] {
        let dir = tempfile::tempdir().unwrap();
        let tree = split(dir.path());
        fs::remove_dir_all(tree.path("rocm_sdk_devel-10.0.0.dist-info")).unwrap();
        fs::remove_dir_all(tree.path("devel/lib/llvm")).unwrap();
        fs::remove_file(tree.path("devel/llvm")).unwrap();
        let before = snapshot(&tree.top);
        assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
        let script = r#"mount -t tmpfs none "$1" && exec "$2" undo --site-packages "$3""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(tree.path(mounted));
        command.arg(env!("CARGO_BIN_EXE_rocm-fixup")).arg(&tree.site_packages);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{mounted}: {output:?}");
        assert_eq!(on(&tree.site_packages, &["undo"]).0, Some(0), "{mounted}");
        assert_same(&before, &snapshot(&tree.top));
    }
}

/// A dry run says what the real one does, by the code and by all lists, and writes nothing.
pub fn dry_and_real(site: &Path, args: &[&str]) -> (Option<i32>, serde_json::Value) {
    let before = snapshot(site);
    let dry = on(site, &[&["undo", "--dry-run"], args].concat());
    assert_same(&before, &snapshot(site));
    let real = on(site, &[&["undo"], args].concat());
    assert_eq!((dry.0, &dry.1["undo"]), (real.0, &real.1["undo"]));
    assert_eq!(dry.1["next"], real.1["next"]);
    real
}

#[test]
fn a_dry_run_judges_each_change_as_undo_does() {
    let site = Site::new(&[("kern/a.py", "a\n"), ("kern/b.py", "b\n"), ("kern/c.py", "c\n")]);
    let mut plan = site.plan(vec![]);
    ["kern/a.py", "kern/b.py", "kern/c.py"].iter().for_each(|name| edit(&site, &mut plan, name, "NEW\n"));
    site.run(plan);
    fs::remove_file(site.at("kern/a.py")).unwrap();
    fs::write(site.at("kern/b.py"), "somebody's\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &0.into()), "{report:#}");
    assert_eq!(report["undo"]["refused"].as_array().unwrap().len(), 3);
    assert!(text(&report["undo"]["refused"]).contains("it was patched together with"), "{report:#}");

    // An original that the journal has lost is an error in both, and nothing is taken back.
    fs::write(site.at("kern/a.py"), "NEW\n").unwrap();
    fs::write(site.at("kern/b.py"), "NEW\n").unwrap();
    let objects = walkdir::WalkDir::new(site.at(".rocm-fixup/objects")).into_iter().flatten();
    let mut objects = objects.map(walkdir::DirEntry::into_path);
    let lost = objects.find(|path| fs::read(path).is_ok_and(|bytes| bytes == b"a\n")).unwrap();
    fs::rename(&lost, site.at("lost")).unwrap();
    let codes = [&["undo", "--dry-run"][..], &["undo"]].map(|args| on(&site.path, args).0);
    assert_eq!(codes, [Some(1), Some(1)]);
    assert_eq!(fs::read(site.at("kern/c.py")).unwrap(), b"NEW\n");
    fs::rename(site.at("lost"), &lost).unwrap();

    fs::write(site.at("kern/b.py"), "b\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["already"]), (Some(0), &1.into()), "{report:#}");
    assert_eq!(fs::read(site.at("kern/c.py")).unwrap(), b"c\n");
}

#[test]
fn a_dry_run_knows_what_it_would_have_taken_back_before() {
    let site = Site::new(&[("kern/b.py", "one\n")]);
    for text in ["two\n", "three\n", "four\n"] {
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, "kern/b.py", text);
        site.run(plan);
    }
    let (code, report) = dry_and_real(&site.path, &["--all"]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(0), &3.into()), "{report:#}");
    assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"one\n");
    for form in crate::sdk_tree::FORMS {
        let dir = tempfile::tempdir().unwrap();
        let tree = crate::sdk_tree::Builder::standard().build(dir.path());
        tree.reshape(form);
        let before = snapshot(&tree.top);
        assert_eq!(on(&tree.site_packages, &["dedup", "--device-links"]).0, Some(0));
        assert_eq!(dry_and_real(&tree.site_packages, &["--all"]).0, Some(0), "{form:?}");
        assert_same(&before, &snapshot(&tree.top));
    }
}

/// A turned link, with an alias that comes later; and patches of one file.
#[test]
fn an_older_run_is_not_taken_back_before_one_that_builds_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let tree = crate::sdk_tree::SdkTree::builder()
        .line("devel/lib/libX.so.3 library libX.so.3 1")
        .line("core/include/x.h text x")
        .build(dir.path());
    fs::create_dir_all(tree.path("core/lib")).unwrap();
    std::os::unix::fs::symlink("../../_rocm_sdk_devel/lib/libX.so.3", tree.path("core/lib/libX.so.3"))
        .unwrap();
    let first = snapshot(&tree.top);
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    fs::copy(tree.path("core/lib/libX.so.3"), tree.path("devel/lib/libX.so")).unwrap();
    let second = snapshot(&tree.top);
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    let merged = snapshot(&tree.top);
    for args in [&["undo", "0001"][..], &["undo", "0001", "--dry-run"]] {
        let (code, report) = on(&tree.site_packages, args);
        assert_eq!(code, Some(3), "{report:#}");
        assert!(text(&report["error"]["hint"]).contains("rocm-fixup undo 0002"), "{report:#}");
        assert_eq!(
            (&report["next"], &report["undo"]["runs"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
        assert_same(&merged, &snapshot(&tree.top));
    }
    // Not after one of which something stays, either.
    let alias = tree.path("devel/lib/libX.so");
    fs::remove_file(&alias).unwrap();
    fs::write(&alias, "somebody's").unwrap();
    let (code, report) = dry_and_real(&tree.site_packages, &["--all"]);
    assert_eq!((code, &report["undo"]["runs"]), (Some(3), &serde_json::json!(["0002"])), "{report:#}");
    assert!(text(&report["error"]).contains("run 0001 is older than run 0002"), "{report:#}");
    fs::remove_file(&alias).unwrap();
    std::os::unix::fs::symlink("../../_rocm_sdk_core/lib/libX.so.3", &alias).unwrap();
    assert_eq!(dry_and_real(&tree.site_packages, &["0002"]).0, Some(0));
    assert_same(&second, &snapshot(&tree.top));
    fs::remove_file(&alias).unwrap();
    assert_eq!(dry_and_real(&tree.site_packages, &["0001"]).0, Some(0));
    assert_same(&first, &snapshot(&tree.top));
}

#[test]
fn runs_that_have_nothing_in_common_are_taken_back_in_any_order() {
    let site = Site::new(&[("a/a.py", "a\n"), ("b/b.py", "b\n")]);
    for name in ["a/a.py", "b/b.py"] {
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, name, "NEW\n");
        site.run(plan);
    }
    assert_eq!(dry_and_real(&site.path, &["0001"]).0, Some(0));
    assert_eq!(fs::read(site.at("a/a.py")).unwrap(), b"a\n");
}

#[test]
fn a_name_is_not_linked_to_a_file_with_another_mode() {
    let dir = tempfile::tempdir().unwrap();
    let tree = crate::sdk_tree::SdkTree::builder()
        .line("core/lib/libX.so.3 library libX.so.3 1")
        .line("devel/lib/libX.so.3 hardlink core/lib/libX.so.3")
        .build(dir.path());
    assert_eq!(on(&tree.site_packages, &["dedup"]).0, Some(0));
    let owner = tree.path("core/lib/libX.so.3");
    let then = fs::metadata(&owner).unwrap();
    let bytes = fs::read(&owner).unwrap();
    fs::remove_file(&owner).unwrap();
    fs::write(&owner, bytes).unwrap();
    fs::File::open(&owner).unwrap().set_modified(then.modified().unwrap()).unwrap();
    fs::set_permissions(&owner, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, report) = dry_and_real(&tree.site_packages, &[]);
    assert_eq!(code, Some(3), "{report:#}");
    assert!(text(&report["undo"]["refused"]).contains("another mode"), "{report:#}");
    assert!(tree.path("devel/lib/libX.so.3").is_symlink());
    fs::set_permissions(&owner, then.permissions()).unwrap();
    assert_eq!(dry_and_real(&tree.site_packages, &[]).0, Some(0));
}

/// In the text, where an unknown id sends one.
#[test]
fn status_names_the_recorded_runs_and_those_that_are_half_undone() {
    let site = Site::new(&[("a/a.py", "a\n"), ("b/b.py", "b\n"), ("c/c.py", "c\n")]);
    let status = || {
        let output = tool(&["status", "--site-packages"]).arg(&site.path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let run = |names: &[&str]| {
        let mut plan = site.plan(vec![]);
        names.iter().for_each(|name| edit(&site, &mut plan, name, "NEW\n"));
        site.run(plan);
    };
    assert!(!status().contains("recorded"), "{}", status());
    run(&["a/a.py"]);
    assert!(status().contains("recorded       run 0001 (test)\n"), "{}", status());
    run(&["b/b.py", "c/c.py"]);
    fs::write(site.at("b/b.py"), "somebody's\n").unwrap();
    assert_eq!(on(&site.path, &["undo"]).0, Some(3));
    assert!(status().contains("recorded       runs 0001 (test), 0002 (test, in part)\n"), "{}", status());
    fs::remove_file(site.at(".rocm-fixup/0002.done")).unwrap();
    assert!(status().contains("0002 (test, interrupted)\n"), "{}", status());
}
