//! Makes the changes of a plan, group by group, each group whole or not at all. The journal must hold the plan
//! already. Never decides what is to be changed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::error::message;
use crate::fsops;
use crate::ground::{Drift, Ground, Swap, Swapped, is_big, is_taken, stage_name};
use crate::held::{self, Seen};
use crate::journal::{Ended, Journal, Record};
use crate::model::{Change, Entry, FileId, Place, Source};
use crate::undo;

/// A change that was not made, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub index: usize,
    pub path: PathBuf,
    pub reason: String,
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Indices of the changes that were made.
    pub made: Vec<usize>,
    pub refused: Vec<Refused>,
    /// What stopped the run before its end. What was made until then stays, and is recorded.
    pub failed: Option<anyhow::Error>,
}

/// Makes the recorded changes. `progress` is told the index of each change that was made.
///
/// # Errors
/// When not even the roots can be opened; all later trouble is in the outcome.
pub fn apply(record: &Record, journal: &Journal, mut progress: impl FnMut(usize)) -> anyhow::Result<Outcome> {
    let mut makers = HashMap::new();
    for (index, change) in record.plan.changes.iter().enumerate() {
        makers.entry((change.group, &change.at)).or_insert(index);
    }
    let mut run =
        Run { ground: Ground::open(record, journal)?, id: &record.id, made: HashMap::new(), makers };
    let mut outcome = Outcome::default();
    let mut clean = true;
    for indices in record.plan.groups().values() {
        match run.group(indices) {
            Ok(Ok(())) => {
                outcome.made.extend(indices);
                indices.iter().for_each(|index| progress(*index));
            }
            Ok(Err((index, reason))) => {
                let path = record.plan.absolute(&record.plan.changes[index].at);
                outcome.refused.push(Refused { index, path, reason });
            }
            Err(Broken { error, rolled_back }) => {
                outcome.failed = Some(error);
                clean = rolled_back;
                break;
            }
        }
    }
    if let Err(error) = run.ground.sync() {
        outcome.failed.get_or_insert(error);
        return Ok(outcome); // no "done": whether the changes will last is not known
    }
    let ended = match () {
        () if !clean => return Ok(outcome), // the next run, or undo, finds it unfinished and tidies up
        () if outcome.made.is_empty() => journal.forget(record),
        () if outcome.failed.is_some() => journal.finish(record, Ended::Stopped),
        () if outcome.refused.is_empty() => journal.finish(record, Ended::Complete),
        () => journal.finish(record, Ended::Partial),
    };
    if let Err(error) = ended {
        outcome.failed.get_or_insert(error);
    }
    Ok(outcome)
}

/// An error in the middle of a group.
struct Broken {
    error: anyhow::Error,
    rolled_back: bool,
}

struct Run<'a> {
    ground: Ground<'a>,
    id: &'a str,
    /// Files that this run has made, as they were then.
    made: HashMap<Place, FileId>,
    /// The first change of a group at a place.
    makers: HashMap<(u32, &'a Place), usize>,
}

/// How far a group has come.
#[derive(Default)]
struct Progress {
    staged: Vec<usize>,
    swapped: Vec<(usize, Swapped)>,
    /// Every change is in place; only old entries are left to remove.
    made: bool,
}

