//! Paths below a root, and paths in JSON.

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

    #[test]
    fn paths_that_are_not_utf8_survive_json() {
        use std::os::unix::ffi::OsStrExt as _;
        let odd = RelPath::new(OsStr::from_bytes(b"lib/\xff.so")).unwrap();
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(serde_json::from_str::<RelPath>(&json).unwrap(), odd);
    }
}
