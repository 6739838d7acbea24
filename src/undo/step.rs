//! One change taken back, or the reason why not.

use anyhow::Context as _;

use super::Pretend;
use super::gone::no_directory;
use crate::error::hinted;
use crate::ground::{Ground, Swap, is_big, stage_name};
use crate::held::{self, Seen};
use crate::model::{Change, Entry, FileEntry, Place, Source};
use crate::stat;

/// Whether its path is as before the run already.
///
/// # Errors
/// When something can't be read.
pub fn is_before(ground: &Ground<'_>, change: &Change, pretend: &Pretend) -> anyhow::Result<bool> {
    let absolute = |place| ground.plan.absolute(place);
    if let Some(there) = pretend.at(&absolute(&change.at)) {
        return Ok(there.is(&change.before));
    }
    // A cache that was swept away is made anew by anybody.
    if change.bytecode && no_directory(ground, change) {
        return Ok(true);
    }
    let holds = match &change.before {
        // By then the other one would be another file.
        Entry::File(file) if related_to(file).is_some_and(|other| pretend.at(&absolute(other)).is_some()) => {
            !matches!(file.source, Source::LinkTo(_)) && ground.holds(&change.at, &alone(file), None)?
        }
        before => ground.holds(&change.at, before, change.seen.as_ref())?,
    };
    Ok(holds || is_original(ground, change)?)
}

fn related_to(file: &FileEntry) -> Option<&Place> {
    match &file.source {
        Source::LinkTo(other) | Source::CopyOf(other) => Some(other),
        Source::Bytes | Source::Refresh => None,
    }
}

/// The file without its relation to another.
fn alone(file: &FileEntry) -> Entry {
    Entry::File(FileEntry { source: Source::Bytes, ..file.clone() })
}

/// Whether the very file that the run found is back. What it was linked to then may have been taken back as well, so
/// that the link is no witness any more.
fn is_original(ground: &Ground<'_>, change: &Change) -> anyhow::Result<bool> {
    let (Some(seen), Entry::Symlink { .. } | Entry::Absent) = (&change.seen, &change.after) else {
        return Ok(false);
    };
    Ok(matches!(ground.look(&change.at)?, Seen::File { id, .. } if id.same_but_ctime(seen)))
}

/// Why a change can't be taken back; `None` if nothing is known to be in its way. Looks where [`step`] would write.
///
/// # Errors
/// When something can't be read, or what it would bring back is lost.
pub fn would(ground: &Ground<'_>, change: &Change, pretend: &Pretend) -> anyhow::Result<Option<String>> {
    let now = ground.look(&change.at)?;
    let refused = refusal(ground, change, &now, pretend)?;
    if let (None, Entry::File(FileEntry { source: Source::Bytes, digest: Some(digest), .. })) =
        (&refused, &change.before)
    {
        if no_directory(ground, change) {
            return Ok(Some("the directory that it was in is gone since the run".to_owned()));
        }
        let path = ground.plan.absolute(&change.at);
        let doing = || format!("can't stage the new entry of `{}`", path.display());
        ground.dir(&change.at).with_context(doing).map_err(hinted)?;
        ground.journal.original(*digest).with_context(doing)?;
    }
    Ok(refused)
}

