//! Patches: linted, parsed, fitted, judged. What decides is pure; only `read` looks at files, and nothing writes.

mod hunk_lint;
mod text;
mod walk;

pub mod conflict;
pub mod fit;
pub mod lint;
pub mod parse;
pub mod sha;
pub mod verdict;
