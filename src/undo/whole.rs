//! What a run patched in one distribution is taken back whole or not at all: half a patch fits nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use anyhow::Context as _;

use super::gone::{Gone, unit};
use super::{Pretend, step};
use crate::ground::Ground;
use crate::held;
use crate::model::{Change, Entry, FileEntry, Source};
use crate::pyenv::Record;

/// Whether a change brings or replaces content, as those of a patch do.
pub fn brings_bytes(change: &Change) -> bool {
    let bytes = |entry: &Entry| matches!(entry, Entry::File(file) if file.source == Source::Bytes);
    bytes(&change.before) || bytes(&change.after)
}

/// The changes of patches, each set with all that was patched in the same distribution, its RECORD and stale bytecode
/// included. Where no RECORD lists them, those of a directory or module are one.
pub fn sets(ground: &Ground<'_>) -> Vec<BTreeSet<usize>> {
    let changes = &ground.plan.changes;
    let groups: BTreeSet<u32> = changes.iter().filter(|c| brings_bytes(c)).map(|c| c.group).collect();
    let patched = || changes.iter().enumerate().filter(|(_, change)| groups.contains(&change.group));
    let mut units: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
    for (index, change) in patched() {
        units.entry(unit(ground, change)).or_default().insert(index);
    }
    let mut sets = Vec::new();
    for (index, record) in patched().filter(|(_, change)| is_record(change)) {
        let listed = |set: &&BTreeSet<usize>| set.iter().any(|other| lists(ground, record, &changes[*other]));
        let members = units.values().filter(listed).flatten().copied();
        sets.push(members.chain([index]).collect());
    }
    let in_a_record: BTreeSet<usize> = sets.iter().flatten().copied().collect();
    sets.extend(units.into_values().filter(|set| set.is_disjoint(&in_a_record)));
    sets
}

pub fn is_record(change: &Change) -> bool {
    change.at.path.name() == OsStr::new("RECORD")
}

/// Whether a RECORD, as it was before the run, lists a file of the same directory or module.
fn lists(ground: &Ground<'_>, record: &Change, change: &Change) -> bool {
    let Entry::File(FileEntry { source: Source::Bytes, digest: Some(digest), .. }) = &record.before else {
        return false;
    };
    let (root, Some(top)) = unit(ground, change) else { return false };
    let bytes = ground.journal.original(*digest).unwrap_or_default();
    let top = top.as_encoded_bytes();
    root == record.at.root
        && Record::new(&bytes).is_some_and(|record| record.has(top) || record.has_below(top))
}

/// The changes of patches that must stay as they are, each with the reason. `pretend` as for [`step::would`].
///
/// # Errors
/// When something can't be read, or what a patch replaced is lost.
pub fn stay(ground: &Ground<'_>, gone: &Gone, pretend: &Pretend) -> anyhow::Result<BTreeMap<usize, String>> {
    let sets = sets(ground);
    let mut pretend = pretend.clone();
    let mut stay = BTreeMap::new();
    let members: BTreeSet<usize> = sets.iter().flatten().copied().collect();
    for index in members.into_iter().rev().filter(|index| !gone.paths.contains(index)) {
        let change = &ground.plan.changes[index];
        match judge(ground, change, &pretend)? {
            Some(reason) => drop(stay.insert(index, reason)),
            None => pretend.put(ground.plan.absolute(&change.at), &change.before),
        }
    }
    // A file may be one of two distributions' (a namespace package): then both stay.
    let mut known = 0;
    while known < stay.len() {
        known = stay.len();
        for set in &sets {
            let Some(first) = set.iter().find(|index| stay.contains_key(index)) else { continue };
            let path = ground.plan.absolute(&ground.plan.changes[*first].at);
            let why = format!("it was patched together with `{}`, which stays", path.display());
            for index in set.iter().filter(|index| !gone.paths.contains(index)) {
                stay.entry(*index).or_insert_with(|| why.clone());
            }
        }
    }
    Ok(stay)
}

fn judge(ground: &Ground<'_>, change: &Change, pretend: &Pretend) -> anyhow::Result<Option<String>> {
    if let Some(away) = led_away(ground, change)? {
        return Ok(Some(away));
    }
    if step::is_before(ground, change, pretend)? { Ok(None) } else { step::would(ground, change, pretend) }
}

/// A link on the way to a path is somebody's doing, which an undo goes around.
///
/// # Errors
/// When the path can't be looked at for another reason.
pub fn led_away(ground: &Ground<'_>, change: &Change) -> anyhow::Result<Option<String>> {
    match ground.look(&change.at) {
        Ok(_) => Ok(None),
        Err(error) if held::is_link_on_the_way(&error) => {
            Ok(Some("a symlink or file is on its way now".to_owned()))
        }
        Err(error) => {
            let path = ground.plan.absolute(&change.at);
            Err(error).with_context(|| format!("can't look at `{}`", path.display()))
        }
    }
}
