//! The whole way on random trees: plan, journal, apply, plan again, undo. Judged by a model that knows only the promises:
//! every name gives the bytes that it gave, links go from devel to an owner and are relative, nothing outside is touched,
//! a second run has nothing to do, and undo gives the tree back to the last attribute.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Component, Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;
use rocm_fixup::apply::apply;
use rocm_fixup::dedup::{self, Options};
use rocm_fixup::journal::{Journal, Record};
use rocm_fixup::undo::undo;

use crate::sdk_tree::SdkTree;
use crate::snapshot::{Snapshot, differences, snapshot};

/// What is put somewhere. Numbers choose an earlier file.
#[derive(Clone, Debug)]
enum Atom {
    Library(u8),
    Nameless(u8),
    Program(u8),
    Text(u8),
    Empty,
    Sparse,
    Copy(usize),
    HardLink(usize),
    /// A hard link to a file outside of site-packages.
    LinkOutside,
    LinkTo(usize, bool),
    Dangling,
    Loop,
    Fifo,
    Directory,
    Manifest,
}

/// What is done to a file afterwards.
#[derive(Clone, Copy, Debug)]
enum Touch {
    Nothing,
    Mode(u32),
    Owner,
    Attribute,
}

#[derive(Clone, Debug)]
struct Entry {
    tree: &'static str,
    directory: &'static str,
    name: OsString,
    atom: Atom,
    touch: Touch,
}

const NAMES: [&[u8]; 8] = [
    b"libX.so",
    b"libX.so.3",
    b"libX.so.3.5",
    b"libY.so.1",
    b"libX\xff.so.3",
    b"libX\n.so",
    b"libX\x1b[31m.so.3",
    b"tool",
];

fn entry() -> impl Strategy<Value = Entry> {
    let atom = prop_oneof![
        6 => select(vec![1, 1, 1, 2_u8]).prop_map(Atom::Library),
        1 => (1..3_u8).prop_map(Atom::Nameless),
        1 => (1..3_u8).prop_map(Atom::Program),
        1 => (1..3_u8).prop_map(Atom::Text),
        1 => Just(Atom::Empty),
        1 => Just(Atom::Sparse),
        6 => any::<usize>().prop_map(Atom::Copy),
        6 => any::<usize>().prop_map(Atom::HardLink),
        1 => Just(Atom::LinkOutside),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(to, absolute)| Atom::LinkTo(to, absolute)),
        1 => Just(Atom::Dangling),
        1 => Just(Atom::Loop),
        1 => Just(Atom::Fifo),
        1 => Just(Atom::Directory),
        1 => Just(Atom::Manifest),
    ];
    let touch = prop_oneof![
        24 => Just(Touch::Nothing),
        1 => select(vec![0o600, 0o755, 0o4755, 0o444]).prop_map(Touch::Mode),
        1 => Just(Touch::Owner),
        1 => Just(Touch::Attribute),
    ];
    let directory =
        prop_oneof![8 => Just("lib"), 1 => select(vec!["lib/llvm/lib", "lib/k", "bin", "share/tests"])];
    let long = Just(OsString::from(format!("lib{}.so", "x".repeat(249))));
    let name = prop_oneof![
        12 => select(&NAMES[..3]).prop_map(|name| OsStr::from_bytes(name).to_owned()),
        3 => select(&NAMES[3..]).prop_map(|name| OsStr::from_bytes(name).to_owned()),
        1 => long,
    ];
    let tree = select(vec!["core", "core", "libraries", "devel", "devel", "devel"]);
    (tree, directory, name, atom, touch).prop_map(|(tree, directory, name, atom, touch)| Entry {
        tree,
        directory,
        name,
        atom,
        touch,
    })
}

/// Makes the tree; what can't be made (a name twice, say) is left out.
fn build(entries: &[Entry], top: &Path) -> SdkTree {
    let builder = SdkTree::builder().line("devel/include/x.h text x").line("core/include/x.h text x");
    let tree = builder.line("dist rocm-sdk-core 1").line("dist rocm-sdk-devel 1").build(top);
    fs::write(tree.top.join("outside"), "not in site-packages").unwrap();
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let directory = tree.path(entry.tree).join(entry.directory);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(&entry.name);
        if path.symlink_metadata().is_ok() || (place(&tree, entry, &path, &files)).is_none() {
            continue;
        }
        if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            touch(entry.touch, &path);
            files.push(path);
        }
    }
    tree
}

