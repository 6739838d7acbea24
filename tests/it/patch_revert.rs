//! `patch --revert` gives back what was there: from the journal exactly, without one as well as can be told.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::cli::tool;
use crate::patch_cli::{Site, code, row, state};
use crate::snapshot::{Snapshot, assert_same, snapshot};

const SOURCE: &str = "one\ntwo\nthree\n";
const DELETES: &str = "--- a/demo/gone.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n";
const CREATES: &str = "--- /dev/null\n+++ b/demo/new.py\n@@ -0,0 +1 @@\n+one\n";

/// A site with `demo/gone.py` (odd mode and owner) in an unsorted RECORD, and a folder with one patch.
fn site(patch: &str) -> (Site, std::path::PathBuf) {
    let site = Site::new();
    fs::write(site.at("demo/gone.py"), SOURCE).unwrap();
    fs::set_permissions(site.at("demo/gone.py"), fs::Permissions::from_mode(0o750)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(site.at("demo/gone.py"), Some(1234), Some(4321)).unwrap();
    }
    let record = fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap();
    let (first, rest) = record.split_once("\r\n").unwrap();
    // Its own row in another order and without a size: no computed row would equal it.
    let hash = row(SOURCE.as_bytes()).split_once(',').unwrap().0.to_owned();
    let record = format!("{first}\r\nz/other.py,,\r\ndemo/gone.py,{hash},\r\n{rest}");
    fs::write(site.at("demo-1.0.dist-info/RECORD"), record).unwrap();
    let folder = site.top().join("patches");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("p.patch"), patch).unwrap();
    (site, folder)
}

/// What is installed, without the journal.
fn installed(site: &Site) -> Snapshot {
    let mut all = snapshot(&site.at(""));
    all.retain(|path, _| !path.starts_with(".rocm-fixup"));
    all
}

#[test]
fn a_deleted_file_comes_back_with_mode_owner_and_row() {
    let (site, folder) = site(DELETES);
    let before = installed(&site);
    // The second round finds what the first revert made.
    for _ in 0..2 {
        assert_eq!(code(&site.run(&folder, &[])), 0);
        assert!(!site.at("demo/gone.py").exists());
        assert!(!fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap().contains("gone.py"));
        let output = site.run(&folder, &["--revert"]);
        assert_eq!((code(&output), state(&output).as_str()), (0, "reverted"));
        assert_same(&before, &installed(&site));
    }
}

#[test]
fn rows_of_others_that_changed_meanwhile_stay() {
    let (site, folder) = site(DELETES);
    assert_eq!(code(&site.run(&folder, &[])), 0);
    let record = site.at("demo-1.0.dist-info/RECORD");
    let edited = fs::read_to_string(&record).unwrap().replace("z/other.py,,\r\n", "z/else.py,,\r\n");
    fs::write(&record, &edited).unwrap();
    assert_eq!(code(&site.run(&folder, &["--revert"])), 0);
    let rows: Vec<String> = fs::read_to_string(&record).unwrap().lines().map(str::to_owned).collect();
    assert!(rows[0].starts_with("demo/a.py,") && rows[1].starts_with("demo/gone.py,"), "{rows:?}");
    assert!(rows[2] == "z/else.py,," && rows[3].starts_with("demo/b.py,"), "{rows:?}");
}

#[test]
fn a_file_that_no_record_listed_gets_no_row_by_coming_back() {
    let (site, folder) = site(DELETES);
    let record = fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap();
    let without: String = record.split_inclusive('\n').filter(|l| !l.contains("gone")).collect();
    fs::write(site.at("demo-1.0.dist-info/RECORD"), without).unwrap();
    let before = installed(&site);
    assert_eq!(code(&site.run(&folder, &[])), 0);
    assert_eq!(code(&site.run(&folder, &["--revert"])), 0);
    assert_same(&before, &installed(&site));
}

#[test]
fn a_created_file_whose_row_was_there_leaves_that_row() {
    let (site, folder) = site(CREATES);
    let record = site.at("demo-1.0.dist-info/RECORD");
    let with = format!("demo/new.py,{},9\r\n", row(b"other").split_once(',').unwrap().0);
    fs::write(&record, with + &fs::read_to_string(&record).unwrap()).unwrap();
    let before = installed(&site);
    assert_eq!(code(&site.run(&folder, &[])), 0);
    assert_eq!(code(&site.run(&folder, &["--revert"])), 0);
    assert_same(&before, &installed(&site));
}

#[test]
fn without_a_journal_a_file_beside_it_gives_mode_and_owner_and_that_is_said() {
    let (site, folder) = site(DELETES);
    fs::set_permissions(site.at("demo/a.py"), fs::Permissions::from_mode(0o640)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(site.at("demo/a.py"), Some(77), Some(88)).unwrap();
    }
    let owner = |path: &str| {
        let meta = fs::metadata(site.at(path)).unwrap();
        (meta.uid(), meta.gid(), meta.mode() & 0o7777)
    };
    assert_eq!(code(&site.run(&folder, &[])), 0);
    fs::remove_dir_all(site.at(".rocm-fixup")).unwrap();
    let output = site.run(&folder, &["--revert"]);
    assert_eq!(code(&output), 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("comes back with mode 0640") && said.contains("no journal knows"), "{said}");
    assert_eq!(fs::read_to_string(site.at("demo/gone.py")).unwrap(), SOURCE);
    assert_eq!(owner("demo/gone.py"), owner("demo/a.py"));
    let record = fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap();
    assert!(record.contains(&format!("demo/gone.py,{}\r\n", row(SOURCE.as_bytes()))), "{record}");
    let undone = tool(&["undo", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&undone), 0);
    assert!(!site.at("demo/gone.py").exists());
}
