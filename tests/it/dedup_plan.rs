//! Every fixture of `fixtures/sdk-trees`: the plan is the expected one, reads only what it must, can be carried out and
//! taken back, and leaves nothing to do. And the standard tree in all its forms.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rocm_fixup::dedup::{DedupPlan, Options, Reads, plan};
use rocm_fixup::model::{Digest, Entry, Source};
use serde::Serialize;

use crate::reference;
use crate::sdk_tree::{Builder, FORMS, Form, SdkTree};
use crate::snapshot::{assert_same, snapshot};

pub fn options() -> Options {
    Options { hash: true, ..Options::default() }
}

fn planned(tree: &SdkTree, options: &Options) -> DedupPlan {
    plan(&tree.trees(), options, &|_| {}).unwrap()
}

fn kebab(value: impl Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// The plan as the fixtures tell it.
fn told(tree: &SdkTree, plan: &DedupPlan) -> String {
    let mut text = String::new();
    let site = format!("{}/", tree.site_packages.display());
    for one in &plan.linked {
        let (path, target) = (tree.short(&one.path), one.target.display().to_string());
        let target = target.replace(&site, "");
        writeln!(text, "link {path} -> {target} ({}, group {})", kebab(one.was), one.group).unwrap();
    }
    for one in &plan.remade {
        let form = if one.split { "split" } else { "intact" };
        writeln!(text, "remake {} = {} ({form})", tree.short(&one.path), tree.short(&one.other)).unwrap();
    }
    for one in &plan.left_alone {
        let detail = one.detail.replace(&site, "");
        writeln!(text, "leave {} {}: {detail}", tree.short(&one.path), kebab(one.reason)).unwrap();
    }
    for one in &plan.conflicts {
        let other = one.other.as_ref().map_or(String::new(), |other| format!(" {}", tree.short(other)));
        let detail = one.detail.replace(&site, "");
        writeln!(text, "conflict {}{other} {}: {detail}", tree.short(&one.path), kebab(one.reason)).unwrap();
    }
    for double in &plan.doubles {
        writeln!(text, "double {}", double.replace(&site, "")).unwrap();
    }
    for note in &plan.notes {
        writeln!(text, "note {}", note.replace(&site, "")).unwrap();
    }
    if plan.already > 0 {
        writeln!(text, "already {}", plan.already).unwrap();
    }
    text
}

/// Undo walks backwards: what a `before` links to must be there by then.
fn assert_undoable(plan: &DedupPlan) {
    let changes = &plan.plan.changes;
    for (at, change) in changes.iter().enumerate() {
        let Entry::File(file) = &change.before else { continue };
        if let Source::LinkTo(place) = &file.source {
            // What an earlier change made of a symlink is still there while later ones are undone.
            let earlier = changes[..at].iter().find(|earlier| earlier.at == *place);
            let turned = earlier.is_none_or(|earlier| matches!(earlier.before, Entry::Symlink { .. }));
            assert!(turned, "{change:?} links to what comes back later");
        }
        let remade = matches!(&change.after, Entry::File(_));
        assert!(remade || change.keeps.is_some() && change.seen.is_some(), "{change:?}");
    }
}

/// What a reader gets at each path, through links too.
fn contents(top: &Path) -> BTreeMap<PathBuf, Option<Digest>> {
    let entries = walkdir::WalkDir::new(top).into_iter().map(|entry| entry.unwrap().into_path());
    let read = |path: &Path| std::fs::read(path).ok().map(|bytes| Digest::of(&bytes));
    entries.map(|path| (path.clone(), read(&path))).collect()
}

/// Carries the plan out and back, and looks at the tree in between.
pub fn there_and_back(tree: &SdkTree, options: &Options, check: impl Fn(&DedupPlan)) {
    let (before, read) = (snapshot(&tree.top), contents(&tree.top));
    let first = planned(tree, options);
    assert_same(&before, &snapshot(&tree.top));
    assert_undoable(&first);
    reference::apply(&first.plan);
    assert_eq!(read, contents(&tree.top), "every path still gives the same bytes");
    let mut options = options.clone();
    for one in &first.remade {
        let mtime = rocm_fixup::stat::file_id(&one.other.symlink_metadata().unwrap()).mtime;
        options.refreshed.insert((one.other.clone(), mtime));
    }
    let second = planned(tree, &options);
    assert_eq!(second.plan.changes, [], "the second run changes nothing");
    assert_eq!(second.linked, []);
    check(&second);
    for one in &first.linked {
        assert!(one.path.symlink_metadata().unwrap().is_symlink());
        assert!(one.path.metadata().unwrap().is_file(), "{one:?} leads to a file");
    }
    reference::undo(&first.plan);
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn fixtures() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sdk-trees");
    let mut bad = String::new();
    let mut count = 0;
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "tree") {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let (lines, expected) = text.split_once("---\n").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let tree = lines.lines().fold(SdkTree::builder(), Builder::line).build(dir.path());
        let has = |option: &str| lines.lines().any(|line| line == format!("# option {option}"));
        let options = Options {
            device_links: has("device-links"),
            keep_hard_links: has("keep-hard-links"),
            ..options()
        };
        let found = told(&tree, &planned(&tree, &options));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{lines}---\n{found}")).unwrap();
        } else if found != expected {
            writeln!(bad, "{}:\n--- expected\n{expected}--- found\n{found}", path.display()).unwrap();
        }
        there_and_back(&tree, &options, |_| {});
    }
    assert!(count >= 20 && bad.is_empty(), "{count} fixtures\n{bad}");
}

