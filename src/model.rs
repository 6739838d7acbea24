//! The nouns: places, entries, changes, plans. No I/O here, only values and their rules.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path below a root: never absolute, never empty, without `.` or `..` (patching.md, cases 18 to 20).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// Takes `path` if it names something below a root by normal components only; `None` otherwise.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let normal = path.components().all(|c| matches!(c, Component::Normal(_)));
        let bytes = path.as_os_str().as_encoded_bytes();
        // `components` folds `a//b`, `a/./b` and a trailing slash; a spelled-out path must not need folding.
        let folded: PathBuf = path.components().collect();
        let plain = folded.as_os_str().as_encoded_bytes() == bytes && !bytes.contains(&0);
        (normal && plain && !bytes.is_empty()).then(|| Self(path.to_path_buf()))
    }

    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The last component.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        self.0.file_name().unwrap_or_default()
    }

    /// The directory that holds it, relative to the root; empty for something directly below the root.
    #[must_use]
    pub fn parent(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new(""))
    }

    /// The same directory, another last component. `None` where `name` isn't one normal component.
    #[must_use]
    pub fn sibling(&self, name: impl AsRef<OsStr>) -> Option<Self> {
        Self::new(self.parent().join(name.as_ref()))
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        bytes_path::serialize(&self.0, s)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let path = bytes_path::deserialize(d)?;
        Self::new(&path).ok_or_else(|| serde::de::Error::custom("not a plain relative path"))
    }
}

/// BLAKE3 of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    #[must_use]
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(d)?;
        let hash = blake3::Hash::from_hex(hex).map_err(serde::de::Error::custom)?;
        Ok(Self(*hash.as_bytes()))
    }
}

/// What one `fstat` said: enough to tell that a file is still the one that was looked at.
/// Times are nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub mtime: i128,
    pub ctime: i128,
}

impl FileId {
    /// The same inode with the same bytes, as far as `stat` can tell after a rename, which moves only the ctime.
    #[must_use]
    pub fn same_but_ctime(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.size, self.mtime) == (other.dev, other.ino, other.size, other.mtime)
    }
}

/// Who may do what with a file. `mode` holds the permission bits (07777).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Extended attributes by name, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xattrs: Vec<Xattr>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    pub name: String,
    #[serde(with = "base64_bytes")]
    pub value: Vec<u8>,
}

/// A path below one of the plan's roots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Index into [`Plan::roots`].
    pub root: usize,
    pub path: RelPath,
}

/// What is, was or shall be at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    Absent,
    File(FileEntry),
    Symlink {
        #[serde(with = "bytes_path")]
        target: PathBuf,
    },
}

/// A regular file, and where its bytes can be had when it must be made (again).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub size: u64,
    /// `None` only for a hard link whose bytes nobody had to read: then the link itself is the identity.
    pub digest: Option<Digest>,
    pub meta: Meta,
    pub source: Source,
}

/// How a file comes (back) into being.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// From the bytes that the plan brings, or that the journal keeps, under the file's digest.
    Bytes,
    /// A new inode with the bytes of another place; counts as present only while it is a *different* inode.
    CopyOf(Place),
    /// A hard link to another place; counts as present only while it is the *same* inode.
    LinkTo(Place),
    /// A new inode with the bytes of the place itself (re-made hard links, facts.md section 2.4).
    Refresh,
}

/// One place goes from one entry to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: Place,
    pub before: Entry,
    pub after: Entry,
    /// What the planner saw at `at`, if a file: checked again immediately before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<FileId>,
    /// Another file that must still be as the planner saw it (the kept file of a merge).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<(Place, FileId)>,
    /// Changes of one group happen together: if one of them can't, none of the group does.
    pub group: u32,
    /// Compiled bytecode: may be made anew by anybody at any time, so drift of it never stops an undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bytecode: bool,
}

/// Ordered changes with the bytes they bring.
///
/// Undo walks them backwards; so a `LinkTo` in a `before` names a place that comes later in `changes` or is not
/// changed at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Physical directories (absolute, no symlink on the way) that everything lies below.
    #[serde(with = "bytes_paths")]
    pub roots: Vec<PathBuf>,
    pub changes: Vec<Change>,
    /// The plain patches that make changes: no recipe tells of them later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PlainPatch>,
    /// New contents by digest. Not part of the journal, which keeps the *old* bytes.
    #[serde(skip)]
    pub contents: std::collections::BTreeMap<Digest, Vec<u8>>,
    /// Old contents by digest, for undo.
    #[serde(skip)]
    pub originals: std::collections::BTreeMap<Digest, Vec<u8>>,
}

/// A patch of a folder, and its files that are changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainPatch {
    pub name: String,
    /// It is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    pub files: Vec<Place>,
}

impl Plan {
    /// The absolute path of a place.
    #[must_use]
    pub fn absolute(&self, place: &Place) -> PathBuf {
        self.roots.get(place.root).map_or_else(PathBuf::new, |root| root.join(place.path.as_path()))
    }

