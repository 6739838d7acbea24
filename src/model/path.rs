//! Paths below a root, and paths in JSON.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path below a root: never absolute, never empty, without `.` or `..` (patching.md, cases 18 to 20). In order of its
/// components, as `Path` is; but compared by bytes, which is several times faster and the same for such plain paths.
#[derive(Clone, Debug)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// Takes `path` if it names something below a root by normal components only, and is spelled out as `a/b` is;
    /// `None` otherwise.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        (!bytes.contains(&0) && bytes.split(|&byte| byte == b'/').all(plain))
            .then(|| Self(path.to_path_buf()))
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }

    /// What is before and behind the last slash.
    fn split(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes();
        let slash = bytes.iter().rposition(|&byte| byte == b'/');
        slash.map_or((b"", bytes), |at| (&bytes[..at], &bytes[at + 1..]))
    }

    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The last component.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.split().1)
    }

    /// The directory that holds it, relative to the root; empty for something directly below the root.
    #[must_use]
    pub fn parent(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.split().0))
    }

    /// The same directory, another last component. `None` where `name` isn't one normal component.
    #[must_use]
    pub fn sibling(&self, name: impl AsRef<OsStr>) -> Option<Self> {
        Self::new(self.parent().join(name.as_ref()))
    }
}

impl PartialEq for RelPath {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for RelPath {}

impl Hash for RelPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl PartialOrd for RelPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RelPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.bytes(), other.bytes());
        // Neighbours have long beginnings in common, which a word at a time is told quickest.
        let words = ours.chunks_exact(16).zip(theirs.chunks_exact(16));
        let common = 16 * words.take_while(|(ours, theirs)| ours == theirs).count();
        // The end of a component comes before all that could go on in it; no path has a zero byte.
        let ranked = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        ours[common..].iter().map(ranked).cmp(theirs[common..].iter().map(ranked))
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

pub mod bytes_paths {
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

    proptest::proptest! {
        #[test]
        fn rel_paths_are_taken_cut_and_ordered_as_std_does(
            common in "(lib/libexecutable-[a/]{0,30})?", a in "[a./ -]{0,8}", b in "[a./ -]{0,8}"
        ) {
            let (a, b) = (format!("{common}{a}"), format!("{common}{b}"));
            for text in [&a, &b] {
                let path = Path::new(text);
                let spelled = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
                let normal = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                let taken = RelPath::new(path);
                assert_eq!(taken.is_some(), spelled && normal && !text.is_empty(), "{text}");
                if let Some(taken) = taken {
                    assert_eq!((Some(taken.parent()), Some(taken.name())), (path.parent(), path.file_name()));
                }
            }
            if let (Some(left), Some(right)) = (RelPath::new(&a), RelPath::new(&b)) {
                assert_eq!(left.cmp(&right), Path::new(&a).cmp(Path::new(&b)), "{a} {b}");
                assert_eq!(left == right, a == b);
            }
        }
    }

    #[test]
    fn paths_that_are_not_utf8_survive_json() {
        let odd = RelPath::new(OsStr::from_bytes(b"lib/\xff.so")).unwrap();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), odd);
    }
}
