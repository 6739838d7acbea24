//! A patch is taken back whole or not at all, package by package, and only while the package is the one that was patched.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rocm_fixup::model::Entry;
use rocm_fixup::undo::undo;
use sha2::{Digest as _, Sha256};

use crate::apply::{Site, edit};
use crate::recorded_runs::{on, text};
use crate::snapshot::{Snapshot, assert_same, snapshot};
use crate::undo_refused::{dry_and_real, refuses};

/// Packages with these files each, all of them patched with their RECORDs in one run; and what was before.
fn patched(packages: &[(&str, &[&str])]) -> (Site, Snapshot) {
    let rows = |text: &str, (name, files): &(&str, &[&str])| {
        let rows: String = files.iter().map(|file| row(file, text)).collect();
        (format!("{name}-1.dist-info/RECORD"), format!("{rows}{name}-1.dist-info/RECORD,,\n"))
    };
    let files = || packages.iter().flat_map(|(_, files)| *files);
    let records = packages.iter().map(|package| rows("old\n", package));
    let all: Vec<_> = files().map(|file| ((*file).to_owned(), "old\n".to_owned())).chain(records).collect();
    let all: Vec<_> = all.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let site = Site::new(&all);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![]);
    files().for_each(|file| edit(&site, &mut plan, file, "NEW\n"));
    for package in packages {
        let (name, text) = rows("NEW\n", package);
        edit(&site, &mut plan, &name, &text);
    }
    site.run(plan);
    (site, before)
}

/// A row of a RECORD.
fn row(path: &str, text: &str) -> String {
    let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    format!("{path},sha256={hash},{}\n", text.len())
}

fn reads(site: &Site, name: &str) -> String {
    fs::read_to_string(site.at(name)).unwrap()
}

