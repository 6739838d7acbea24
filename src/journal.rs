//! The journal: what a run is about to do, written and synced before its first change, and what became of it.
//!
//! It lies in `<site-packages>/.rocm-fixup/` and goes with the image. Per run: `NNNN.plan` (before the first change),
//! `NNNN.done` (after the last), `NNNN.undoing` (an undo has begun), and `objects/<blake3>`, the old bytes of files
//! whose content was changed. A run whose undo is complete leaves nothing behind. A journal may never *grant* a
//! write: `undo` compares every path with what is recorded, and roots outside of what was discovered are refused.

mod forget;
mod order;
mod record;

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Exit, Hint};
use crate::fsops;
use crate::held::{Dir, Root, Seen};
use crate::model::{Digest, Plan};

pub use order::in_order;
use record::{CAP, read, write};
pub use record::{Ended, Record, Run, parse};

/// The directory's name in site-packages.
pub const DIRECTORY: &str = ".rocm-fixup";

/// Whether `path` lies in a journal, or is or lies in a stage, whose names begin alike: nothing else may write there.
#[must_use]
pub fn is_ours(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_bytes().starts_with(DIRECTORY.as_bytes()))
}

/// Why a path is refused that [`is_ours`].
pub const OURS: &str = "lies in the journal of this program, or is a stage of it";

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
                self.trusted(dir.fd(), &self.shown())?;
                Ok(Some(dir))
            }
            Ok(_) => Err(anyhow!("the journal `{}` is not a directory", self.shown()).context(Exit::Refused)),
            Err(error) => Err(anyhow!(error).context(format!("can't look at `{}`", self.shown()))),
        }
    }

    fn shown(&self) -> String {
        self.site_packages.join(DIRECTORY).display().to_string()
    }

    /// A journal speaks for its tree only if nobody but the tree's owner, root or we could have written it: its
    /// directory, and each file that is read, which can be another's in a directory of root.
    fn trusted(&self, opened: impl AsFd, shown: &str) -> anyhow::Result<()> {
        let stat = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map_err(std::io::Error::from);
        let (journal, tree) = (stat(opened.as_fd())?, stat(self.root.itself().fd())?);
        let us = rustix::process::geteuid().as_raw();
        if ![0, us, tree.st_uid].contains(&journal.st_uid) || journal.st_mode & 0o022 & !tree.st_mode != 0 {
            return Err(anyhow!("the journal `{shown}` could have been written by others than the owner")
                .context(Hint::new("see whether it is as rocm-fixup left it; then `chmod go-w` and `chown` it, else remove it"))
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
        let record: Record = self.read(dir, id, "plan")?;
        if let Some(flaw) = record.flaw(id) {
            return Err(self.damaged(id, &flaw));
        }
        let there =
            |suffix: &str| dir.look(OsStr::new(&format!("{id}.{suffix}"))).map(|seen| seen != Seen::Absent);
        let ended = if there("done")? { Some(self.read(dir, id, "done")?) } else { None };
        let undoing = there("undoing")?;
        let moved = !self.wrote(&record);
        Ok(Run { record, ended, undoing, moved })
    }

    /// Reads one file of a run, if nobody else could have written it.
    fn read<T: DeserializeOwned>(&self, dir: &Dir, id: &str, suffix: &str) -> anyhow::Result<T> {
        let name = format!("{id}.{suffix}");
        let damaged = |error: anyhow::Error| self.damaged(id, &error.to_string());
        let file = dir.open(OsStr::new(&name)).context("can't be read").map_err(damaged)?;
        self.trusted(&file, &dir.named(OsStr::new(&name)).display().to_string())?;
        read(file).map_err(damaged)
    }

    fn damaged(&self, id: &str, what: &str) -> anyhow::Error {
        anyhow!("the journal `{}` {what}", self.path_of(id).display())
            .context(Hint::new(format!(
                "nothing was changed; restore that file, or remove it to give up undoing that run: what is called \
                 `.rocm-fixup-{id}-*` in the trees may then be the only copy of a file"
            )))
            .context(Exit::Refused)
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
}