/// Takes one change back if its path is as the run left it; `Some` says why not.
///
/// # Errors
/// When something can't be read or written.
pub fn step(ground: &mut Ground<'_>, id: &str, index: usize) -> anyhow::Result<Option<String>> {
    let change = ground.plan.changes[index].clone();
    let now = ground.look(&change.at)?;
    if let Some(reason) = refusal(ground, &change, &now, &Pretend::default())? {
        return Ok(Some(reason));
    }
    let stage = stage_name(id, index, true);
    ground.mark_dirty(&change.at);
    ground.stage(&change.at, &stage, &change.before, true)?;
    if now == Seen::Absent && change.before == Entry::Absent {
        return Ok(None);
    }
    let swapped = match ground.swap(&change.at, &stage, now, &change.before, is_big(&change.after)) {
        Ok(Ok(swapped)) => swapped,
        Ok(Err(drift)) => return ground.discard(&change.at, &stage).map(|()| Some(drift)),
        Err(error) => {
            // The stage goes; the error that stopped us is the one to tell.
            let _ = ground.discard(&change.at, &stage);
            return Err(error);
        }
    };
    let out = ground.came_out(&change.at, &stage, &swapped);
    if matches!(out, Ok(Ok(()))) {
        return if matches!(swapped.how, Swap::Exchanged | Swap::Removed) {
            ground.discard(&change.at, &stage).map(|()| None)
        } else {
            Ok(None)
        };
    }
    // While it isn't back under its name, the stage must stay: it may hold somebody's file.
    ground.swap_back(&change.at, &stage, &swapped)?;
    ground.discard(&change.at, &stage)?;
    out.map(Result::err)
}

fn refusal(
    ground: &Ground<'_>,
    change: &Change,
    now: &Seen,
    pretend: &Pretend,
) -> anyhow::Result<Option<String>> {
    let absolute = |place| ground.plan.absolute(place);
    let ours = match (pretend.at(&absolute(&change.at)), &change.after) {
        (Some(there), after) => there.is(after),
        // What it is related to would be taken back by then, to the same inode again.
        (None, Entry::File(file))
            if related_to(file).is_some_and(|other| pretend.at(&absolute(other)).is_some()) =>
        {
            ground.holds(&change.at, &alone(file), None)?
        }
        (None, after) => ground.holds(&change.at, after, None)?,
    };
    let replaceable = change.bytecode && matches!(now, Seen::Absent | Seen::File { .. });
    if !ours && !replaceable {
        return Ok(Some(drifted(now).to_owned()));
    }
    unavailable(ground, change, pretend)
}

fn drifted(now: &Seen) -> &'static str {
    match now {
        Seen::Absent => "it is gone since the run",
        _ => "it changed since the run",
    }
}

/// Whether the file to link to, or to copy, is still the one that it was.
fn unavailable(ground: &Ground<'_>, change: &Change, pretend: &Pretend) -> anyhow::Result<Option<String>> {
    let Entry::File(FileEntry { source: Source::LinkTo(other) | Source::CopyOf(other), digest, size, meta }) =
        &change.before
    else {
        return Ok(None);
    };
    let path = ground.plan.absolute(other);
    let changed = Ok(Some(format!("`{}`, which has its content, changed since the run", path.display())));
    if let Some(there) = pretend.at(&path) {
        return if there.has(*size, *digest) { Ok(None) } else { changed };
    }
    let Seen::File { id, .. } = ground.look(other)? else { return changed };
    if id.size != *size {
        return changed;
    }
    let doing = || format!("can't read `{}`", path.display());
    let open = ground.dir(other).and_then(|dir| dir.open(other.path.name())).with_context(doing)?;
    // A turned link has no kept file of its own: the content moved, and with it its time.
    let then = change.keeps.as_ref().map(|(_, id)| *id).or(change.seen);
    let same = match (digest, then) {
        (Some(digest), _) => held::digest_of(&open).with_context(doing)? == *digest,
        // Never read: the time of the kept file must do, in seconds, which is what image layers keep of it.
        (None, Some(seen)) => seconds(id.mtime) == seconds(seen.mtime),
        (None, None) => false,
    };
    if !same {
        return changed;
    }
    // By a link its mode and owner would come too.
    let linked = matches!(&change.before, Entry::File(file) if matches!(file.source, Source::LinkTo(_)));
    if linked && stat::meta_of(&open).with_context(doing)? != *meta {
        let path = path.display();
        return Ok(Some(format!(
            "`{path}`, which it was linked to, has another mode, owner or attribute since the run"
        )));
    }
    Ok(None)
}

fn seconds(nanos: i128) -> i128 {
    nanos.div_euclid(1_000_000_000)
}
