//! What is staged: it gets no more rights than it shall have, it is never somebody else's, and none of it is forgotten.

use std::fs;
use std::path::Path;
use std::process::Command;

use rocm_fixup::error::message;
use rustix::fs::{XattrFlags, setxattr};

use crate::apply::{Site, edit, split_pair, stray};
use crate::recorded_runs::on;
use crate::snapshot::{assert_same, snapshot};

/// `u::rwx,u:12345:rwx,g::r-x,m::rwx,o::r-x` for all that is made in a directory (linux/posix_acl_xattr.h); false where
/// the file system has no lists.
fn set_default_acl(directory: &Path) -> bool {
    let entry = |tag: u16, may: u16, id: u32| {
        [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries = [(1, 7, nobody), (2, 7, 12345), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)];
    let entries = entries.map(|(tag, may, id)| entry(tag, may, id)).concat();
    let list = [&2_u32.to_le_bytes()[..], &entries].concat();
    setxattr(directory, "system.posix_acl_default", &list, XattrFlags::empty()).is_ok()
}

#[test]
fn a_default_acl_opens_no_file_that_is_made_anew() {
    let (site, plan) = split_pair();
    fs::write(site.at("d/a.py"), "a\n").unwrap();
    let before = snapshot(&site.path);
    if !set_default_acl(&site.at("d")) {
        eprintln!("not run: no access control lists here");
        return;
    }
    site.run(plan);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "d/a.py", "b\n");
    site.run(plan);
    let patched = rocm_fixup::stat::open_regular(&site.at("d/a.py")).unwrap();
    assert_eq!(rocm_fixup::stat::xattrs(&patched).unwrap(), []);
    for _ in 0..2 {
        assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    }
    rustix::fs::removexattr(site.at("d"), "system.posix_acl_default").unwrap();
    assert_same(&before, &snapshot(&site.path));
}

/// It may be the only copy of a file: a killed run has left it, and its record was lost.
#[test]
fn a_stage_of_somebody_else_is_never_removed() {
    for name in [".rocm-fixup-0001-0", ".rocm-fixup-0001-0.part"] {
        let site = Site::new(&[("p/a.py", "a\n")]);
        let mut plan = site.plan(vec![]);
        edit(&site, &mut plan, "p/a.py", "b\n");
        fs::write(site.at("p").join(name), "the only copy").unwrap();
        let before = snapshot(&site.path);
        let (_, outcome) = site.run(plan);
        let told = format!("{:?}", outcome.failed.unwrap());
        assert!(told.contains("File exists") && told.contains("move it where it belongs"), "{told}");
        assert_same(&before, &snapshot(&site.path));
    }
}

#[test]
fn a_stage_that_cannot_be_removed_is_tidied_up_later() {
    let site = Site::new(&[("p/a.py", "a\n")]);
    let mut plan = site.plan(vec![]);
    edit(&site, &mut plan, "p/a.py", "b\n");
    let before = snapshot(&site.path);
    // Names can be made there, but neither renamed nor removed.
    let may = |how: &str| Command::new("chattr").arg(how).arg(site.at("p")).status();
    if !may("+a").is_ok_and(|status| status.success()) {
        eprintln!("not run: no directory can be made append-only here");
        return;
    }
    let (_, outcome) = site.run(plan);
    assert!(may("-a").unwrap().success());
    let failed = outcome.failed.unwrap();
    assert!(message(&failed).contains("Operation not permitted"));
    assert!(!format!("{failed:?}").contains("move it where it belongs"), "it is ours: {failed:?}");
    assert_eq!(stray(&site.at("p")), [".rocm-fixup-0001-0.part"]);
    assert_eq!(on(&site.path, &["undo"]).0, Some(0));
    assert_same(&before, &snapshot(&site.path));
}
