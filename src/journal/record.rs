//! What is written of a run, and its form on disk: one line with magic, length and checksum, then JSON.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fsops;
use crate::held::Dir;
use crate::model::{Change, Digest, Entry, Plan, bytes_path};

/// The longest plan that is read, bytes; a tree of 100,000 changed files stays below it.
pub const CAP: u64 = 256 << 20;
const MAGIC: &str = "rocm-fixup-journal 1";

/// The head of a run's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// RFC 3339.
    pub started: String,
    pub version: String,
    /// Where the journal was written: a copy of it in another place takes nothing back there.
    #[serde(with = "bytes_path")]
    pub site_packages: PathBuf,
    /// The run before was stopped, and this one [went on](Record::is_gone_on_by) from there: undo takes both back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    pub plan: Plan,
}

impl Record {
    /// When the run started, in whole seconds since the epoch: the mtime that its re-made files get.
    #[must_use]
    pub fn started_second(&self) -> i64 {
        self.started.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
    }

    /// What this record, found under the number `id`, says that no run ever wrote.
    #[must_use]
    pub fn flaw(&self, id: &str) -> Option<String> {
        let (roots, changes) = (&self.plan.roots, &self.plan.changes);
        if self.id != id {
            return Some(format!("says that it is run {}", self.id));
        }
        if changes.iter().any(|change| change.at.root >= roots.len()) {
            return Some("names a root that it doesn't have".to_owned());
        }
        if let Some(root) = roots.iter().find(|root| !is_plain(root)) {
            return Some(format!("names `{}`, which is no physical path", root.display()));
        }
        // What is at such a path is replaced whatever it is.
        let other = changes.iter().find(|change| change.bytecode && !removes_bytecode(change));
        other.map(|change| format!("calls `{}` compiled bytecode that was removed", change.at.path))
    }

    /// Whether a plan goes on from this run, which was stopped: it is of the same kind, and makes something that this one
    /// had set out to make. Whatever else comes after it is a run of its own, to be taken back alone.
    #[must_use]
    pub fn is_gone_on_by(&self, command: &str, recipe: Option<&str>, plan: &Plan) -> bool {
        if self.command != command || self.recipe.as_deref() != recipe {
            return false;
        }
        let ours: HashMap<PathBuf, &Entry> = makes(&self.plan).collect();
        makes(plan).any(|(path, entry)| ours.get(&path).is_some_and(|our| are_alike(our, entry)))
    }
}

/// What a plan makes, by path. Without bytecode, which anybody makes anew, so that any run may remove it again.
fn makes(plan: &Plan) -> impl Iterator<Item = (PathBuf, &Entry)> {
    let lasting = plan.changes.iter().filter(|change| !change.bytecode);
    lasting.map(|change| (plan.absolute(&change.at), &change.after))
}

/// Whether two runs that leave these at a path had the same in mind. By what was made until then, links may lead elsewhere
/// and bytes come from elsewhere.
fn are_alike(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::File(a), Entry::File(b)) => {
            a.size == b.size && a.digest.zip(b.digest).is_none_or(|(a, b)| a == b)
        }
        (Entry::Symlink { .. }, Entry::Symlink { .. }) | (Entry::Absent, Entry::Absent) => true,
        _ => false,
    }
}

/// Absolute, and without `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// A run does nothing else with bytecode than to remove it where interpreters put it.
fn removes_bytecode(change: &Change) -> bool {
    let path = change.at.path.as_path();
    let cached = path.parent().is_some_and(|dir| dir.ends_with("__pycache__"));
    cached && path.extension() == Some(OsStr::new("pyc")) && change.after == Entry::Absent
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Every change of the plan was made.
    Complete,
    /// Some were refused; those that were made are in place.
    Partial,
    /// An error or a kill stopped it; what was made until then is in place. The next run goes on from there.
    Stopped,
}

/// A recorded run and where it stands.
#[derive(Clone, Debug)]
pub struct Run {
    pub record: Record,
    /// `None`: it was interrupted.
    pub ended: Option<Ended>,
    /// An undo of it has begun.
    pub undoing: bool,
    /// It was written in another place, and the tree was copied here since, as by `COPY --from`. It grants nothing here.
    pub moved: bool,
}

impl Run {
    /// Neither finished nor whole: staged files of it may lie about.
    #[must_use]
    pub fn unsettled(&self) -> bool {
        self.ended.is_none() || self.undoing
    }
}

/// One line with magic, length and checksum, then JSON: a torn, cut or flipped record is told from a whole one.
pub fn write<T: Serialize>(dir: &Dir, name: &str, value: &T) -> anyhow::Result<()> {
    let body = serde_json::to_vec(value)?;
    let mut bytes = format!("{MAGIC} {} {}\n", body.len(), Digest::of(&body).to_hex()).into_bytes();
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    Ok(fsops::write_whole(dir, OsStr::new(name), &bytes, 0o644)?)
}

pub fn read<T: DeserializeOwned>(file: File) -> anyhow::Result<T> {
    if file.metadata()?.size() > CAP {
        bail!("is too long");
    }
    let mut bytes = Vec::new();
    file.take(CAP).read_to_end(&mut bytes).context("can't be read")?;
    parse(&bytes)
}

/// Reads one record; public for the fuzz target.
///
/// # Errors
/// When anything of it isn't as [`write`] made it.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> anyhow::Result<T> {
    let end = bytes.iter().position(|b| *b == b'\n').ok_or_else(|| anyhow!("is cut short"))?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| anyhow!("is damaged"))?;
    let body = bytes[end + 1..].strip_suffix(b"\n").ok_or_else(|| anyhow!("is cut short"))?;
    let rest = head.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(' '));
    let Some(rest) = rest else { bail!("is not one that this version reads (its first line is unknown)") };
    if rest != format!("{} {}", body.len(), Digest::of(body).to_hex()) {
        bail!("is damaged: its length or checksum doesn't fit");
    }
    serde_json::from_slice(body).context("can't be understood")
}
