//! Patches: linted, parsed, fitted, judged, planned. Nothing here writes; only `read` opens targets.
//!
//! `lint` → `parse` → `fit` → `verdict` → `chain` are pure, from bytes to bytes. `target` and `of_recipe` or `of_files`
//! find out which files are meant, `plan` judges them together, `kept` says what none of them changes, `effects` adds
//! RECORD and bytecode, `explain` the words.

mod build;
mod effects;
mod explain;
mod hunk_lint;
mod kept;
mod of_files;
mod of_recipe;
mod text;
mod walk;
mod words;

pub mod chain;
pub mod conflict;
pub mod fit;
pub mod lint;
pub mod parse;
pub mod past;
pub mod plan;
pub mod read;
pub mod recorded;
pub mod report;
pub mod sha;
pub mod target;
pub mod verdict;
pub mod whole;

pub use of_files::{Plain, of_files};
pub use of_recipe::of_recipe;