fn place(tree: &SdkTree, entry: &Entry, path: &Path, files: &[PathBuf]) -> Option<()> {
    let earlier = |at: &usize| files.get(at % files.len().max(1));
    let object = |what: &str| {
        let made = tree.path("scratch");
        tree.make(&format!("scratch {what}"));
        fs::rename(made, path).ok()
    };
    match &entry.atom {
        Atom::Library(seed) => object(&format!("library libX.so.3 {seed}")),
        Atom::Nameless(seed) => object(&format!("nameless {seed}")),
        Atom::Program(seed) => object(&format!("program {seed}")),
        Atom::Text(seed) => fs::write(path, format!("text {seed}")).ok(),
        Atom::Empty => fs::write(path, "").ok(),
        Atom::Sparse => fs::File::create(path).and_then(|file| file.set_len(3 << 20)).ok(),
        Atom::Copy(at) => fs::copy(earlier(at)?, path).ok().map(drop),
        Atom::HardLink(at) => fs::hard_link(earlier(at)?, path).ok(),
        Atom::LinkOutside => fs::hard_link(tree.top.join("outside"), path).ok(),
        Atom::LinkTo(at, true) => symlink(earlier(at)?, path).ok(),
        Atom::LinkTo(at, false) => symlink(upwards(path, earlier(at)?), path).ok(),
        Atom::Dangling => symlink("../nowhere/libX.so.3", path).ok(),
        Atom::Loop => symlink(path.file_name()?, path).ok(),
        Atom::Fifo => {
            let mode = rustix::fs::Mode::from_raw_mode(0o644);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).ok()
        }
        Atom::Directory => fs::create_dir(path).ok(),
        Atom::Manifest => {
            let name = entry.name.to_str().filter(|name| !name.contains(char::is_control))?;
            tree.manifest_of(&[&format!("{}/{name}", entry.directory)]);
            Some(())
        }
    }
}

