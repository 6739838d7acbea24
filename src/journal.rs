//! The journal: what a run is about to do, written and synced before its first change, and what became of it.
//!
//! It lies in `<site-packages>/.rocm-fixup/` and goes with the image. Per run: `NNNN.plan` (before the first change),
//! `NNNN.done` (after the last), `NNNN.undoing` (an undo has begun), and `objects/<blake3>`, the old bytes of files
//! whose content was changed. A run whose undo is complete leaves nothing behind. A journal may never *grant* a
//! write: `undo` compares every path with what is recorded, and roots outside of what was discovered are refused.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::error::{Exit, Hint};
use crate::fsops;
use crate::held::{Dir, Root, Seen};
use crate::model::{Digest, Plan, bytes_path};

/// The directory's name in site-packages.
pub const DIRECTORY: &str = ".rocm-fixup";
/// The longest plan that is read, bytes; a tree of 100,000 changed files stays below it.
const CAP: u64 = 256 << 20;
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
    /// The run before was interrupted, and this one went on from there: undo takes both back.
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

/// The journal of one site-packages directory.
#[derive(Debug)]
pub struct Journal {
    root: Root,
    site_packages: PathBuf,
}

impl Journal {
    /// # Errors
    /// When `site_packages` (physical) can't be opened.
    pub fn open(site_packages: &Path) -> anyhow::Result<Self> {
        Ok(Self { root: Root::open(site_packages)?, site_packages: site_packages.to_path_buf() })
    }

    /// The site-packages directory itself, for its lock.
    #[must_use]
    pub fn site_packages(&self) -> &Dir {
        self.root.itself()
    }

    /// Where the record of a run lies, for people.
    #[must_use]
    pub fn path_of(&self, id: &str) -> PathBuf {
        self.site_packages.join(DIRECTORY).join(format!("{id}.plan"))
    }

    fn dir(&self) -> anyhow::Result<Option<Dir>> {
        match self.root.itself().look(OsStr::new(DIRECTORY)) {
            Ok(Seen::Absent) => Ok(None),
            Ok(Seen::Other("a directory")) => {
                let dir = self.root.dir(Path::new(DIRECTORY));
                let dir = dir.with_context(|| format!("can't open the journal `{}`", self.shown()))?;
                self.trusted(&dir)?;
                Ok(Some(dir))
            }
            Ok(_) => Err(anyhow!("the journal `{}` is not a directory", self.shown()).context(Exit::Refused)),
            Err(error) => Err(anyhow!(error).context(format!("can't look at `{}`", self.shown()))),
        }
    }

    fn shown(&self) -> String {
        self.site_packages.join(DIRECTORY).display().to_string()
    }

    /// A journal speaks for its tree only if nobody but the tree's owner, root or we could have written it.
    fn trusted(&self, dir: &Dir) -> anyhow::Result<()> {
        let stat = |dir: &Dir| rustix::fs::fstat(dir.fd()).map_err(std::io::Error::from);
        let (journal, tree) = (stat(dir)?, stat(self.root.itself())?);
        let us = rustix::process::geteuid().as_raw();
        if ![0, us, tree.st_uid].contains(&journal.st_uid) || journal.st_mode & 0o022 & !tree.st_mode != 0 {
            return Err(anyhow!(
                "the journal `{}` could have been written by others than the owner",
                self.shown()
            )
            .context(Hint::new("look at its owner and mode; if it isn't rocm-fixup's, remove it"))
            .context(Exit::Refused));
        }
        Ok(())
    }

    /// All recorded runs, oldest first.
    ///
    /// # Errors
    /// When the journal can't be read or is damaged: exit code 3, nothing may be undone by it.
    pub fn runs(&self) -> anyhow::Result<Vec<Run>> {
        let Some(dir) = self.dir()? else { return Ok(Vec::new()) };
        let mut ids: Vec<String> = dir
            .names()?
            .iter()
            .filter_map(|name| name.to_str()?.strip_suffix(".plan"))
            .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
            .map(str::to_owned)
            .collect();
        ids.sort_by_key(|id| (id.len(), id.clone()));
        ids.into_iter().map(|id| self.run(&dir, &id)).collect()
    }

