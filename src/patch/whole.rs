//! What a patch by itself tells of a file: all of it where it makes, deletes or replaces the file, else a lower bound of
//! its size. Pure.

use super::fit::Sides;
use super::parse::{FilePatch, Kind};

/// One side of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    Absent,
    Whole(Vec<u8>),
    /// More than the patch holds: at least so many bytes.
    Part(usize),
}

/// The file before and after.
#[must_use]
pub fn sides(patch: &FilePatch<'_>) -> (Side, Side) {
    let hunks: Vec<Sides> = patch.patch.hunks().iter().map(Sides::of).collect();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for hunk in &hunks {
        old.extend_from_slice(&hunk.old);
        new.extend_from_slice(&hunk.new);
    }
    match patch.kind {
        Kind::Create(_) => (Side::Absent, Side::Whole(new)),
        Kind::Delete => (Side::Whole(old), Side::Absent),
        Kind::Modify if hunks.len() == 1 && hunks.iter().all(Sides::is_whole) => {
            (Side::Whole(old), Side::Whole(new))
        }
        Kind::Modify => (Side::Part(old.len()), Side::Part(new.len())),
    }
}
