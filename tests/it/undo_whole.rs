//! A patch is taken back whole or not at all, package by package, and only while the package is the one that was patched.

use std::fs;
use std::process::Command;

use crate::apply::{Site, edit};
use crate::recorded_runs::on;
use crate::snapshot::{assert_same, snapshot};
use crate::undo_refused::{dry_and_real, refuses};

/// Half a patch fits nothing any more: a file that somebody changed keeps the others of its package, and only these.
#[test]
fn what_was_patched_in_one_package_is_taken_back_whole_or_not_at_all() {
    let rows = |name: &str| format!("{name}/a.py,,\n{name}/b.py,,\n{name}-1.dist-info/RECORD,,\n");
    let packages = ["kern", "other"];
    let names = packages.map(|name| ["a.py", "b.py"].map(|file| format!("{name}/{file}")));
    let (kern, other) = (rows("kern"), rows("other"));
    let site = Site::new(&[
        (&names[0][0], "a\n"),
        (&names[0][1], "b\n"),
        (&names[1][0], "a\n"),
        (&names[1][1], "b\n"),
        ("kern-1.dist-info/RECORD", &kern),
        ("other-1.dist-info/RECORD", &other),
    ]);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![]);
    names.iter().flatten().for_each(|name| edit(&site, &mut plan, name, "NEW\n"));
    edit(&site, &mut plan, "kern-1.dist-info/RECORD", &kern.replace(",,", ",,4"));
    edit(&site, &mut plan, "other-1.dist-info/RECORD", &other.replace(",,", ",,4"));
    site.run(plan);
    fs::write(site.at("kern/a.py"), "somebody's\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &3.into()), "{report:#}");
    assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"NEW\n");
    assert_eq!(fs::read(site.at("other/b.py")).unwrap(), b"b\n");
    fs::write(site.at("kern/a.py"), "NEW\n").unwrap();
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}

/// Its files are that release's, also where their bytes are those of the patch.
#[test]
fn a_file_that_the_next_release_brings_is_not_taken_back() {
    let rows = "kern/b.py,,\nkern-1.dist-info/RECORD,,\n";
    let site = Site::new(&[("kern/b.py", "one\n"), ("kern-1.dist-info/RECORD", rows)]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "kern/b.py", "ONE\n");
    edit(&site, &mut plan, "kern-1.dist-info/RECORD", "kern/b.py,,4\nkern-1.dist-info/RECORD,,\n");
    site.run(plan);
    fs::rename(site.at("kern-1.dist-info"), site.at("kern-2.dist-info")).unwrap();
    fs::write(site.at("kern-2.dist-info/RECORD"), "kern/b.py,,4\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["gone"]), (Some(0), &2.into()), "{report:#}");
    assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"ONE\n");
    assert!(!site.at(".rocm-fixup").exists());
}

#[test]
fn a_package_behind_a_link_is_left_as_it_is_until_it_is_back() {
    let rows = "kern/b.py,,\nkern-1.dist-info/RECORD,,\n";
    let site = Site::new(&[("kern/b.py", "one\n"), ("kern-1.dist-info/RECORD", rows)]);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "kern/b.py", "ONE\n");
    edit(&site, &mut plan, "kern-1.dist-info/RECORD", "kern/b.py,,4\nkern-1.dist-info/RECORD,,\n");
    site.run(plan);
    fs::rename(site.at("kern"), site.at("away")).unwrap();
    std::os::unix::fs::symlink("away", site.at("kern")).unwrap();
    refuses(&site.path, "a symlink or file is on its way now");
    assert_eq!(dry_and_real(&site.path, &[]).0, Some(3));
    fs::remove_file(site.at("kern")).unwrap();
    fs::rename(site.at("away"), site.at("kern")).unwrap();
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}

#[test]
fn what_an_undo_restored_before_its_error_is_told() {
    let site = Site::new(&[("a/a.py", "a\n"), ("b/b.py", "b\n")]);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![]);
    ["a/a.py", "b/b.py"].iter().for_each(|name| edit(&site, &mut plan, name, "NEW\n"));
    site.run(plan);
    let fix = |how: &str| Command::new("chattr").arg(how).arg(site.at("a")).status();
    if !fix("+i").is_ok_and(|status| status.success()) {
        eprintln!("not run: no directory can be made immutable here");
        return;
    }
    let (code, report) = on(&site.path, &["undo"]);
    assert!(fix("-i").unwrap().success());
    assert_eq!((code, &report["undo"]["restored"]), (Some(1), &1.into()), "{report:#}");
    assert_eq!(report["undo"]["runs"], serde_json::json!(["0001"]));
    assert_eq!(fs::read(site.at("b/b.py")).unwrap(), b"b\n");
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}
