//! In which order runs can be taken back. No I/O.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::journal::Record;
use crate::model::{Change, Entry, Place, Source};

/// The ids of the newer runs, newest first, that must be taken back before `record`: one of the two changed what the other
/// changed or relies on. Else what is left of the newer one would fit nothing any more.
#[must_use]
pub fn in_the_way<'a>(record: &Record, newer: &[&'a Record]) -> Vec<&'a str> {
    let (changed, relied) = (changed(record), relied(record));
    let meets = |other: &&&Record| {
        let theirs = self::changed(other);
        !theirs.is_disjoint(&changed)
            || !theirs.is_disjoint(&relied)
            || !self::relied(other).is_disjoint(&changed)
    };
    newer.iter().rev().filter(meets).map(|other| other.id.as_str()).collect()
}

fn changed(record: &Record) -> HashSet<PathBuf> {
    record.plan.changes.iter().map(|change| record.plan.absolute(&change.at)).collect()
}

/// The files whose content a run kept, and those that it links to or copies.
fn relied(record: &Record) -> HashSet<PathBuf> {
    let of = |entry: &Entry| -> Option<Place> {
        let Entry::File(file) = entry else { return None };
        match &file.source {
            Source::LinkTo(other) | Source::CopyOf(other) => Some(other.clone()),
            Source::Bytes | Source::Refresh => None,
        }
    };
    let all = |change: &Change| {
        let kept = change.keeps.as_ref().map(|(place, _)| place.clone());
        [kept, of(&change.before), of(&change.after)]
    };
    record.plan.changes.iter().flat_map(all).flatten().map(|place| record.plan.absolute(&place)).collect()
}