#[test]
fn the_standard_tree_in_all_forms_and_alias_orders() {
    for form in FORMS {
        for symlinked in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let builder =
                if symlinked { Builder::standard_with_symlinked_aliases() } else { Builder::standard() };
            let tree = builder.build(dir.path());
            tree.reshape(form);
            let first = planned(&tree, &options());
            assert_eq!(first.conflicts, [], "{form:?}");
            let links = match (form, symlinked) {
                (Form::Symlinks, _) => 0,
                (_, false) => 12,
                (_, true) => 4,
            };
            assert_eq!(first.linked.len(), links, "{form:?} {symlinked}");
            let groups: HashSet<u32> = first.linked.iter().map(|one| one.group).collect();
            assert_eq!(groups.len(), links.min(4));
            let read = matches!(form, Form::Split | Form::Copies);
            assert_eq!(first.reads.bytes > 0, read, "hard links and symlinks need no reading");
            assert_eq!(first.bytes_freed > 0, read);
            assert!(first.linked.iter().all(|one| one.blake3.is_some() == read));
            there_and_back(&tree, &options(), |second| {
                assert_eq!(second.reads, Reads::default(), "{form:?}: nothing of a library is read");
                assert_eq!(second.already, 12, "{form:?}");
            });
        }
    }
}

/// Two site-packages with the same packages: neither's trees, manifests or owners are the other's.
#[test]
fn two_environments_are_planned_each_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let build = |name: &str| {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        let builder = Builder::standard()
            .line("libraries/lib/k/a.co text a")
            .line("devel/lib/k/a.co copy libraries/lib/k/a.co")
            .line("manifest libraries gfx942 lib/k/a.co");
        let tree = builder.build(&dir.path().join(name));
        tree.reshape(Form::Split);
        tree
    };
    let (one, other) = (build("one"), build("other"));
    let options = Options { device_links: true, ..options() };
    let both = plan(&[one.trees(), other.trees()].concat(), &options, &|_| {}).unwrap();
    for tree in [&one, &other] {
        let alone = planned(tree, &options);
        assert!(!alone.linked.is_empty() && alone.remade.len() == 1);
        let links = |plan: &DedupPlan| -> Vec<(PathBuf, PathBuf)> {
            let own = plan.linked.iter().filter(|one| one.path.starts_with(&tree.top));
            own.map(|one| (one.path.clone(), one.target.clone())).collect()
        };
        assert_eq!(links(&both), links(&alone));
        assert!(
            both.remade
                .iter()
                .any(|one| one.path == alone.remade[0].path && one.other == alone.remade[0].other)
        );
    }
    assert!(both.conflicts.is_empty(), "{:?}", both.conflicts);
}

#[test]
fn a_device_manifest_speaks_for_its_own_environment_only() {
    let dir = tempfile::tempdir().unwrap();
    let build = |name: &str, manifest: &str| {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        let builder = SdkTree::builder()
            .line("libraries/lib/libb.so.1 library libb.so.1 1")
            .line("devel/lib/libb.so.1 copy libraries/lib/libb.so.1")
            .line("devel/lib/c.co text c");
        builder.line(manifest).build(&dir.path().join(name))
    };
    let one = build("one", "manifest libraries gfx942 lib/libb.so.1 lib/c.co");
    let other = build("other", "# none");
    let both = plan(&[one.trees(), other.trees()].concat(), &options(), &|_| {}).unwrap();
    let left: Vec<_> = both.left_alone.iter().map(|left| &left.path).collect();
    assert_eq!(left, [&one.path("devel/lib/libb.so.1")], "{both:?}");
    let linked: Vec<_> = both.linked.iter().map(|linked| &linked.path).collect();
    assert_eq!(linked, [&other.path("devel/lib/libb.so.1")], "{both:?}");
    assert_eq!(both.notes.iter().filter(|note| note.contains("the device manifest's entry")).count(), 1);
}

#[test]
fn freed_bytes_are_those_of_inodes_without_names() {
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder().library("core", "lib/libX.so.3", &["libX.so"]).build(dir.path());
    let size = tree.path("core/lib/libX.so.3").metadata().unwrap().len();
    tree.reshape(Form::Split);
    assert_eq!(planned(&tree, &options()).bytes_freed, size);
    tree.reshape(Form::HardLinks);
    tree.make("devel/share/other.bin hardlink devel/lib/libX.so");
    let plan = planned(&tree, &options());
    assert_eq!(plan.bytes_freed, 0);
    assert!(plan.notes[0].contains("1 more names"), "{:?}", plan.notes);
}

