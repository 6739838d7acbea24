//! What undo must not do: end a run on a guess, link to another's file, or take runs back in an order that breaks them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::apply::{Site, edit};
use crate::recorded_runs::{on, split, text};
use crate::snapshot::{assert_same, snapshot};

/// It refuses, by the code and by the reason, and changes nothing.
fn refuses(site: &Path, why: &str) {
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
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused.len()), (1, 0, 1));
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
