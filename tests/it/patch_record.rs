//! What goes with a patched file and can't be changed: nothing is written through a link, and nothing is silently wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::patch_cli::{Site, code, state};
use crate::snapshot::{assert_same, snapshot};

const INFO: &str = "demo-1.0.dist-info";

/// Moves what is at `path` out of the site and leaves a link to it, or to nothing.
fn linked(site: &Site, path: &str, to_nothing: bool) {
    let moved = site.top().join("moved");
    fs::rename(site.at(path), &moved).unwrap();
    symlink(if to_nothing { Path::new("/no/such") } else { &moved }, site.at(path)).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_file_of_a_linked_record_is_refused_and_nothing_is_touched() {
    for path in [format!("{INFO}/RECORD"), INFO.to_owned()] {
        let site = Site::new();
        let folder = site.patch("p", "demo/a.py", "five", "FIVE");
        linked(&site, &path, false);
        fs::write(folder.join("new.patch"), "--- /dev/null\n+++ b/demo/new.py\n@@ -0,0 +1 @@\n+one\n")
            .unwrap();
        let before = snapshot(&site.top());
        for more in [&[][..], &["p"], &["new"], &["--dry-run"]] {
            let output = site.run(&folder, more);
            assert_eq!((code(&output), state(&output).as_str()), (3, "conflict"), "{path} {more:?}");
            assert!(said(&output).contains("RECORD`, which lists it, can't be changed"), "{}", said(&output));
            assert_same(&before, &snapshot(&site.top()));
        }
        // Where it was: nothing stands in the way any more.
        fs::remove_file(site.at(&path)).unwrap();
        fs::rename(site.top().join("moved"), site.at(&path)).unwrap();
        assert_eq!(code(&site.run(&folder, &[])), 0);
    }
}

#[test]
fn a_linked_record_that_lists_other_files_is_no_hindrance() {
    let site = Site::new();
    let folder = site.patch("p", "demo/a.py", "five", "FIVE");
    let other = site.at("other-1.0.dist-info");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("METADATA"), "Name: other\nVersion: 1.0\n").unwrap();
    fs::write(other.join("RECORD"), "other/a.py,,\n").unwrap();
    linked(&site, "other-1.0.dist-info/RECORD", false);
    let output = site.run(&folder, &[]);
    assert_eq!((code(&output), state(&output).as_str()), (0, "applied"));
    assert!(!said(&output).contains("other-1.0"), "{}", said(&output));
}

#[test]
fn linked_metadata_is_read_and_dangling_metadata_is_an_error() {
    let site = Site::new();
    let folder = site.patch("p", "demo/a.py", "five", "FIVE");
    let record = fs::read(site.at(&format!("{INFO}/RECORD"))).unwrap();
    linked(&site, &format!("{INFO}/METADATA"), true);
    let before = snapshot(&site.top());
    let output = site.run(&folder, &[]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("METADATA is a symbolic link that leads to no file"), "{}", said(&output));
    assert_same(&before, &snapshot(&site.top()));
    fs::remove_file(site.at(&format!("{INFO}/METADATA"))).unwrap();
    symlink(site.top().join("moved"), site.at(&format!("{INFO}/METADATA"))).unwrap();
    assert_eq!(code(&site.run(&folder, &[])), 0);
    assert_ne!(fs::read(site.at(&format!("{INFO}/RECORD"))).unwrap(), record);
}
