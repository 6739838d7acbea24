//! Requirements and import checks: each gives one [`CheckResult`]. A failed check is a value; an error means that the
//! tool itself couldn't look. Never changes anything.

use schemars::JsonSchema;
use serde::Serialize;

mod files;
mod libraries;
mod needed;
mod objects;
mod opened;
mod require;
mod requires;
mod rule;
mod smoke;
mod texts;
mod verdict;

pub use libraries::{LIBRARY_TIMEOUT, LibraryOptions, libraries};
pub use require::require;
pub use rule::{Requirement, Rule, RuleError};
pub use smoke::{SmokeCheck, TIMEOUT, smoke};

/// What one check found; a row of the report, the contract of cli.md.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckResult {
    pub name: String,
    pub kind: Kind,
    pub verdict: Verdict,
    /// One line or a few: what was seen, in the words of whoever said it.
    pub detail: String,
    pub seconds: f64,
    /// The last of what a failed check wrote to stderr, or of stdout if stderr was empty. Foreign text: escape it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A recipe's word on why this is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was found doesn't fail the run: a missing GPU where one is optional, or an allowance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tolerated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Require,
    Smoke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Ok,
    /// There is no such module or distribution.
    Absent,
    /// The module is there, and raised something.
    ImportError,
    /// The process was killed by a signal, in the import or in the shutdown after it.
    Signal,
    Timeout,
    NeedsGpu,
    /// Two files of one SONAME were loaded.
    TwoCopies,
    /// A requirement isn't met, or the process ended with a code of its own.
    Fail,
    /// Nothing says that the requirement is met. Not ok.
    Unproven,
    /// Not run; the detail says why.
    Skipped,
}

impl CheckResult {
    #[must_use]
    pub fn new(name: &str, kind: Kind, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            verdict,
            detail: detail.into(),
            seconds: 0.0,
            output: None,
            reason: None,
            tolerated: false,
        }
    }

    /// A check that was not run, and why.
    #[must_use]
    pub fn skipped(name: &str, kind: Kind, why: impl Into<String>) -> Self {
        Self::new(name, kind, Verdict::Skipped, why)
    }

    /// Whether the verdict is a bad one, tolerated or not.
    #[must_use]
    pub fn found_something(&self) -> bool {
        !matches!(self.verdict, Verdict::Ok | Verdict::Skipped)
    }

    /// Whether this makes the run unsound (exit code 4).
    #[must_use]
    pub fn failed(&self) -> bool {
        !self.tolerated && self.found_something()
    }
}