    /// Takes in another plan, whose changes come after those of this one.
    pub fn append(&mut self, other: Self) {
        let roots: Vec<usize> = other.roots.iter().map(|root| self.root(root)).collect();
        let first = self.changes.iter().map(|c| c.group + 1).max().unwrap_or(0);
        let moved = |place: &Place| Place {
            root: roots.get(place.root).copied().unwrap_or(0),
            path: place.path.clone(),
        };
        let entry = |entry: &Entry| match entry {
            Entry::File(file) => {
                let source = match &file.source {
                    Source::CopyOf(place) => Source::CopyOf(moved(place)),
                    Source::LinkTo(place) => Source::LinkTo(moved(place)),
                    other => other.clone(),
                };
                Entry::File(FileEntry { source, ..file.clone() })
            }
            other => other.clone(),
        };
        self.changes.extend(other.changes.iter().map(|change| Change {
            at: moved(&change.at),
            before: entry(&change.before),
            after: entry(&change.after),
            keeps: change.keeps.as_ref().map(|(place, id)| (moved(place), *id)),
            group: change.group + first,
            ..change.clone()
        }));
        self.patches.extend(
            other
                .patches
                .iter()
                .map(|patch| PlainPatch { files: patch.files.iter().map(moved).collect(), ..patch.clone() }),
        );
        self.contents.extend(other.contents);
        self.originals.extend(other.originals);
    }

    /// The indices of the changes of each group.
    #[must_use]
    pub fn groups(&self) -> std::collections::BTreeMap<u32, Vec<usize>> {
        let mut groups = std::collections::BTreeMap::<u32, Vec<usize>>::new();
        for (index, change) in self.changes.iter().enumerate() {
            groups.entry(change.group).or_default().push(index);
        }
        groups
    }

    /// The index of `root`, added if it is new.
    pub fn root(&mut self, root: &Path) -> usize {
        if let Some(at) = self.roots.iter().position(|r| r == root) {
            return at;
        }
        self.roots.push(root.to_path_buf());
        self.roots.len() - 1
    }
}

/// Which part of the SDK a tree is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Core,
    Libraries,
    Profiler,
    Devel,
}

/// One SDK tree: `path` is physical, `name` is how it is called in site-packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub role: Role,
    pub name: std::ffi::OsString,
    pub path: PathBuf,
    pub site_packages: PathBuf,
    pub distribution: Option<Distribution>,
}

/// An installed distribution as its dist-info tells; `name` as written there, not normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    pub name: String,
    pub version: String,
    /// The `*.dist-info` directory, physical.
    pub dist_info: PathBuf,
    /// The site-packages directory that it lies in, physical.
    pub site_packages: PathBuf,
}

/// PEP 503: the form in which names of distributions are compared.
#[must_use]
pub fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.split(['-', '_', '.']).filter(|p| !p.is_empty()) {
        if !out.is_empty() {
            out.push('-');
        }
        out.push_str(&part.to_ascii_lowercase());
    }
    out
}

/// Paths in JSON: a string where it is UTF-8, else `{"base64": "…"}`. Nothing is lost on the way.
pub mod bytes_path {
    use super::{Deserialize, Deserializer, OsStr, Path, PathBuf, Serialize, Serializer};
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use std::os::unix::ffi::OsStrExt as _;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes { base64: String },
    }

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => Form::Text(text.to_owned()).serialize(s),
            None => Form::Bytes { base64: BASE64_STANDARD.encode(path.as_os_str().as_bytes()) }.serialize(s),
        }
    }

    /// # Errors
    /// Those of the deserializer, and bad base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
        Ok(match Form::deserialize(d)? {
            Form::Text(text) => PathBuf::from(text),
            Form::Bytes { base64 } => {
                let bytes = BASE64_STANDARD.decode(base64).map_err(serde::de::Error::custom)?;
                PathBuf::from(OsStr::from_bytes(&bytes))
            }
        })
    }
}

mod bytes_paths {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer, bytes_path};

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "bytes_path")] PathBuf);

    pub fn serialize<S: Serializer>(paths: &[PathBuf], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(paths.iter().map(|p| One(p.clone())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<One>::deserialize(d)?.into_iter().map(|one| one.0).collect())
    }
}

mod base64_bytes {
    use super::{Deserialize, Deserializer, Serializer};
    use base64::prelude::{BASE64_STANDARD, Engine as _};

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel_path_takes_plain_relative_paths_only() {
        for good in ["a", "a/b", "lib/libX.so.1", "..a", "a/..b"] {
            assert!(RelPath::new(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", "/a", "a/../b", "a/./b", "a//b", "a/", "./a", "a\0b"] {
            assert!(RelPath::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn paths_that_are_not_utf8_survive_json() {
        use std::os::unix::ffi::OsStrExt as _;
        let odd = RelPath::new(OsStr::from_bytes(b"lib/\xff.so")).unwrap();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), odd);
    }

    #[test]
    fn names_of_distributions_are_normalised_as_pep_503_says() {
        assert_eq!(normalised("Torch_Memory--Saver"), "torch-memory-saver");
        assert_eq!(normalised("rocm.sdk_core"), "rocm-sdk-core");
    }
}
