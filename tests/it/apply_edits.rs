//! Plans that change, make and delete files: all or none, with mode and place, and back to the byte.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rocm_fixup::journal::Ended;
use rocm_fixup::model::{Change, Digest, Entry, FileEntry, Source};

use crate::apply::{Site, edit, place, stray};
use crate::snapshot::snapshot;

#[test]
fn edited_files_keep_mode_and_come_back_and_shared_ones_are_replaced_not_edited() {
    let site = Site::new(&[("p/a.py", "one\n"), ("p/b.py", "two\n"), ("cache", "one\n")]);
    fs::remove_file(site.at("p/a.py")).unwrap();
    fs::hard_link(site.at("cache"), site.at("p/a.py")).unwrap();
    fs::set_permissions(site.at("p/b.py"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "p/a.py", "ONE\n");
    edit(&site, &mut plan, "p/b.py", "TWO, longer\n");
    let old = site.id("p/a.py");
    site.run(plan);
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"ONE\n");
    assert_eq!(fs::read(site.at("cache")).unwrap(), b"one\n", "uv's cache must not see the edit");
    assert!(site.id("p/a.py").mtime > old.mtime, "a fresh mtime, or the layer differ drops it");
    assert_eq!(fs::metadata(site.at("p/b.py")).unwrap().mode() & 0o7777, 0o640);
    fs::create_dir(site.at("p/__pycache__")).unwrap();
    fs::write(site.at("p/__pycache__/a.cpython-312.pyc"), "compiled from ONE").unwrap();
    fs::write(site.at("p/__pycache__/ab.cpython-312.pyc"), "of another source").unwrap();
    site.undo_newest();
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"one\n");
    assert!(!site.at("p/__pycache__/a.cpython-312.pyc").exists(), "it is stale after undo");
    assert!(site.at("p/__pycache__/ab.cpython-312.pyc").exists());
    assert_eq!(fs::metadata(site.at("p/b.py")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(stray(&site.path), Vec::<String>::new());
}

#[test]
fn all_edits_of_a_group_or_none() {
    let site = Site::new(&[("p/a.py", "one\n"), ("p/b.py", "two\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "p/a.py", "ONE\n");
    edit(&site, &mut plan, "p/b.py", "TWO\n");
    fs::write(site.at("p/b.py"), "2wo\n").unwrap();
    let before = snapshot(&site.path);
    let (_, outcome) = site.run(plan);
    assert_eq!(outcome.refused.len(), 1);
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn created_and_deleted_files_are_undone() {
    let site = Site::new(&[("p/old.py", "old\n")]);
    let before = snapshot(&site.path);
    let mut plan = site.plan(vec![Change {
        at: place("p/old.py"),
        before: site.file("p/old.py", Source::Bytes),
        after: Entry::Absent,
        seen: Some(site.id("p/old.py")),
        keeps: None,
        group: 0,
        bytecode: false,
    }]);
    let Entry::File(like) = site.file("p/old.py", Source::Bytes) else { unreachable!() };
    let digest = Digest::of(b"new\n");
    plan.contents.insert(digest, b"new\n".to_vec());
    plan.changes.push(Change {
        at: place("p/new.py"),
        before: Entry::Absent,
        after: Entry::File(FileEntry { size: 4, digest: Some(digest), ..like }),
        seen: None,
        keeps: None,
        group: 0,
        bytecode: false,
    });
    let (_, outcome) = site.run(plan);
    assert!(outcome.failed.is_none(), "{outcome:?}");
    assert!(!site.at("p/old.py").exists());
    assert_eq!(fs::read(site.at("p/new.py")).unwrap(), b"new\n");
    site.undo_newest();
    assert_eq!(snapshot(&site.path), before);
}

#[test]
fn a_run_that_an_error_ends_is_recorded_as_stopped_and_one_with_a_refusal_as_partial() {
    let names = ["p/a.py", "p/b.py", "p/c.py"];
    let site = Site::new(&names.map(|name| (name, name)));
    let before = snapshot(&site.path);
    let edits = || {
        let mut plan = site.plan(vec![]);
        names.iter().for_each(|name| edit(&site, &mut plan, name, &name.to_uppercase()));
        (0_u32..).zip(&mut plan.changes).for_each(|(group, change)| change.group = group);
        plan
    };
    let ended = || site.journal().runs().unwrap()[0].ended;

    let mut lacking = edits();
    lacking.contents.remove(&Digest::of(b"P/B.PY"));
    let (_, outcome) = site.run(lacking);
    assert!(outcome.failed.is_some() && outcome.refused.is_empty());
    assert_eq!((outcome.made, ended()), (vec![0], Some(Ended::Stopped)));
    assert_eq!(fs::read(site.at("p/c.py")).unwrap(), b"p/c.py", "nothing is done after an error");
    site.undo_newest();
    assert_eq!(snapshot(&site.path), before);

    let plan = edits();
    fs::write(site.at("p/b.py"), "somebody's").unwrap();
    let (_, outcome) = site.run(plan);
    assert!(outcome.failed.is_none());
    assert_eq!((outcome.made, ended()), (vec![0, 2], Some(Ended::Partial)));
}
