//! What a run patched in one distribution is taken back whole or not at all: half a patch fits nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use anyhow::Context as _;

use super::gone::{Gone, unit};
use super::listing::listings;
use super::{Pretend, step, theirs};
use crate::ground::Ground;
use crate::held;
use crate::model::{Change, Entry, Source};

/// Whether a change brings or replaces content, as those of a patch do.
pub fn brings_bytes(change: &Change) -> bool {
    let bytes = |entry: &Entry| matches!(entry, Entry::File(file) if file.source == Source::Bytes);
    bytes(&change.before) || bytes(&change.after)
}

/// The changes of patches, each set with all that was patched in the same distribution, its RECORD and stale bytecode
/// included. Where no RECORD lists them, those of a directory or module are one, and all outside of site-packages.
pub fn sets(ground: &Ground<'_>) -> Vec<BTreeSet<usize>> {
    let changes = &ground.plan.changes;
    let groups: BTreeSet<u32> = changes.iter().filter(|c| brings_bytes(c)).map(|c| c.group).collect();
    let patched = || changes.iter().enumerate().filter(|(_, change)| groups.contains(&change.group));
    let listings = listings(ground);
    let mut of_record: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut of_unit: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
    for (index, change) in patched() {
        let mut owners =
            listings.iter().filter(|listing| listing.index == index || listing.may_have(change)).peekable();
        if owners.peek().is_none() {
            let (root, top) = unit(ground, change);
            let top = top.filter(|_| is_site(ground, root));
            of_unit.entry((root, top)).or_default().insert(index);
        }
        for owner in owners {
            of_record.entry(owner.index).or_default().insert(index);
        }
    }
    of_record.into_values().chain(of_unit.into_values()).collect()
}

/// Whether a root is a site-packages directory; others are what a recipe's roots name.
fn is_site(ground: &Ground<'_>, root: usize) -> bool {
    let names = ["site-packages", "dist-packages"].map(OsStr::new);
    ground.plan.roots.get(root).is_some_and(|path| {
        path == ground.journal.site_packages().path()
            || path.file_name().is_some_and(|name| names.contains(&name))
    })
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
    let theirs = theirs::theirs(ground, &members)?;
    for index in members.into_iter().rev().filter(|index| !gone.paths.contains(index)) {
        let change = &ground.plan.changes[index];
        match judge(ground, change, &pretend)?.or_else(|| theirs.get(&index).cloned()) {
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