impl Run<'_> {
    fn change(&self, index: usize) -> &Change {
        &self.ground.plan.changes[index]
    }

    fn stage(&self, index: usize) -> OsString {
        stage_name(self.id, index, false)
    }

    /// One group: look, stage, swap, and only then remove the old entries.
    fn group(&mut self, indices: &[usize]) -> Result<Result<(), (usize, Drift)>, Broken> {
        let mut progress = Progress::default();
        let result = self.try_group(indices, &mut progress);
        match result {
            Ok(Ok(())) => Ok(Ok(())),
            Ok(Err(drift)) => match self.roll_back(&progress) {
                Ok(()) => Ok(Err(drift)),
                Err(error) => Err(Broken { error, rolled_back: false }),
            },
            Err(error) if progress.made => Err(Broken { error, rolled_back: false }),
            Err(error) => match self.roll_back(&progress) {
                Ok(()) => Err(Broken { error, rolled_back: !self.is_left(indices) }),
                Err(second) => {
                    let error = error.context(format!("and then, taking it back: {}", message(&second)));
                    Err(Broken { error, rolled_back: false })
                }
            },
        }
    }

    fn try_group(
        &mut self,
        indices: &[usize],
        progress: &mut Progress,
    ) -> anyhow::Result<Result<(), (usize, Drift)>> {
        for index in indices {
            if let Err(drift) = self.check(*index)? {
                return Ok(Err((*index, drift)));
            }
        }
        for index in indices {
            if !self.is_link(*index) {
                self.stage_one(*index, progress)?;
            }
        }
        for index in indices {
            if self.is_link(*index) {
                self.stage_one(*index, progress)?;
            }
            let swapped = match self.swap_one(*index)? {
                Ok(swapped) => swapped,
                Err(drift) => return Ok(Err((*index, drift))),
            };
            let at = self.change(*index).at.clone();
            let out = self.ground.came_out(&at, &self.stage(*index), &swapped);
            progress.swapped.push((*index, swapped));
            if let Err(drift) = out? {
                return Ok(Err((*index, drift)));
            }
            if let Seen::File { id, .. } = self.ground.look(&at)? {
                self.made.insert(at, id);
            }
        }
        for (index, swapped) in &progress.swapped {
            if let Err(drift) = self.still_old(*index, swapped.how)? {
                return Ok(Err((*index, drift)));
            }
        }
        // From here on the group is made: an old entry that can't be removed is tidied up later.
        progress.made = true;
        for index in std::mem::take(&mut progress.staged) {
            self.ground.discard(&self.change(index).at, &self.stage(index))?;
        }
        Ok(Ok(()))
    }

    /// A hard link can be staged only when what it links to is in place, which may be the change before it.
    fn is_link(&self, index: usize) -> bool {
        matches!(&self.change(index).after, Entry::File(file) if matches!(file.source, Source::LinkTo(_)))
    }

    /// Whether everything is still as the planner saw it.
    fn check(&self, index: usize) -> anyhow::Result<Result<(), Drift>> {
        let change = self.change(index);
        let doing = || format!("can't look at `{}`", self.ground.plan.absolute(&change.at).display());
        let now = match self.ground.look(&change.at) {
            Err(error) if held::is_link_on_the_way(&error) => {
                return Ok(Err("a symlink or file is on its way now".to_owned()));
            }
            now => now.with_context(doing)?,
        };
        let as_planned = match (&now, &change.before, &change.seen) {
            (Seen::File { id, .. }, Entry::File(_), Some(seen)) => self.ground.unchanged(id, seen),
            (_, before, _) => self.ground.holds(&change.at, before, None)?,
        };
        if !as_planned {
            return Ok(Err("it changed since it was looked at".to_owned()));
        }
        self.still_kept(index)
    }

    /// Whether the file that a change relies on is still as the planner saw it, or as this run made it.
    fn still_kept(&self, index: usize) -> anyhow::Result<Result<(), Drift>> {
        let Some((kept, seen)) = &self.change(index).keeps else { return Ok(Ok(())) };
        if self.will_be_made(index, kept) {
            return Ok(Ok(()));
        }
        let shown = self.ground.plan.absolute(kept);
        let now = self.ground.look(kept).with_context(|| format!("can't look at `{}`", shown.display()))?;
        let wanted = self.made.get(kept).unwrap_or(seen);
        Ok(match now {
            Seen::File { id, .. } if self.ground.unchanged(&id, wanted) => Ok(()),
            _ => Err(format!("`{}` changed since it was looked at", shown.display())),
        })
    }

    /// Whether a change of the same group makes the kept file, and hasn't yet: it is looked at when that is done.
    fn will_be_made(&self, index: usize, kept: &Place) -> bool {
        let maker = self.makers.get(&(self.change(index).group, kept));
        !self.made.contains_key(kept) && maker.is_some_and(|maker| *maker < index)
    }

    fn stage_one(&mut self, index: usize, progress: &mut Progress) -> anyhow::Result<()> {
        let change = self.change(index).clone();
        let staged = self.ground.stage(&change.at, &self.stage(index), &change.after, false);
        if !staged.as_ref().is_err_and(is_taken) {
            progress.staged.push(index);
        }
        staged
    }

    fn swap_one(&mut self, index: usize) -> anyhow::Result<Result<Swapped, Drift>> {
        let change = self.change(index).clone();
        if let Err(drift) = self.check(index)? {
            return Ok(Err(drift));
        }
        let old = self.ground.look(&change.at)?;
        self.ground.mark_dirty(&change.at);
        let big = is_big(&change.before);
        self.ground.swap(&change.at, &self.stage(index), old, &change.after, big)
    }

    /// The last look before an old file goes: nobody may have written to it since, nor taken the one away that stays.
    fn still_old(&self, index: usize, swap: Swap) -> anyhow::Result<Result<(), Drift>> {
        let change = self.change(index);
        let (Some(seen), Swap::Exchanged | Swap::Removed) = (&change.seen, swap) else { return Ok(Ok(())) };
        let out = self.ground.dir(&change.at)?.look(&self.stage(index))?;
        match out {
            Seen::File { id, .. } if (id.size, id.mtime) == (seen.size, seen.mtime) => self.still_kept(index),
            _ => Ok(Err("it was written to meanwhile".to_owned())),
        }
    }

    fn roll_back(&mut self, progress: &Progress) -> anyhow::Result<()> {
        let mut stuck: Option<anyhow::Error> = None;
        let mut keep = Vec::new();
        for (index, swapped) in progress.swapped.iter().rev() {
            if let Err(error) = self.take_back(*index, swapped) {
                stuck.get_or_insert(error);
                keep.push(*index);
            }
        }
        for index in progress.staged.iter().filter(|index| !keep.contains(index)) {
            let (at, stage) = (&self.change(*index).at, self.stage(*index));
            self.ground.discard(at, &stage)?;
            self.ground.discard(at, &fsops::part_of(&stage))?;
        }
        stuck.map_or(Ok(()), Err)
    }

    /// Whether a new entry is in place all the same, or nobody can tell: a call may fail that has done its work, such as a
    /// rename over the network, or the removal of the old name after a link where no rename will do.
    fn is_left(&self, indices: &[usize]) -> bool {
        indices.iter().map(|index| self.change(*index)).any(|change| {
            let is = |entry| self.ground.holds(&change.at, entry, change.seen.as_ref());
            !matches!(is(&change.before), Ok(true)) && !matches!(is(&change.after), Ok(false))
        })
    }

    fn take_back(&mut self, index: usize, swapped: &Swapped) -> anyhow::Result<()> {
        let at = self.change(index).at.clone();
        self.made.remove(&at);
        if swapped.how != Swap::Replaced {
            return self.ground.swap_back(&at, &self.stage(index), swapped);
        }
        match undo::step(&mut self.ground, self.id, index)? {
            None => Ok(()),
            Some(refused) => bail!("`{}`: {refused}", self.ground.plan.absolute(&at).display()),
        }
    }
}