/// Half a patch fits nothing any more: a file that somebody changed keeps the others of its package, and only these.
#[test]
fn what_was_patched_in_one_package_is_taken_back_whole_or_not_at_all() {
    let (site, before) =
        patched(&[("kern", &["kern/a.py", "kern/b.py"]), ("other", &["other/a.py", "other/b.py"])]);
    fs::write(site.at("kern/a.py"), "somebody's\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &3.into()), "{report:#}");
    assert_eq!(reads(&site, "kern/b.py"), "NEW\n");
    assert_eq!(reads(&site, "other/b.py"), "old\n");
    fs::write(site.at("kern/a.py"), "NEW\n").unwrap();
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}

/// Where the next release brings upstream what the patch had brought, nobody can tell whose it is.
#[test]
fn a_file_that_the_next_release_brings_is_not_taken_back() {
    for left_behind in [false, true] {
        let (site, _) = patched(&[("kern", &["kern/b.py"])]);
        // `pip install --target --upgrade` leaves the old one.
        if !left_behind {
            fs::remove_dir_all(site.at("kern-1.dist-info")).unwrap();
        }
        fs::create_dir(site.at("kern-2.dist-info")).unwrap();
        fs::write(site.at("kern-2.dist-info/RECORD"), row("kern/b.py", "NEW\n")).unwrap();
        let (code, report) = dry_and_real(&site.path, &[]);
        assert_eq!((code, &report["undo"]["restored"]), (Some(3), &0.into()), "{report:#}");
        assert!(
            text(&report["undo"]["refused"]).contains("kern-2.dist-info/RECORD` lists it as it is"),
            "{report:#}"
        );
        assert_eq!(reads(&site, "kern/b.py"), "NEW\n");
        assert_eq!(site.journal().runs().unwrap().len(), 1, "its original stays");
        // Another file under that name is no reason.
        fs::write(site.at("kern-2.dist-info/RECORD"), row("kern/b.py", "two\n")).unwrap();
        assert_eq!(on(&site.path, &["undo"]).0, Some(0));
        assert_eq!(reads(&site, "kern/b.py"), "old\n");
    }
}

/// What a patch only makes or only removes has no RECORD that holds it together in a slimmed image.
#[test]
fn what_a_patch_made_or_removed_without_a_record_is_taken_back_whole_or_not_at_all() {
    let made =
        ["a", "b"].map(|name| format!("--- /dev/null\n+++ b/demo/new_{name}.py\n@@ -0,0 +1 @@\n+new\n"));
    let removed =
        ["a", "b"].map(|name| format!("--- a/demo/{name}.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"));
    for (patch, ours) in [(made.concat(), "demo/new_a.py"), (removed.concat(), "demo/a.py")] {
        let site = Site::new(&[("demo/a.py", "old\n"), ("demo/b.py", "old\n"), ("demo/__init__.py", "")]);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("p.patch"), patch).unwrap();
        let before = snapshot(&site.path);
        assert_eq!(on(&site.path, &["patch", "--from", folder.path().to_str().unwrap()]).0, Some(0));
        let patched = fs::read(site.at(ours)).ok();
        fs::write(site.at(ours), "somebody's\n").unwrap();
        let (code, report) = dry_and_real(&site.path, &[]);
        assert_eq!((code, &report["undo"]["restored"]), (Some(3), &0.into()), "{report:#}");
        match patched {
            Some(bytes) => fs::write(site.at(ours), bytes).unwrap(),
            None => fs::remove_file(site.at(ours)).unwrap(),
        }
        let (code, report) = on(&site.path, &["undo"]);
        assert_eq!(code, Some(0), "{report:#}");
        assert_same(&before, &snapshot(&site.path));
    }
}

/// Neither has a row in what the RECORD was: a file that is made, and a RECORD that does not list itself.
#[test]
fn what_no_row_tells_of_belongs_to_the_package_all_the_same() {
    let rows = row("demo/a.py", "old\n");
    let (record, metadata) = ("demo-1.dist-info/RECORD", "Metadata-Version: 2.1\nName: demo\nVersion: 1\n");
    let files = [("demo/a.py", "old\n"), ("demo-1.dist-info/METADATA", metadata), (record, &rows)];
    let site = Site::new(&files);
    let before = snapshot(&site.path);
    let folder = tempfile::tempdir().unwrap();
    let patch = "--- a/demo/a.py\n+++ b/demo/a.py\n@@ -1 +1 @@\n-old\n+new\n\
                 --- /dev/null\n+++ b/demo/made.py\n@@ -0,0 +1 @@\n+new\n";
    fs::write(folder.path().join("p.patch"), patch).unwrap();
    assert_eq!(on(&site.path, &["patch", "--from", folder.path().to_str().unwrap()]).0, Some(0));
    assert!(reads(&site, record).contains("demo/made.py,"));
    fs::write(site.at("demo/made.py"), "somebody's\n").unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &0.into()), "{report:#}");
    assert!(reads(&site, record).contains("demo/made.py,"));
    fs::write(site.at("demo/made.py"), "new\n").unwrap();
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}

/// Also where site-packages is called otherwise, and in a second one.
#[test]
fn packages_without_a_record_are_taken_back_each_for_itself() {
    let files = [("a/a.py", "old\n"), ("b/b.py", "old\n")];
    for name in ["site-packages", "lib"] {
        let (mut site, second) = (Site::new(&files), Site::new(&files));
        let renamed = site.path.with_file_name(name);
        fs::rename(&site.path, &renamed).unwrap();
        site.path = renamed;
        let mut plan = site.plan(vec![]);
        plan.roots.push(second.path.clone());
        for (root, place) in [&site, &second].into_iter().enumerate() {
            for (file, _) in files {
                edit(place, &mut plan, file, "NEW\n");
                plan.changes.last_mut().unwrap().at.root = root;
            }
        }
        let (record, outcome) = site.run(plan);
        assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
        [&site, &second].iter().for_each(|place| fs::write(place.at("a/a.py"), "somebody's\n").unwrap());
        let allowed = [site.path.clone(), second.path.clone()];
        let undone = undo(&record, &site.journal(), &allowed).unwrap();
        assert_eq!((undone.restored.len(), undone.refused.len()), (2, 2), "{undone:?}");
        assert_eq!([&site, &second].map(|place| reads(place, "b/b.py")), ["old\n"; 2]);
    }
}

