//! Decisions on trees written down as literals: there are no files, so what is decided can come from nothing else.

use std::path::PathBuf;

use super::decide::decide;
use super::device::Device;
use super::known::{Headers, Known};
use super::*;
use crate::compare::Verdict;
use crate::model::{Entry, FileId, Meta, Place, RelPath, Role, Source};
use crate::scan::{FileRecord, Kind, Leads};

fn place(root: usize, path: &str) -> Place {
    Place { root, path: RelPath::new(path).unwrap() }
}

fn file(root: usize, path: &str, ino: u64) -> FileRecord {
    FileRecord {
        place: place(root, path),
        id: FileId { dev: 1, ino, size: 100, mtime: 5, ctime: 6 },
        nlink: 1,
        meta: Meta { mode: 0o644, uid: 0, gid: 0, xattrs: Vec::new() },
        kind: Kind::File,
        mounted: false,
    }
}

/// Core is tree 0, devel tree 1; all files are libraries with one SONAME and without extended attributes.
fn inventory(files: Vec<FileRecord>) -> (Inventory, Known) {
    let tree = |role, name: &str| Tree {
        role,
        name: name.into(),
        path: PathBuf::from("/sp").join(name),
        site_packages: "/sp".into(),
        distribution: None,
    };
    let trees = vec![tree(Role::Core, "_rocm_sdk_core"), tree(Role::Devel, "_rocm_sdk_devel")];
    let mut known = Known::default();
    for file in &files {
        let soname = Some(b"libX.so.3".to_vec());
        known.headers.insert((1, file.id.ino), Headers::Library { soname });
        known.xattrs.insert((1, file.id.ino), Ok(Vec::new()));
    }
    let files = files.into_iter().map(|file| (file.place.clone(), file)).collect();
    (Inventory { trees, files, ..Inventory::default() }, known)
}

fn decided(inventory: &Inventory, known: &mut Known) -> DedupPlan {
    decide(inventory, &Device::default(), &Options::default(), known)
}

#[test]
fn nothing_is_decided_before_the_bytes_are_known() {
    let (inventory, mut known) = inventory(vec![
        file(0, "lib/libX.so.3", 10),
        file(1, "lib/libX.so.3", 20),
        file(1, "lib/libX.so", 30),
    ]);
    let open = decided(&inventory, &mut known);
    assert!(open.linked.is_empty() && open.conflicts.is_empty());
    let wanted = known.take_wanted();
    assert_eq!(wanted.pairs.into_keys().collect::<Vec<_>>(), [((1, 10), (1, 20))]);

    known.verdicts.insert(((1, 10), (1, 20)), Verdict::Equal { digest: None });
    assert!(decided(&inventory, &mut known).linked.is_empty(), "its alias isn't known yet");
    let wanted = known.take_wanted();
    assert_eq!(wanted.pairs.into_keys().collect::<Vec<_>>(), [((1, 10), (1, 30))]);

    known.verdicts.insert(((1, 10), (1, 30)), Verdict::Equal { digest: None });
    let done = decided(&inventory, &mut known);
    assert_eq!(done.linked.len(), 2);
    assert_eq!(done.bytes_freed, 200);
    assert_eq!(known.take_wanted(), super::known::Wanted::default());
}

#[test]
fn the_names_of_one_inode_are_a_chain_that_undo_can_walk() {
    let (inventory, mut known) = inventory(vec![
        file(0, "lib/libX.so.3", 10),
        file(1, "lib/libX.so", 20),
        file(1, "lib/libX.so.3", 20),
    ]);
    known.verdicts.insert(((1, 10), (1, 20)), Verdict::Equal { digest: None });
    let done = decided(&inventory, &mut known);
    let sources: Vec<_> = done
        .plan
        .changes
        .iter()
        .map(|change| match &change.before {
            Entry::File(file) => (change.at.path.to_string(), file.source.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        sources,
        [
            ("lib/libX.so".into(), Source::LinkTo(place(1, "lib/libX.so.3"))),
            ("lib/libX.so.3".into(), Source::CopyOf(place(0, "lib/libX.so.3"))),
        ]
    );
    assert!(done.plan.changes.iter().all(|change| change.group == 0 && change.keeps.is_some()));
}

#[test]
fn files_that_moved_or_cannot_be_read_are_conflicts() {
    let cases = [
        (Verdict::Changed { path: "/x".into() }, Trouble::Changed),
        (Verdict::Unreadable { path: "/x".into(), error: "I/O error".into() }, Trouble::Unreadable),
        (Verdict::Differ { at: Some(7) }, Trouble::Content),
    ];
    for (verdict, trouble) in cases {
        let (inventory, mut known) = inventory(vec![
            file(0, "lib/libX.so.3", 10),
            file(1, "lib/libX.so.3", 20),
            file(1, "lib/libX.so", 20),
        ]);
        known.verdicts.insert(((1, 10), (1, 20)), verdict);
        let done = decided(&inventory, &mut known);
        assert_eq!(done.conflicts[0].reason, trouble);
        assert!(done.plan.changes.is_empty());
        assert_eq!(done.left_alone[0].reason, Reason::GroupRefused);
    }
}

#[test]
fn unreadable_headers_and_attributes_are_conflicts() {
    let files = || vec![file(0, "lib/libX.so.3", 10), file(1, "lib/libX.so.3", 20)];
    let (inventory, mut known) = inventory(files());
    known.headers.insert((1, 20), Headers::Unreadable("permission denied".into()));
    let done = decided(&inventory, &mut known);
    assert_eq!((done.conflicts.len(), done.conflicts[0].reason), (1, Trouble::Unreadable));

    known.headers.insert((1, 20), Headers::Library { soname: None });
    known.verdicts.insert(((1, 10), (1, 20)), Verdict::Equal { digest: None });
    known.xattrs.insert((1, 20), Err("I/O error".into()));
    let done = decided(&inventory, &mut known);
    assert_eq!((done.conflicts.len(), done.conflicts[0].reason), (1, Trouble::Unreadable));
}

#[test]
fn what_lies_on_a_mount_is_not_merged() {
    for mounted in [0, 1, 2] {
        let mut files =
            vec![file(0, "lib/libX.so.3", 10), file(1, "lib/libX.so.3", 20), file(1, "lib/libX.so", 20)];
        files[mounted].mounted = true;
        let (inventory, mut known) = inventory(files);
        known.verdicts.insert(((1, 10), (1, 20)), Verdict::Equal { digest: None });
        let plan = decided(&inventory, &mut known);
        assert_eq!(plan.linked, [], "{mounted}");
        assert_eq!(plan.conflicts[0].reason, Trouble::Mounted, "{:?}", plan.conflicts);
    }
}

#[test]
fn links_count_as_merged_already_where_they_lead_to_the_owners_file_of_the_name() {
    let link = |path: &str, ino: u64, to: &str| FileRecord {
        kind: Kind::Symlink {
            target: "x".into(),
            leads: Leads::To(PathBuf::from("/sp/_rocm_sdk_core").join(to)),
        },
        ..file(1, path, ino)
    };
    let cases = [
        ("lib/libX.so.3", "lib/libX.so.3", 1),
        ("lib/libX.so", "lib/libX.so.3", 1),
        ("lib/libX.so.3", "lib/libY.so.1", 0),
    ];
    for (name, to, already) in cases {
        let files = vec![file(0, "lib/libX.so.3", 10), file(0, "lib/libY.so.1", 11), link(name, 20, to)];
        let (inventory, mut known) = inventory(files);
        assert_eq!(decided(&inventory, &mut known).already, already, "{name} -> {to}");
    }
}
