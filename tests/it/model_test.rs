//! The whole way on random trees: plan, journal, apply, plan again, undo. Judged by a model that knows only the promises:
//! every name gives the bytes that it gave, links go from devel to an owner and are relative, nothing outside is touched,
//! a second run has nothing to do, and undo gives the tree back to the last attribute.

mod trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rocm_fixup::apply::apply;
use rocm_fixup::dedup::{self, DedupPlan, Options, Reason};
use rocm_fixup::journal::{Journal, Record};
use rocm_fixup::scan::is_library_name;
use rocm_fixup::undo::{Pretend, judge, undo};

use crate::sdk_tree::SdkTree;
use crate::snapshot::{Snapshot, differences, snapshot};

use trees::{Entry, build, entry};

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

/// Where nothing was refused, whoever opens a name in devel and the same in an owner's tree has one library. Apart from what
/// is no library or must stay, which the plan names, and from an owner's second copy beside the first.
fn sound(tree: &SdkTree, planned: &DedupPlan) -> Result<(), String> {
    use Reason::{DeviceManifest, Executable, NotElf};
    let left = |path: &Path| {
        let mut told = planned.left_alone.iter().filter(|one| one.path == *path);
        told.any(|one| matches!(one.reason, DeviceManifest | Executable | NotElf))
    };
    let devel = tree.path("devel");
    for name in walkdir::WalkDir::new(devel.join("lib")).into_iter().flatten() {
        let below = name.path().strip_prefix(&devel).unwrap();
        let Ok(end) = name.path().canonicalize() else { continue };
        let theirs: Vec<PathBuf> = ["core", "libraries"]
            .iter()
            .filter_map(|owner| tree.path(owner).join(below).canonicalize().ok())
            .filter(|end| end.is_file() && end.starts_with(&tree.site_packages))
            .collect();
        let elf =
            |end: &Path| end.is_file() && fs::read(end).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
        let library = is_library_name(below.file_name().unwrap().as_bytes()) && elf(&end);
        if !library || theirs.is_empty() || left(name.path()) || left(&end) {
            continue;
        }
        let id = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino())).unwrap();
        let doubled = |twin: &PathBuf| twin.parent() == end.parent() && !end.starts_with(&devel);
        if !theirs.iter().any(|twin| id(twin) == id(&end) || doubled(twin)) {
            return Err(format!("{} is {}, but an owner has {theirs:?}", below.display(), end.display()));
        }
    }
    Ok(())
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

fn there_and_back(entries: &[Entry], device_links: bool, is_sound: bool) -> Result<(), String> {
    let place = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(place).unwrap();
    let tree = build(entries, dir.path());
    let (before, read) = (snapshot(&tree.top), reads(&tree.top));
    let text = |error: anyhow::Error| format!("{error:#}");
    let mut options = Options { hash: true, device_links, ..Options::default() };
    let planned = dedup::plan(&tree.trees(), &options, &|_| {}).map_err(text)?;
    if planned.plan.changes.is_empty() {
        return if is_sound && planned.conflicts.is_empty() { sound(&tree, &planned) } else { Ok(()) };
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
    if is_sound && planned.conflicts.is_empty() {
        sound(&tree, &planned)?;
    }
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
    let allowed = std::slice::from_ref(&tree.site_packages);
    let judged = judge(&record, &journal, allowed, &mut Pretend::default()).map_err(text)?;
    let undone = undo(&record, &journal, allowed).map_err(text)?;
    if format!("{judged:?}") != format!("{undone:?}") {
        return Err(format!("a dry run says {judged:?}, and undo {undone:?}"));
    }
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

/// The same trees each time: what else this finds wants a look, and is no reason to stop somebody's change.
#[test]
fn where_nothing_is_refused_a_name_is_one_library() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = proptest::collection::vec(entry(), 2..16);
    for _ in 0..cases() {
        let entries = strategy.new_tree(&mut runner).unwrap().current();
        there_and_back(&entries, false, true).unwrap_or_else(|error| panic!("{error}: {entries:#?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default()
    })]

    #[test]
    fn random_trees_keep_every_promise(
        entries in proptest::collection::vec(entry(), 2..16), device_links in any::<bool>()
    ) {
        if let Err(error) = there_and_back(&entries, device_links, false) {
            prop_assert!(false, "{error}");
        }
    }
}