#[test]
fn a_record_speaks_for_its_own_package_in_its_own_site_packages_only() {
    let record = "a-1.dist-info/RECORD";
    let rows = format!("{}{record},,\n", row("a/a.py", "old\n"));
    let site = Site::new(&[("a/a.py", "old\n"), (record, &rows), ("other/made.py", "")]);
    let second = Site::new(&[("a/a.py", "old\n"), ("a/made.py", "")]);
    let mut plan = site.plan(vec![]);
    plan.roots.push(second.path.clone());
    let files = [(0, "a/a.py"), (0, record), (0, "other/made.py"), (1, "a/a.py"), (1, "a/made.py")];
    for (root, file) in files {
        let place = [&site, &second][root];
        edit(place, &mut plan, file, "NEW\n");
        let change = plan.changes.last_mut().unwrap();
        change.at.root = root;
        if file.ends_with("made.py") {
            (change.before, change.seen) = (Entry::Absent, None);
            fs::remove_file(place.at(file)).unwrap();
        }
    }
    let (run, outcome) = site.run(plan);
    assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
    for theirs in [site.at("other/made.py"), second.at("a/a.py")] {
        fs::write(theirs, "somebody's\n").unwrap();
    }
    let allowed = [site.path.clone(), second.path.clone()];
    let undone = undo(&run, &site.journal(), &allowed).unwrap();
    assert_eq!((undone.restored.len(), undone.refused.len()), (2, 3), "{undone:?}");
    assert_eq!((reads(&site, "a/a.py"), reads(&site, record)), ("old\n".to_owned(), rows));
}

#[test]
fn a_file_that_the_next_release_brings_to_a_second_site_packages_stays_too() {
    let (site, second) = (Site::new(&[("b/b.py", "old\n")]), Site::new(&[("a/a.py", "old\n")]));
    let mut plan = site.plan(vec![]);
    plan.roots.push(second.path.clone());
    edit(&site, &mut plan, "b/b.py", "NEW\n");
    edit(&second, &mut plan, "a/a.py", "NEW\n");
    plan.changes.last_mut().unwrap().at.root = 1;
    let (run, _) = site.run(plan);
    fs::create_dir(second.at("a-2.dist-info")).unwrap();
    fs::write(second.at("a-2.dist-info/RECORD"), row("a/a.py", "NEW\n")).unwrap();
    let allowed = [site.path.clone(), second.path.clone()];
    let undone = undo(&run, &site.journal(), &allowed).unwrap();
    assert_eq!((undone.restored.len(), undone.refused.len()), (1, 1), "{undone:?}");
    assert_eq!((reads(&site, "b/b.py"), reads(&second, "a/a.py")), ("old\n".to_owned(), "NEW\n".to_owned()));
}

/// It is absent because the run removed it, not because somebody uninstalled it: its directory is there.
#[test]
fn what_a_patch_removed_comes_back_though_its_record_is_gone() {
    let record = "demo-1.dist-info/RECORD";
    let rows = format!("{}{record},,\n", row("demo/a.py", "old\n"));
    let site = Site::new(&[("demo/a.py", "old\n"), ("demo/mine.py", ""), (record, &rows)]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "demo/a.py", "");
    plan.changes.last_mut().unwrap().after = Entry::Absent;
    edit(&site, &mut plan, record, "NEW\n");
    site.run(plan);
    fs::remove_dir_all(site.at("demo-1.dist-info")).unwrap();
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused.len()), (1, 1, 0), "{undone:?}");
    assert_eq!(reads(&site, "demo/a.py"), "old\n");
}

