//! Takes runs out of the journal, and what a kill left in it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Context as _;

use super::{DIRECTORY, Journal, Record};
use crate::fsops;
use crate::held::{Dir, Seen};

impl Journal {
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

    pub(super) fn forget_files(&self, record: &Record) -> anyhow::Result<()> {
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
