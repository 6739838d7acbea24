//! The judge's memory: everything below a directory as a value. Every path with type, mode, owner, extended
//! attributes, link target, content and hard-link group; and what each name leads to. Shares no code with the product.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs as sys;

/// What stands at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub kind: Kind,
    pub mode: u32,
    pub owner: (u32, u32),
    pub xattrs: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File { length: u64, hash: String },
    Symlink(PathBuf),
    Other(&'static str),
}

/// A tree. Times are kept aside: what was not to be changed must keep them, what was changed gets new ones.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub items: BTreeMap<PathBuf, Item>,
    /// For each file with several names, the first one.
    pub same_as: BTreeMap<PathBuf, PathBuf>,
    pub mtimes: BTreeMap<PathBuf, i128>,
    /// For each name of a file, directly or through links: the hash of what a reader gets.
    pub reads: BTreeMap<PathBuf, String>,
    /// Names that only the tool makes: stages, reports in the making.
    pub strays: BTreeSet<PathBuf>,
    /// What lies in the journal, by name.
    pub journal: BTreeSet<String>,
}

const JOURNAL: &str = ".rocm-fixup";

impl State {
    pub fn of(top: &Path) -> Self {
        let mut state = Self::default();
        let mut first = HashMap::new();
        state.walk(top, Path::new(""), &mut first);
        state
    }

    fn walk(&mut self, top: &Path, rel: &Path, first: &mut HashMap<(u64, u64), PathBuf>) {
        let mut names: Vec<_> =
            fs::read_dir(top.join(rel)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort_unstable();
        for name in names {
            let path = rel.join(&name);
            let full = top.join(&path);
            if name == JOURNAL && full.symlink_metadata().unwrap().is_dir() {
                self.journal.insert(".".to_owned());
                let inside = walkdir::WalkDir::new(&full).min_depth(1).into_iter().map(|e| e.unwrap());
                let short =
                    |e: walkdir::DirEntry| e.path().strip_prefix(&full).unwrap().display().to_string();
                self.journal.extend(inside.map(short));
                continue;
            }
            let meta = full.symlink_metadata().unwrap();
            let kind = kind_of(&full, &meta);
            if is_ours(&name) {
                self.strays.insert(path);
                continue;
            }
            if meta.is_file() {
                let known = first.entry((meta.dev(), meta.ino())).or_insert_with(|| path.clone());
                if *known != path {
                    let known = known.clone();
                    self.same_as.insert(path.clone(), known);
                }
            }
            if !meta.is_dir() && full.metadata().is_ok_and(|m| m.is_file()) {
                self.reads.insert(path.clone(), hash(&full));
            }
            self.mtimes.insert(
                path.clone(),
                i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
            );
            let item = Item {
                kind,
                mode: meta.mode() & 0o7777,
                owner: (meta.uid(), meta.gid()),
                xattrs: xattrs(&full),
            };
            self.items.insert(path.clone(), item);
            if meta.is_dir() {
                self.walk(top, &path, first);
            }
        }
    }

    /// Whether this is exactly `wanted`, with nothing of the tool lying about; the paths that differ otherwise.
    pub fn is(&self, wanted: &Self) -> Result<(), String> {
        let mut text = String::new();
        for path in self.items.keys().chain(wanted.items.keys()).collect::<BTreeSet<_>>() {
            let (now, then) = (self.items.get(path), wanted.items.get(path));
            if now != then {
                let _ = write!(text, " {}: {} for {};", path.display(), shown(now), shown(then));
            } else if self.same_as.get(path) != wanted.same_as.get(path) {
                let _ = write!(text, " {}: another hard-link group;", path.display());
            }
        }
        for stray in &self.strays {
            let _ = write!(text, " {} lies about;", stray.display());
        }
        if text.is_empty() { Ok(()) } else { Err(text) }
    }

    /// Whether every path is as in `before` or as in `after`, and every name that led to content still does.
    pub fn is_between(&self, before: &Self, after: &Self) -> Result<(), String> {
        let mut text = String::new();
        let paths = self.items.keys().chain(before.items.keys()).chain(after.items.keys());
        for path in paths.collect::<BTreeSet<_>>() {
            let now = self.items.get(path);
            let (old, new) = (before.items.get(path), after.items.get(path));
            if now != old && now != new {
                let _ =
                    write!(text, " {}: {} for {} or {};", path.display(), shown(now), shown(old), shown(new));
            }
            if now == old && old == new && self.mtimes.get(path) != before.mtimes.get(path) {
                let untouched = before.mtimes.get(path) == after.mtimes.get(path);
                let is_file = matches!(now.map(|i| &i.kind), Some(Kind::File { .. } | Kind::Symlink(_)));
                if untouched && is_file {
                    let _ = write!(text, " {}: touched;", path.display());
                }
            }
            let (then, later) = (before.reads.get(path), after.reads.get(path));
            let reads = self.reads.get(path);
            if reads != then && reads != later {
                let _ = write!(text, " {}: a reader gets {reads:?} for {then:?};", path.display());
            }
        }
        if text.is_empty() { Ok(()) } else { Err(text) }
    }

    /// The runs in the journal that have a plan.
    pub fn plans(&self) -> usize {
        self.journal.iter().filter(|name| name.ends_with(".plan")).count()
    }

    /// Files in the journal that no whole run explains.
    pub fn journal_strays(&self) -> Vec<&String> {
        let run = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let runs: BTreeSet<String> =
            self.journal.iter().filter(|n| n.ends_with(".plan")).map(|n| run(n)).collect();
        let needed = |name: &&String| {
            let whole = runs.contains(&run(name)) && (name.ends_with(".plan") || name.ends_with(".done"));
            let object = name.starts_with("objects") && !name.ends_with(".part");
            !(whole || (!runs.is_empty() && (object || *name == ".")))
        };
        self.journal.iter().filter(needed).collect()
    }

    /// Paths that are symlinks here and were none in `before`.
    pub fn new_links(&self, before: &Self) -> BTreeSet<PathBuf> {
        let link = |state: &Self, path: &Path| {
            matches!(state.items.get(path).map(|i| &i.kind), Some(Kind::Symlink(_)))
        };
        self.items.keys().filter(|path| link(self, path) && !link(before, path)).cloned().collect()
    }
}

/// Whether only the tool gives such names.
pub fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(JOURNAL.as_bytes())
}

fn kind_of(path: &Path, meta: &fs::Metadata) -> Kind {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_file() => Kind::File { length: meta.len(), hash: hash(path) },
        () if kind.is_symlink() => Kind::Symlink(fs::read_link(path).unwrap()),
        () if kind.is_fifo() => Kind::Other("fifo"),
        () if kind.is_socket() => Kind::Other("socket"),
        () => Kind::Other("device"),
    }
}

fn hash(path: &Path) -> String {
    use sha2::Digest as _;
    let sum = sha2::Sha256::digest(fs::read(path).unwrap());
    sum.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0_u8; 16 << 10];
    let length = sys::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut found = Vec::new();
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0_u8; 16 << 10];
        let length = sys::lgetxattr(path, &name, &mut value[..]).unwrap_or(0);
        found.push((name, value[..length].to_vec()));
    }
    found.sort();
    found
}

fn shown(item: Option<&Item>) -> String {
    match item {
        None => "nothing".to_owned(),
        Some(item) => {
            let kind = match &item.kind {
                Kind::File { length, hash } => format!("file({length}, {hash})"),
                other => format!("{other:?}"),
            };
            format!("{kind} {:o} {:?} {} xattrs", item.mode, item.owner, item.xattrs.len())
        }
    }
}