#[test]
fn what_a_patch_removed_is_gone_when_its_directory_is() {
    let record = "demo-1.dist-info/RECORD";
    let rows = format!("{}{record},,\n", row("demo/a.py", "old\n"));
    let site = Site::new(&[("demo/a.py", "old\n"), (record, &rows)]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "demo/a.py", "");
    plan.changes.last_mut().unwrap().after = Entry::Absent;
    edit(&site, &mut plan, record, "NEW\n");
    site.run(plan);
    ["demo", "demo-1.dist-info"].iter().for_each(|name| fs::remove_dir_all(site.at(name)).unwrap());
    let undone = site.undo_newest();
    assert_eq!((undone.restored.len(), undone.gone.len(), undone.refused.len()), (0, 2, 0), "{undone:?}");
}

/// Its metadata is there, with another RECORD or none.
#[test]
fn a_file_that_is_missing_from_what_is_installed_was_not_uninstalled() {
    for rewritten in [true, false] {
        let (site, _) = patched(&[("kern", &["kern/a.py"])]);
        fs::remove_file(site.at("kern/a.py")).unwrap();
        let record = site.at("kern-1.dist-info/RECORD");
        if rewritten { fs::write(record, "kern/b.py,,\n") } else { fs::remove_file(record) }.unwrap();
        let undone = site.undo_newest();
        assert_eq!((undone.gone.len(), undone.refused.len()), (0, 2), "{undone:?}");
        assert_eq!(site.journal().runs().unwrap().len(), 1, "the originals stay");
    }
}

/// What another package of a shared directory brought stays that one's when the first is uninstalled.
#[test]
fn packages_that_share_a_directory_are_taken_back_each_for_itself() {
    let (site, before) = patched(&[("a", &["shared/a.py"]), ("b", &["shared/b.py"])]);
    fs::remove_dir_all(site.at("a-1.dist-info")).unwrap();
    fs::remove_file(site.at("shared/a.py")).unwrap();
    let (code, report) = dry_and_real(&site.path, &[]);
    assert_eq!((code, &report["undo"]["restored"]), (Some(3), &2.into()), "{report:#}");
    assert_eq!(reads(&site, "shared/b.py"), "old\n");
    let record = Path::new("b-1.dist-info/RECORD");
    assert_eq!(snapshot(&site.path).get(record), before.get(record));
}

/// Images are slimmed so.
#[test]
fn swept_caches_stop_no_undo() {
    let site = Site::new(&[("kern/b.py", "old\n"), ("kern/__pycache__/b.cpython-312.pyc", "old")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "kern/b.py", "NEW\n");
    edit(&site, &mut plan, "kern/__pycache__/b.cpython-312.pyc", "");
    let last = plan.changes.last_mut().unwrap();
    (last.after, last.bytecode) = (Entry::Absent, true);
    site.run(plan);
    fs::remove_dir(site.at("kern/__pycache__")).unwrap();
    assert_eq!(dry_and_real(&site.path, &[]).0, Some(0));
    assert_eq!(reads(&site, "kern/b.py"), "old\n");
    assert!(!site.at("kern/__pycache__").exists());
}

#[test]
fn a_package_behind_a_link_is_left_as_it_is_until_it_is_back() {
    let (site, before) = patched(&[("kern", &["kern/b.py"])]);
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
    let (site, before) = patched(&[("a", &["a/a.py"]), ("b", &["b/b.py"])]);
    let fix = |how: &str| Command::new("chattr").arg(how).arg(site.at("a")).status();
    if !fix("+i").is_ok_and(|status| status.success()) {
        eprintln!("not run: no directory can be made immutable here");
        return;
    }
    let (code, report) = on(&site.path, &["undo"]);
    assert!(fix("-i").unwrap().success());
    assert_eq!((code, &report["undo"]["restored"]), (Some(1), &3.into()), "{report:#}");
    assert_eq!(report["undo"]["runs"], serde_json::json!(["0001"]));
    assert_eq!(reads(&site, "b/b.py"), "old\n");
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}
