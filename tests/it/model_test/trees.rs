//! Random trees of libraries, copies, links and odd things.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Component, Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;

use crate::sdk_tree::SdkTree;

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
pub struct Entry {
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

pub fn entry() -> impl Strategy<Value = Entry> {
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
pub fn build(entries: &[Entry], top: &Path) -> SdkTree {
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
