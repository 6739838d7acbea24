//! A patch is taken back whole or not at all, package by package, and only while the package is the one that was patched.

use std::fs;
use std::process::Command;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rocm_fixup::model::Entry;
use sha2::{Digest as _, Sha256};

use crate::apply::{Site, edit};
use crate::recorded_runs::{on, text};
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

fn row(path: &str, text: &str) -> String {
    let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    format!("{path},sha256={hash},{}\n", text.len())
}

/// Where the next release brings upstream what the patch had brought, nobody can tell whose it is.
#[test]
fn a_file_that_the_next_release_brings_is_not_taken_back() {
    for left_behind in [false, true] {
        let own = "kern-1.dist-info/RECORD,,\n";
        let old = format!("{}{own}", row("kern/b.py", "one\n"));
        let site = Site::new(&[("kern/b.py", "one\n"), ("kern-1.dist-info/RECORD", &old)]);
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, "kern/b.py", "ONE\n");
        edit(&site, &mut plan, "kern-1.dist-info/RECORD", &format!("{}{own}", row("kern/b.py", "ONE\n")));
        site.run(plan);
        // `pip install --target --upgrade` leaves the old one.
        if !left_behind {
            fs::remove_dir_all(site.at("kern-1.dist-info")).unwrap();
        }
        fs::create_dir(site.at("kern-2.dist-info")).unwrap();
        fs::write(site.at("kern-2.dist-info/RECORD"), row("kern/b.py", "ONE\n")).unwrap();
        let (code, report) = dry_and_real(&site.path, &[]);
        assert_eq!((code, &report["undo"]["restored"]), (Some(3), &0.into()), "{report:#}");
        assert!(
            text(&report["undo"]["refused"]).contains("kern-2.dist-info/RECORD` lists it as it is"),
            "{report:#}"
        );
        assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"ONE\n");
        assert_eq!(site.journal().runs().unwrap().len(), 1, "its original stays");
        // Another file under that name is no reason.
        fs::write(site.at("kern-2.dist-info/RECORD"), row("kern/b.py", "two\n")).unwrap();
        assert_eq!(on(&site.path, &["undo"]).0, Some(0));
        assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"one\n");
    }
}

/// What another package of a shared directory brought stays that one's when the first is uninstalled.
#[test]
fn packages_that_share_a_directory_are_taken_back_each_for_itself() {
    let rows = |name: &str, file: &str| format!("{file},,\n{name}-1.dist-info/RECORD,,\n");
    let (a, b) = (rows("a", "shared/a.py"), rows("b", "shared/b.py"));
    let site = Site::new(&[
        ("shared/a.py", "a\n"),
        ("shared/b.py", "b\n"),
        ("a-1.dist-info/RECORD", &a),
        ("b-1.dist-info/RECORD", &b),
    ]);
    let mut plan = site.plan(vec![]);
    ["shared/a.py", "shared/b.py"].iter().for_each(|name| edit(&site, &mut plan, name, "NEW\n"));
    edit(&site, &mut plan, "a-1.dist-info/RECORD", &a.replace(",,", ",,4"));
    edit(&site, &mut plan, "b-1.dist-info/RECORD", &b.replace(",,", ",,4"));
    site.run(plan);
    fs::remove_dir_all(site.at("a-1.dist-info")).unwrap();
    fs::remove_file(site.at("shared/a.py")).unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &2.into()), "{report:#}");
    assert_eq!(fs::read(site.at("shared/b.py")).unwrap(), b"b\n");
    assert_eq!(fs::read(site.at("b-1.dist-info/RECORD")).unwrap(), b.as_bytes());
}

/// Images are slimmed so.
#[test]
fn swept_caches_stop_no_undo() {
    let site = Site::new(&[("kern/b.py", "one\n"), ("kern/__pycache__/b.cpython-312.pyc", "old")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "kern/b.py", "ONE\n");
    edit(&site, &mut plan, "kern/__pycache__/b.cpython-312.pyc", "");
    let last = plan.changes.last_mut().unwrap();
    (last.after, last.bytecode) = (Entry::Absent, true);
    site.run(plan);
    fs::remove_dir(site.at("kern/__pycache__")).unwrap();
    assert_eq!(dry_and_real(&site.path, &[]).0, Some(0));
    assert_eq!(fs::read(site.at("kern/b.py")).unwrap(), b"one\n");
    assert!(!site.at("kern/__pycache__").exists());
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
