//! What a recipe says: the nouns of `[dedup]`, `[[patch]]`, `[[require]]`, `[[smoke]]`, `[[library]]`, `[[allow]]`.
//!
//! Only values and their shape. `read` turns text into them, `check` knows which values make sense, `when` tells
//! whether an entry applies, `embedded` holds the recipes that come with the program. Nothing here opens a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::patch::sha::Sha256;
use crate::patch::verdict::Known;

mod check;
pub mod embedded;
mod glob;
mod mistake;
mod patches;
mod read;
#[cfg(test)]
mod schema;
pub mod when;

pub use glob::glob_matches;
pub use mistake::Mistake;
pub use patches::check_patches;
pub use read::{SIZE_CAP, check, read};
pub use when::When;

/// A whole recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields, rename_all = "kebab-case"))]
#[serde(rename_all = "kebab-case")]
pub struct Recipe {
    /// Stable kebab-case name; the journal records it.
    pub name: String,
    /// One line for `recipe list`.
    pub description: String,
    /// Merging of the SDK's duplicate libraries.
    #[cfg_attr(test, schemars(default))]
    pub dedup: Dedup,
    #[cfg_attr(test, schemars(default))]
    pub patch: Vec<Patch>,
    #[cfg_attr(test, schemars(default))]
    pub require: Vec<Require>,
    #[cfg_attr(test, schemars(default))]
    pub smoke: Vec<Smoke>,
    /// Shared libraries that `smoke --libraries` doesn't open.
    #[cfg_attr(test, schemars(default))]
    pub library: Vec<Library>,
    #[cfg_attr(test, schemars(default))]
    pub allow: Vec<Allow>,
}

/// How the SDK's duplicate libraries are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Dedup {
    pub enabled: bool,
    /// Re-make split device entries as hard links.
    pub device_links: bool,
    /// Leave hard links between trees: for installs that never become an image.
    pub keep_hard_links: bool,
}

impl Default for Dedup {
    fn default() -> Self {
        Self { enabled: true, device_links: false, keep_hard_links: false }
    }
}

/// One change of an installed package, in a variant for each of its known versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Patch {
    pub name: String,
    /// Why the patch is there, in one sentence.
    pub reason: String,
    /// Where upstream deals with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The patch file of the variants that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Leading components that names in the patch files lose.
    #[serde(default = "one")]
    pub strip: usize,
    pub target: Target,
    /// Versions for which there is nothing to patch yet (PEP 440 specifiers).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    /// Versions that bring the change themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_upstream: Option<String>,
    /// Directories whose content was made from the unpatched files and is used again; the first one that can be
    /// told is looked at. `$NAME/…` starts with an environment variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_cache: Vec<String>,
    pub variant: Vec<Variant>,
    /// Contents for which there is nothing to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownContent>,
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
}

fn one() -> usize {
    1
}

/// Where the files are that a patch changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    pub distribution: String,
    /// Directories that the patch's names are relative to, the one in use first. A relative one lies below
    /// site-packages, `$NAME/…` starts with an environment variable. What isn't there is passed over.
    pub roots: Vec<String>,
    /// A file that tells that a root is what it is taken for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// What to do with roots beyond the first one found.
    #[serde(default)]
    pub second_copy: SecondCopy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecondCopy {
    #[default]
    Patch,
    Report,
}

/// The patch as it is for some versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    /// PEP 440 specifiers; for messages and for content that nobody knows. The hashes decide.
    pub versions: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// All files that the patch file changes.
    pub files: Vec<FileHashes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileHashes {
    pub path: String,
    /// SHA-256 before the patch; missing for a file that the patch makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub before: Option<Sha256>,
    /// SHA-256 after the patch; missing for a file that the patch deletes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub after: Option<Sha256>,
    /// Bytes before the patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl FileHashes {
    #[must_use]
    pub fn known(&self) -> Known {
        Known { before: self.before, after: self.after }
    }
}

/// A file content for which there is nothing to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownContent {
    pub path: String,
    #[cfg_attr(test, schemars(with = "String"))]
    pub sha256: Sha256,
    pub state: KnownState,
    pub versions: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KnownState {
    NotApplicable,
    FixedUpstream,
}

/// A pin or floor that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Require {
    pub name: String,
    /// As on the command line: `pybind11<3.1.0`, `glibc>=2.39`, `torch+rocm`, `NAME@COMMIT`.
    pub rule: String,
    pub reason: String,
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
}

/// An import that must work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Smoke {
    pub name: String,
    pub module: String,
    /// Modules imported before it, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preload: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Seconds.
    #[serde(default = "two_minutes")]
    pub timeout: u64,
    /// Passes where the import only fails for want of a GPU.
    #[serde(default)]
    pub gpu_optional: bool,
    pub reason: String,
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
}

fn two_minutes() -> u64 {
    120
}

/// Shared libraries that can't be opened on their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Library {
    /// Matched against the path below the tree: `*` and `?` within a component, `**` across.
    pub glob: String,
    pub reason: String,
}

/// A finding that is known and accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Allow {
    /// The name of the check, patch or reason.
    pub name: String,
    pub reason: String,
    /// The last day on which it counts, as `2026-12-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The schema of what [`one_or_many`] reads.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// One string, or a list of them.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    struct Strings;
    impl<'de> serde::de::Visitor<'de> for Strings {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string or a list of strings")
        }
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut out = Vec::new();
            while let Some(text) = seq.next_element()? {
                out.push(text);
            }
            Ok(out)
        }
    }
    d.deserialize_any(Strings)
}