    fn run(&self, dir: &Dir, id: &str) -> anyhow::Result<Run> {
        let damaged = |what: String| {
            anyhow!("the journal `{}` {what}", self.path_of(id).display())
                .context(Hint::new(
                    "nothing was changed; restore that file, or remove it to give up undoing that run",
                ))
                .context(Exit::Refused)
        };
        let record: Record = read(dir, &format!("{id}.plan")).map_err(|e| damaged(e.to_string()))?;
        if record.id != id {
            return Err(damaged(format!("says that it is run {}", record.id)));
        }
        let roots = record.plan.roots.len();
        if record.plan.changes.iter().any(|c| c.at.root >= roots) {
            return Err(damaged("names a root that it doesn't have".to_owned()));
        }
        if let Some(root) = record.plan.roots.iter().find(|root| !is_plain(root)) {
            return Err(damaged(format!("names `{}`, which is no physical path", root.display())));
        }
        let ended = match dir.look(OsStr::new(&format!("{id}.done")))? {
            Seen::Absent => None,
            _ => Some(read(dir, &format!("{id}.done")).map_err(|e| damaged(e.to_string()))?),
        };
        let undoing = dir.look(OsStr::new(&format!("{id}.undoing")))? != Seen::Absent;
        let moved = !self.wrote(&record);
        Ok(Run { record, ended, undoing, moved })
    }

    /// Whether the run was made in this place, so that what it recorded is to be found here.
    #[must_use]
    pub fn wrote(&self, record: &Record) -> bool {
        record.site_packages == self.site_packages
    }

    /// Records a plan durably, with the old bytes that its undo needs. Call under the lock, before the first change.
    ///
    /// # Errors
    /// Those of the file system; then nothing was recorded and nothing may be changed.
    pub fn begin(
        &self,
        command: &str,
        recipe: Option<&str>,
        continues: bool,
        plan: Plan,
    ) -> anyhow::Result<Record> {
        let next = self.runs()?.last().map_or(1, |run| run.record.id.parse::<u64>().unwrap_or(0) + 1);
        let record = Record {
            id: format!("{next:04}"),
            command: command.to_owned(),
            recipe: recipe.map(str::to_owned),
            started: jiff::Timestamp::now().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            site_packages: self.site_packages.clone(),
            continues,
            plan,
        };
        let wrote = || -> anyhow::Result<()> {
            fsops::make_dir(self.root.itself(), OsStr::new(DIRECTORY))?;
            fsops::sync_dir(self.root.itself())?;
            let dir = self.dir()?.ok_or_else(|| anyhow!("it vanished"))?;
            self.keep_originals(&dir, &record.plan)?;
            write(&dir, &format!("{}.plan", record.id), &record)?;
            Ok(fsops::sync_dir(&dir)?)
        };
        wrote().with_context(|| format!("can't write the journal `{}`", self.shown())).inspect_err(|_| {
            // Nothing was changed yet: leave no trace, as far as that can be done now. Without a sync of the root: one
            // that failed a moment ago must not be tried again.
            let _ = self.forget_files(&record);
        })?;
        Ok(record)
    }

    fn keep_originals(&self, dir: &Dir, plan: &Plan) -> anyhow::Result<()> {
        if plan.originals.is_empty() {
            return Ok(());
        }
        fsops::make_dir(dir, OsStr::new("objects"))?;
        let objects = self.root.dir(&Path::new(DIRECTORY).join("objects"))?;
        for (digest, bytes) in &plan.originals {
            fsops::write_whole(&objects, OsStr::new(&digest.to_hex()), bytes, 0o600)?;
        }
        Ok(fsops::sync_dir(&objects)?)
    }

    /// The old bytes with this digest.
    ///
    /// # Errors
    /// When they are missing or damaged.
    pub fn original(&self, digest: Digest) -> anyhow::Result<Vec<u8>> {
        let path = Path::new(DIRECTORY).join("objects");
        let objects = self.root.dir(&path).context("the journal has no objects")?;
        let mut bytes = Vec::new();
        objects.open(OsStr::new(&digest.to_hex()))?.take(CAP).read_to_end(&mut bytes)?;
        if Digest::of(&bytes) == digest {
            return Ok(bytes);
        }
        bail!("`{}` in the journal is damaged", objects.named(OsStr::new(&digest.to_hex())).display())
    }

    /// # Errors
    /// Those of the file system.
    pub fn finish(&self, record: &Record, ended: Ended) -> anyhow::Result<()> {
        self.mark(record, "done", &ended)
    }

    /// # Errors
    /// Those of the file system.
    pub fn begin_undo(&self, record: &Record) -> anyhow::Result<()> {
        self.mark(record, "undoing", &())
    }

