//! What the subcommands do, each from an image to its part of the report.

use crate::apply::Refused;
use crate::report::{Conflict, PathText};

pub mod again;
pub mod check;
pub mod dedup;
pub mod patch;
pub mod recipe;
pub mod undo;

/// Changes that were refused while they were made, or taken back.
#[must_use]
pub fn refusals(refused: &[Refused]) -> Vec<Conflict> {
    let told = refused.iter().map(|refused| Conflict {
        path: PathText::from(refused.path.as_path()),
        other: None,
        reason: "changed".to_owned(),
        detail: refused.reason.clone(),
        allowed: false,
    });
    told.collect()
}