fn touch(touch: Touch, path: &Path) {
    match touch {
        Touch::Nothing => {}
        Touch::Mode(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap(),
        Touch::Owner => drop(chown(path, Some(1234), None)),
        Touch::Attribute => {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::lsetxattr(path, "user.note", b"kept", flags);
        }
    }
}

fn upwards(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) =
        (from.parent().unwrap().components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    from[shared..].iter().map(|_| Component::ParentDir).chain(to[shared..].iter().copied()).collect()
}

/// What a reader gets at each name, through links too. Never waits on a fifo.
fn reads(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = walkdir::WalkDir::new(top).into_iter().map(|entry| entry.unwrap().into_path());
    let files = entries.filter(|path| path.metadata().is_ok_and(|meta| meta.is_file()));
    files
        .filter(|path| !path.components().any(|c| c.as_os_str() == ".rocm-fixup"))
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect()
}

fn without_journal(mut tree: Snapshot) -> Snapshot {
    tree.retain(|path, _| !path.components().any(|c| c.as_os_str() == ".rocm-fixup"));
    tree
}

/// Every difference must be one that the promises allow.
fn allowed(tree: &SdkTree, before: &Snapshot, after: &Snapshot, remade: &[PathBuf]) -> Result<(), String> {
    let below = |path: &Path, name: &str| tree.top.join(path).starts_with(tree.path(name));
    for (path, item) in after {
        let Some(old) = before.get(path) else { return Err(format!("{} is new", path.display())) };
        let same = (old.kind, &old.target, &old.content, old.mode, old.owner, &old.xattrs)
            == (item.kind, &item.target, &item.content, item.mode, item.owner, &item.xattrs);
        if same {
            continue;
        }
        let told = || format!("{}: {old:?} -> {item:?}", path.display());
        let in_devel = below(path, "devel");
        let turned = !in_devel && old.kind == "symlink";
        match item.target.as_deref() {
            // A file in devel became a link to an owner's file, or an owner's link was turned.
            Some(target) if (in_devel && old.kind == "file") || turned => {
                let end = tree.top.join(path).parent().unwrap().join(target);
                let end = end.canonicalize().map_err(|error| format!("{}: {error}", told()))?;
                let owned = ["core", "libraries"].iter().any(|name| end.starts_with(tree.path(name)));
                if target.is_absolute() || !owned || !end.is_file() {
                    return Err(told());
                }
            }
            None if turned && item.kind == "file" => {}
            // A device file is one with its twin now, whose mode and owner may differ as those of a link's end may.
            None if remade.contains(&tree.top.join(path)) && item.content == old.content => {}
            _ => return Err(told()),
        }
    }
    match before.keys().find(|path| !after.contains_key(*path)) {
        Some(path) => Err(format!("{} is gone", path.display())),
        None => Ok(()),
    }
}

/// A name that isn't the SDK's library (uv's cache, say) is not looked at, and so can't be linked again: files of such a
/// group come back on their own.
fn forget_foreign_groups(before: &mut Snapshot, after: &mut Snapshot) {
    let mut groups: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for (path, item) in &*before {
        groups.entry(item.same_as.clone().unwrap_or_else(|| path.clone())).or_default().push(path.clone());
    }
    let foreign = |path: &PathBuf| !path.to_string_lossy().contains(".so");
    for path in groups.into_values().filter(|names| names.iter().any(foreign)).flatten() {
        for tree in [&mut *before, &mut *after] {
            if let Some(item) = tree.get_mut(&path) {
                item.same_as = None;
            }
        }
    }
}

fn there_and_back(entries: &[Entry], device_links: bool) -> Result<(), String> {
    let place = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(place).unwrap();
    let tree = build(entries, dir.path());
    let (before, read) = (snapshot(&tree.top), reads(&tree.top));
    let text = |error: anyhow::Error| format!("{error:#}");
    let mut options = Options { hash: true, device_links, ..Options::default() };
    let planned = dedup::plan(&tree.trees(), &options, &|_| {}).map_err(text)?;
    if planned.plan.changes.is_empty() {
        return Ok(());
    }
    let journal = Journal::open(&tree.site_packages).map_err(text)?;
    let record = journal.begin("dedup", None, false, planned.plan.clone()).map_err(text)?;
    let record = Record { plan: planned.plan.clone(), ..record };
    let outcome = apply(&record, &journal, |_| {}).map_err(text)?;
    if let Some(error) = outcome.failed {
        return Err(format!("{error:#}"));
    }
    if !outcome.refused.is_empty() {
        return Err(format!("refused: {:?}", outcome.refused));
    }
    let after = without_journal(snapshot(&tree.top));
    let remade: Vec<PathBuf> = planned.remade.iter().map(|one| one.path.clone()).collect();
    allowed(&tree, &before, &after, &remade)?;
    let now = reads(&tree.top);
    if let Some((path, _)) = read.iter().find(|(path, bytes)| now.get(*path) != Some(bytes)) {
        return Err(format!("{} gives other bytes", path.display()));
    }
    for one in &planned.remade {
        let (a, b) = (fs::metadata(&one.path).unwrap(), fs::metadata(&one.other).unwrap());
        if (a.dev(), a.ino()) != (b.dev(), b.ino()) {
            return Err(format!("{} is not one file with {}", one.path.display(), one.other.display()));
        }
        options.refreshed.insert((one.other.clone(), i128::from(record.started_second()) * 1_000_000_000));
    }
    let second = dedup::plan(&tree.trees(), &options, &|_| {}).map_err(text)?;
    // A device file whose twin was a turned link is for the run after that.
    let later = device_links && planned.linked.iter().any(|one| one.was == dedup::Was::Reversed);
    if !second.plan.changes.is_empty() && !later {
        return Err(format!("a second run would change {:?}", second.plan.changes));
    }
    let undone = undo(&record, &journal, std::slice::from_ref(&tree.site_packages)).map_err(text)?;
    if !undone.refused.is_empty() {
        return Err(format!("not undone: {:?}", undone.refused));
    }
    let (mut before, mut after) = (before, snapshot(&tree.top));
    forget_foreign_groups(&mut before, &mut after);
    let differences = differences(&before, &after);
    if differences.is_empty() { Ok(()) } else { Err(format!("after undo: {differences}")) }
}

/// A few hundred for each run; tests/faults/run asks for ten thousand.
fn cases() -> u32 {
    std::env::var("ROCM_FIXUP_TREES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// A model that nothing happens in would keep every promise.
#[test]
fn a_good_part_of_the_random_trees_is_changed() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = proptest::collection::vec(entry(), 2..16);
    let mut changed = 0;
    for _ in 0..100 {
        let dir = tempfile::tempdir().unwrap();
        let tree = build(&strategy.new_tree(&mut runner).unwrap().current(), dir.path());
        let planned = dedup::plan(&tree.trees(), &Options::default(), &|_| {}).unwrap();
        changed += usize::from(!planned.plan.changes.is_empty());
    }
    assert!(changed >= 20, "{changed} of 100");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default()
    })]

    #[test]
    fn random_trees_keep_every_promise(
        entries in proptest::collection::vec(entry(), 2..16), device_links in any::<bool>()
    ) {
        if let Err(error) = there_and_back(&entries, device_links) {
            prop_assert!(false, "{error}");
        }
    }
}