    /// A run of which nothing lies about any more, though not all of it is made or undone: it stays recorded.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn settle(&self, record: &Record, ended: Ended) -> anyhow::Result<()> {
        self.finish(record, ended)?;
        let dir = self.dir()?.ok_or_else(|| anyhow!("the journal vanished"))?;
        fsops::unlink(&dir, OsStr::new(&format!("{}.undoing", record.id)))?;
        Ok(fsops::sync_dir(&dir)?)
    }

    fn mark<T: Serialize>(&self, record: &Record, suffix: &str, value: &T) -> anyhow::Result<()> {
        let write = || -> anyhow::Result<()> {
            let dir = self.dir()?.ok_or_else(|| anyhow!("it vanished"))?;
            write(&dir, &format!("{}.{suffix}", record.id), value)?;
            Ok(fsops::sync_dir(&dir)?)
        };
        write().with_context(|| format!("can't write the journal `{}`", self.shown()))
    }

    /// Removes a run that is wholly undone, and the journal with its last run.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn forget(&self, record: &Record) -> anyhow::Result<()> {
        let forget = || -> anyhow::Result<()> {
            self.forget_files(record)?;
            Ok(fsops::sync_dir(self.root.itself())?)
        };
        forget().with_context(|| format!("can't tidy the journal `{}`", self.shown()))
    }

    fn forget_files(&self, record: &Record) -> anyhow::Result<()> {
        let Some(dir) = self.dir()? else { return Ok(()) };
        // The plan goes first: without it the rest means nothing, while a plan without its objects can't be undone.
        for suffix in ["plan", "plan.part", "done", "done.part", "undoing", "undoing.part"] {
            fsops::unlink(&dir, OsStr::new(&format!("{}.{suffix}", record.id)))?;
        }
        fsops::sync_dir(&dir)?;
        self.forget_rest(&dir)
    }

    /// Removes old bytes that no run needs, and the journal if no run is left.
    fn forget_rest(&self, dir: &Dir) -> anyhow::Result<()> {
        if dir.look(OsStr::new("objects"))? != Seen::Absent {
            let needed = self.needed_objects()?;
            let objects = self.root.dir(&Path::new(DIRECTORY).join("objects"))?;
            for name in objects.names()? {
                if !needed.contains(&name) {
                    fsops::unlink(&objects, &name)?;
                }
            }
            fsops::remove_empty_dir(dir, OsStr::new("objects"))?;
        }
        fsops::remove_empty_dir(self.root.itself(), OsStr::new(DIRECTORY))?;
        Ok(())
    }

    /// Removes what no recorded run explains: what a kill left of a record that was being made or forgotten. An old
    /// `NNNN.done` would otherwise speak for a new run of that number. Call under the lock.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sweep(&self) -> anyhow::Result<()> {
        let Some(dir) = self.dir()? else { return Ok(()) };
        let plans: Vec<String> = self.runs()?.into_iter().map(|run| run.record.id).collect();
        let mut swept = false;
        for name in dir.names()? {
            let Some((id, suffix)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
            let numbered = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
            let half = suffix.ends_with(".part");
            if numbered && suffix != "plan" && (half || !plans.iter().any(|plan| plan == id)) {
                fsops::unlink(&dir, &name).with_context(|| format!("can't tidy `{}`", self.shown()))?;
                swept = true;
            }
        }
        let objects = dir.look(OsStr::new("objects"))? != Seen::Absent;
        if plans.is_empty() || (objects && self.has_stale_object()?) {
            let doing = || format!("can't tidy `{}`", self.shown());
            self.forget_rest(&dir).with_context(doing)?;
            return fsops::sync_dir(self.root.itself()).with_context(doing);
        }
        if swept { Ok(fsops::sync_dir(&dir)?) } else { Ok(()) }
    }

    fn has_stale_object(&self) -> anyhow::Result<bool> {
        let needed = self.needed_objects()?;
        let objects = self.root.dir(&Path::new(DIRECTORY).join("objects"))?;
        Ok(objects.names()?.iter().any(|name| !needed.contains(name)))
    }

    fn needed_objects(&self) -> anyhow::Result<Vec<OsString>> {
        use crate::model::{Entry, Source};
        let bytes = |entry: &Entry| match entry {
            Entry::File(file) if file.source == Source::Bytes => file.digest,
            _ => None,
        };
        let runs = self.runs()?;
        let changes = runs.iter().flat_map(|run| &run.record.plan.changes);
        Ok(changes.filter_map(|c| bytes(&c.before)).map(|d| OsString::from(d.to_hex())).collect())
    }
}

/// Absolute, and without `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// One line with magic, length and checksum, then JSON: a torn, cut or flipped record is told from a whole one.
fn write<T: Serialize>(dir: &Dir, name: &str, value: &T) -> anyhow::Result<()> {
    let body = serde_json::to_vec(value)?;
    let mut bytes = format!("{MAGIC} {} {}\n", body.len(), Digest::of(&body).to_hex()).into_bytes();
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    Ok(fsops::write_whole(dir, OsStr::new(name), &bytes, 0o644)?)
}

fn read<T: for<'de> Deserialize<'de>>(dir: &Dir, name: &str) -> anyhow::Result<T> {
    let file: File = dir.open(OsStr::new(name)).context("can't be read")?;
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
pub fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> anyhow::Result<T> {
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
