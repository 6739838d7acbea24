//! The cases of patching.md, section 3, that are about several files and the file system, as far as planning goes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rocm_fixup::model::Entry;
use rocm_fixup::patch::plan::Direction::{Apply, Revert};
use rocm_fixup::patch::report::State;

use super::site::{Site, carry_out};

const ONE: &str = "--- a/p/a.py\n+++ b/p/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
const BOTH: &str = "--- a/p/a.py\n+++ b/p/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n--- a/p/b.py\n+++ b/p/b.py\n@@ -1,3 \
                    +1,3 @@\n four\n-five\n+FIVE\n six\n";

fn site() -> Site {
    let mut site = Site::new();
    let files: [(&str, &[u8]); 3] =
        [("p/__init__.py", b""), ("p/a.py", b"one\ntwo\nthree\n"), ("p/b.py", b"four\nfive\nsix\n")];
    site.install("p", "1.0", &files);
    site
}

fn conflict(site: &Site, patch: &str) -> String {
    let before = site.tree();
    let planned = site.plain(&[patch], Apply);
    assert!(planned.refused && planned.plan.changes.is_empty());
    assert_eq!(planned.patches[0].state, State::Conflict);
    assert_eq!(site.tree(), before);
    planned.patches[0].files.iter().filter_map(|f| f.conflict.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn apply_then_again_then_revert() {
    let site = site();
    site.write("p/__pycache__/a.cpython-311.pyc", b"old");
    site.write("p/__pycache__/b.cpython-311.pyc", b"other");
    let before = site.tree();
    let planned = site.plain(&[ONE], Apply);
    assert_eq!((planned.refused, planned.patches[0].state), (false, State::Pending));
    assert_eq!(planned.plan.changes.len(), 3, "the file, its bytecode, RECORD");
    assert!(planned.plan.changes.iter().all(|c| c.group == 0 && c.seen.is_some()));
    assert_eq!(planned.plan.changes.iter().filter(|c| c.bytecode).count(), 1);
    carry_out(&planned.plan);
    assert_eq!(site.text("p/a.py"), "one\nTWO\nthree\n");
    assert!(!site.root.join("p/__pycache__/a.cpython-311.pyc").exists());
    assert!(site.root.join("p/__pycache__/b.cpython-311.pyc").exists());

    let again = site.plain(&[ONE], Apply);
    assert_eq!((again.plan.changes.len(), again.patches[0].state), (0, State::Applied));
    assert_eq!(again.patches[0].clone().applied().state, State::Already);

    let back = site.plain(&[ONE], Revert);
    assert_eq!((back.refused, back.patches[0].state), (false, State::Applied));
    carry_out(&back.plan);
    site.write("p/__pycache__/a.cpython-311.pyc", b"old");
    assert_eq!(site.tree(), before, "bytes and RECORD are as before");
    assert_eq!(site.plain(&[ONE], Revert).patches[0].state, State::Pending);
}

#[test]
fn case_03_a_partly_applied_patch_of_unknown_content_is_refused() {
    let site = site();
    carry_out(&site.plain(&[ONE], Apply).plan);
    let planned = site.plain(&[BOTH], Apply);
    assert_eq!((planned.refused, planned.patches[0].state), (true, State::Partial));
    assert!(planned.plan.changes.is_empty());
}

#[test]
fn case_04_where_one_file_fails_nothing_is_planned_for_any() {
    let site = site();
    site.write("p/b.py", "other\n");
    let text = conflict(&site, BOTH);
    assert!(text.contains("p/b.py") && text.contains("hunk 1 of 1"), "{text}");
    let planned = site.plain(&[ONE, &BOTH[ONE.len()..]], Apply);
    assert!(planned.refused && planned.plan.changes.is_empty(), "nor for the other patches of the run");
}

#[test]
fn case_09_the_strip_levels_that_would_hit_are_named() {
    let site = site();
    let text = conflict(&site, &ONE.replace("a/p/a.py", "a/src/p/a.py").replace("b/p/a.py", "b/src/p/a.py"));
    assert!(text.contains("--strip 2"), "{text}");
}

#[test]
fn case_12_a_file_that_is_gone_is_named() {
    let site = site();
    fs::remove_file(site.root.join("p/a.py")).unwrap();
    let text = conflict(&site, ONE);
    assert!(text.contains("p/a.py") && text.contains("not there"), "{text}");
}

#[test]
fn case_13_a_target_that_is_a_link_is_refused_by_name() {
    let site = site();
    fs::rename(site.root.join("p/a.py"), site.root.join("p/real.py")).unwrap();
    symlink("real.py", site.root.join("p/a.py")).unwrap();
    let text = conflict(&site, ONE);
    assert!(text.contains("symbolic link to `real.py`"), "{text}");
}

#[test]
fn case_14_a_link_into_uvs_cache_is_told_as_such() {
    let site = site();
    let cache = site.root.parent().unwrap().join("uv/archive-v0/x");
    fs::create_dir_all(&cache).unwrap();
    fs::rename(site.root.join("p/a.py"), cache.join("a.py")).unwrap();
    symlink(cache.join("a.py"), site.root.join("p/a.py")).unwrap();
    let text = conflict(&site, ONE);
    assert!(text.contains("uv's cache") && text.contains("--link-mode copy"), "{text}");
}

#[test]
fn case_15_a_linked_parent_is_refused_and_a_linked_root_is_not() {
    let mut site = site();
    fs::rename(site.root.join("p"), site.root.join("q")).unwrap();
    symlink("q", site.root.join("p")).unwrap();
    let text = conflict(&site, ONE);
    assert!(text.contains("`p` above it is a symbolic link to `q`"), "{text}");
    fs::remove_file(site.root.join("p")).unwrap();
    fs::rename(site.root.join("q"), site.root.join("p")).unwrap();
    let lib64 = site.root.parent().unwrap().join("lib64");
    symlink(&site.root, &lib64).unwrap();
    site.root = fs::canonicalize(lib64).unwrap();
    assert!(!site.plain(&[ONE], Apply).refused);
}

#[test]
fn case_16_a_patch_that_makes_a_link_is_refused() {
    let patch = "diff --git a/p/l b/p/l\nnew file mode 120000\n--- /dev/null\n+++ b/p/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at \
                 end of file\n";
    let mistake =
        rocm_fixup::patch::lint::lint(patch.as_bytes(), rocm_fixup::patch::lint::Origin::User).unwrap_err();
    assert_eq!(mistake.rule, "symlink");
}

#[test]
fn case_17_a_shared_file_is_replaced_and_told() {
    let site = site();
    let other = site.root.parent().unwrap().join("cached.py");
    fs::hard_link(site.root.join("p/a.py"), &other).unwrap();
    let planned = site.plain(&[ONE], Apply);
    assert!(
        planned.patches[0].notes.iter().any(|n| n.contains("was shared")),
        "{:?}",
        planned.patches[0].notes
    );
    carry_out(&planned.plan);
    assert_eq!(fs::read_to_string(other).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn case_21_22_mode_owner_and_attributes_are_kept_and_setuid_is_refused() {
    let site = site();
    let file = site.root.join("p/a.py");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let attribute = rustix::fs::setxattr(&file, "user.note", b"v", rustix::fs::XattrFlags::empty()).is_ok();
    let planned = site.plain(&[ONE], Apply);
    let Entry::File(after) = &planned.plan.changes[0].after else { panic!() };
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((after.meta.mode, after.meta.uid, after.meta.gid), (0o444, meta.uid(), meta.gid()));
    assert_eq!(after.meta.xattrs.len(), usize::from(attribute));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    assert!(conflict(&site, ONE).contains("setuid"));
}

#[test]
fn case_29_31_files_come_and_go_with_their_rows() {
    let site = site();
    let before = site.tree();
    let patch = "diff --git a/p/new.py b/p/new.py\nnew file mode 100755\n--- /dev/null\n+++ b/p/new.py\n@@ -0,0 +1 @@\n+x = 1\n\
                 diff --git a/p/b.py b/p/b.py\ndeleted file mode 100644\n--- a/p/b.py\n+++ /dev/null\n@@ -1,3 +0,0 \
                 @@\n-four\n-five\n-six\n";
    carry_out(&site.plain(&[patch], Apply).plan);
    assert!(!site.root.join("p/b.py").exists());
    assert_eq!(fs::metadata(site.root.join("p/new.py")).unwrap().mode() & 0o777, 0o755);
    let record = site.text("p-1.0.dist-info/RECORD");
    assert!(record.contains("p/new.py,sha256=") && !record.contains("p/b.py"), "{record}");
    assert_eq!(site.plain(&[patch], Apply).patches[0].state, State::Applied);
    carry_out(&site.plain(&[patch], Revert).plan);
    assert_eq!(site.tree(), before);
}

#[test]
fn case_47_two_patches_on_one_file_are_one_change() {
    let site = site();
    let before = site.tree();
    let second = "--- a/p/a.py\n+++ b/p/a.py\n@@ -1,3 +1,4 @@\n one\n TWO\n+between\n three\n";
    let planned = site.plain(&[ONE, second], Apply);
    assert!(!planned.refused, "{:?}", planned.patches);
    assert_eq!(planned.plan.changes.len(), 2, "the file and RECORD");
    carry_out(&planned.plan);
    assert_eq!(site.text("p/a.py"), "one\nTWO\nbetween\nthree\n");
    let again = site.plain(&[ONE, second], Apply);
    assert!(again.plan.changes.is_empty() && again.patches.iter().all(|p| p.state == State::Applied));
    carry_out(&site.plain(&[ONE, second], Revert).plan);
    assert_eq!(site.tree(), before);
    // Only the first is there: the second completes the run.
    carry_out(&site.plain(&[ONE], Apply).plan);
    let rest = site.plain(&[ONE, second], Apply);
    let states: Vec<State> = rest.patches.iter().map(|p| p.state).collect();
    assert_eq!((rest.refused, states), (false, vec![State::Applied, State::Pending]));
}

#[test]
fn case_52_directories_and_fifos_are_no_targets() {
    let site = site();
    let file = site.root.join("p/a.py");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(conflict(&site, ONE).contains("it is a directory"));
    fs::remove_dir(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    assert!(conflict(&site, ONE).contains("it is a FIFO"));
}

#[test]
fn pip_and_uv_line_endings_of_record_stay() {
    let site = site();
    let record = site.text("p-1.0.dist-info/RECORD");
    site.write("p-1.0.dist-info/RECORD", record.replace('\n', "\r\n"));
    let planned = site.plain(&[ONE], Apply);
    carry_out(&planned.plan);
    let after = site.text("p-1.0.dist-info/RECORD");
    assert_eq!(after.matches("\r\n").count(), record.lines().count());
    carry_out(&site.plain(&[ONE], Revert).plan);
    assert_eq!(site.text("p-1.0.dist-info/RECORD"), record.replace('\n', "\r\n"));
}

#[test]
fn a_file_is_not_made_where_there_is_no_directory() {
    let site = site();
    let patch = "--- /dev/null\n+++ b/q/new.py\n@@ -0,0 +1 @@\n+x = 1\n";
    assert!(conflict(&site, patch).contains("no directory"));
    let back = site.plain(&["--- a/q/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"], Revert);
    assert!(back.refused && back.plan.changes.is_empty());
}