/// Undo can't link them again, so that the report counts them.
#[test]
fn names_that_are_no_librarys_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let pair = ["core/lib/libY.so.1 library libY.so.1 1", "devel/lib/libY.so.1 copy core/lib/libY.so.1"];
    let tree = pair.into_iter().fold(SdkTree::builder(), Builder::line).build(dir.path());
    for name in ["a", "b", "c"] {
        std::fs::hard_link(tree.path("devel/lib/libY.so.1"), tree.top.join(name)).unwrap();
    }
    let plan = planned(&tree, &options());
    assert_eq!((plan.linked.len(), plan.bytes_freed), (1, 0));
    assert!(plan.notes.iter().any(|note| note.contains("has 3 more names outside")), "{:?}", plan.notes);
}

#[test]
fn copies_are_hashed_once_and_a_dry_run_hashes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Copies);
    let dry = planned(&tree, &Options::default());
    assert!(dry.linked.iter().all(|one| one.blake3.is_none()));
    let full = planned(&tree, &options());
    assert_eq!(full.reads, dry.reads);
    for one in &full.linked {
        let bytes = std::fs::read(&one.path).unwrap();
        assert_eq!(one.blake3, Some(Digest::of(&bytes)));
    }
}

/// Minutes or hours where a step looks at all files for each of them, or asks one question a round.
#[test]
fn hundreds_of_files_of_one_soname_in_a_directory() {
    const COUNT: usize = 1000;
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder().line("core/lib/libX.so.3 library libX.so.3 1").build(dir.path());
    std::fs::create_dir_all(tree.path("devel/lib")).unwrap();
    let copy = |to: String| std::fs::copy(tree.path("core/lib/libX.so.3"), tree.path(&to)).unwrap();
    for number in 0..COUNT {
        copy(format!("core/lib/libX-{number}.so"));
        let twin = if number % 2 == 0 { "libX" } else { "libY" };
        copy(format!("devel/lib/{twin}-{number}.so"));
    }
    let plan = planned(&tree, &options());
    assert_eq!((plan.linked.len(), plan.conflicts.len()), (COUNT, 0));
    assert!(plan.linked.iter().all(|one| one.group == 0));
}

#[test]
fn progress_adds_up() {
    use rocm_fixup::dedup::Progress;
    use std::sync::atomic::{AtomicU64, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Copies);
    let (total, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |progress| match progress {
        Progress::Total(bytes) => total.fetch_add(bytes, Ordering::Relaxed),
        Progress::Done(bytes) => done.fetch_add(bytes, Ordering::Relaxed),
    };
    let plan = plan(&tree.trees(), &options(), &|step| drop_value(progress(step))).unwrap();
    assert_eq!(total.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
    assert_eq!(2 * done.into_inner(), plan.reads.bytes);
}

fn drop_value(_: u64) {}

#[test]
fn names_that_are_not_utf8_and_vanishing_trees() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder().library("core", "lib/libX.so.3", &[]).build(dir.path());
    let odd = OsStr::from_bytes(b"lib/lib\xff\n.so.1");
    let (core, devel) = (tree.path("core").join(odd), tree.path("devel").join(odd));
    std::fs::copy(tree.path("core/lib/libX.so.3"), &core).unwrap();
    std::fs::copy(&core, &devel).unwrap();
    assert!(planned(&tree, &options()).linked.iter().any(|one| one.path == devel));
    there_and_back(&tree, &options(), |_| {});
    let trees = tree.trees();
    std::fs::rename(tree.path("core"), tree.path("gone")).unwrap();
    let plan = plan(&trees, &options(), &|_| {}).unwrap();
    assert!(plan.plan.changes.is_empty() && plan.notes[0].contains("went away"), "{:?}", plan.notes);
}

/// False on a file system without user attributes.
fn set_attribute(path: &Path) -> bool {
    let file = rocm_fixup::stat::open_regular(path).unwrap();
    rustix::fs::fsetxattr(&file, "user.test", b"x", rustix::fs::XattrFlags::empty()).is_ok()
}

#[test]
fn differing_attributes_refuse_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let tree = SdkTree::builder().library("core", "lib/libX.so.3", &["libX.so"]).build(dir.path());
    tree.reshape(Form::Split);
    if !set_attribute(&tree.path("devel/lib/libX.so")) {
        return;
    }
    let plan = planned(&tree, &options());
    assert!(plan.linked.is_empty());
    assert_eq!(plan.conflicts.len(), 2);
    assert!(plan.conflicts[0].detail.contains("user.test"), "{:?}", plan.conflicts);
}

#[test]
fn a_device_file_keeps_its_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let builder = SdkTree::builder().line("libraries/lib/k/a.co text kernels");
    let tree = builder.line("devel/lib/k/a.co copy libraries/lib/k/a.co").build(dir.path());
    tree.manifest_of(&["lib/k/a.co"]);
    if !["libraries/lib/k/a.co", "devel/lib/k/a.co"].iter().all(|name| set_attribute(&tree.path(name))) {
        return;
    }
    let options = Options { device_links: true, ..options() };
    assert_eq!(planned(&tree, &options).remade.len(), 1);
    there_and_back(&tree, &options, |_| {});
}
