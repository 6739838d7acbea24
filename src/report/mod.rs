//! What a command has to say: one value, from which the exit code is computed and which each format prints. The JSON
//! form is a contract (docs/json.md): fields are added freely, never changed or removed.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Exit, Hint, exit_of, message};

pub mod github;
pub mod human;
pub mod json;

/// The whole report of one command.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// 1. A reader should refuse a higher number.
    pub format_version: u32,
    pub tool: Tool,
    pub command: String,
    /// The recipe's name or file, where one was used.
    pub recipe: Option<String>,
    pub dry_run: bool,
    /// The code that the process ends with.
    pub exit_code: u8,
    pub environment: Option<Environment>,
    pub dedup: Option<Dedup>,
    pub patches: Vec<crate::patch::report::PatchReport>,
    pub checks: Vec<crate::check::CheckResult>,
    /// Where the run is recorded; null where nothing was changed.
    pub journal: Option<JournalRef>,
    /// What `undo` did.
    pub undo: Option<Undo>,
    /// Recorded runs, oldest first (`status`).
    pub runs: Vec<RunRef>,
    /// Findings that a recipe allows, and allowances that match nothing or have run out.
    pub allowed: Vec<Allowed>,
    /// What was left out by `--skip`.
    pub skipped: Vec<String>,
    /// Facts worth knowing.
    pub notes: Vec<String>,
    /// What the reader can act on.
    pub warnings: Vec<Warning>,
    /// What stopped the command, if something did.
    pub error: Option<Trouble>,
    /// What to type next.
    pub next: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// A path as JSON carries it: lossy where it isn't UTF-8, then with its bytes beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathText {
    pub path: String,
    /// Base64 of the path, only where `path` is lossy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> Self {
        let bytes =
            path.to_str().is_none().then(|| BASE64_STANDARD.encode(path.as_os_str().as_encoded_bytes()));
        Self { path: path.to_string_lossy().into_owned(), path_bytes: bytes }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Environment {
    /// The interpreter that was asked; null with `--site-packages`.
    pub python: Option<String>,
    pub python_version: Option<String>,
    pub glibc: Option<String>,
    pub site_packages: Vec<String>,
    pub trees: Vec<Tree>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tree {
    pub role: crate::model::Role,
    #[serde(flatten)]
    pub path: PathText,
    pub distribution: Option<String>,
    pub version: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Dedup {
    /// Names that are now links to the owner's file; with `--dry-run` and `status`, that would be.
    pub linked: Vec<Linked>,
    /// Device-manifest entries whose hard links were re-made.
    pub relinked: Vec<PathText>,
    /// Names that already are links to the owner's file.
    pub already: u64,
    /// Bytes of inodes that no name holds any more. On an overlay the lower layers keep theirs.
    pub bytes_freed: u64,
    pub left_alone: Vec<LeftAlone>,
    pub conflicts: Vec<Conflict>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Linked {
    #[serde(flatten)]
    pub path: PathText,
    pub target: String,
    /// copy, hard-link or reversed.
    pub was: String,
    pub bytes: u64,
    /// Of the kept file; null where nothing had to be read, as for hard links and in a dry run.
    pub blake3: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftAlone {
    #[serde(flatten)]
    pub path: PathText,
    pub reason: String,
    pub detail: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Conflict {
    #[serde(flatten)]
    pub path: PathText,
    pub other: Option<String>,
    pub reason: String,
    pub detail: String,
    /// A recipe allows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allowed: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JournalRef {
    pub id: String,
    #[serde(flatten)]
    pub path: PathText,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Undo {
    pub runs: Vec<String>,
    pub restored: u64,
    /// Paths that were as before the run already.
    pub already: u64,
    /// Paths that are gone with an uninstalled package: there was nothing to take back.
    pub gone: u64,
    pub refused: Vec<Conflict>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunRef {
    pub id: String,
    pub command: String,
    pub started: String,
    /// complete, partial, stopped, interrupted or undo-interrupted.
    pub state: String,
    pub changes: u64,
    /// How many of these are gone with an uninstalled package.
    pub gone: u64,
    /// The site-packages directory that the run was made in, where this is a copy of it; else null.
    pub moved_from: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Allowed {
    pub name: String,
    pub reason: String,
    /// allowed, unused or expired.
    pub state: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Warning {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Trouble {
    pub message: String,
    pub hint: Option<String>,
    #[serde(skip)]
    pub exit: u8,
}

impl Report {
    #[must_use]
    pub fn new(command: &str, dry_run: bool) -> Self {
        Self {
            format_version: 1,
            tool: Tool { name: "rocm-fixup".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            command: command.to_owned(),
            recipe: None,
            dry_run,
            exit_code: 0,
            environment: None,
            dedup: None,
            patches: Vec::new(),
            checks: Vec::new(),
            journal: None,
            undo: None,
            runs: Vec::new(),
            allowed: Vec::new(),
            skipped: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            error: None,
            next: Vec::new(),
        }
    }

    /// Records what stopped the command. The first error stays; later ones become notes.
    pub fn fail(&mut self, error: &anyhow::Error) {
        let trouble = Trouble {
            message: message(error),
            hint: error.downcast_ref::<Hint>().map(|hint| hint.0.clone()),
            exit: exit_of(error) as u8,
        };
        if self.error.is_none() { self.error = Some(trouble) } else { self.notes.push(trouble.message) }
    }

    pub fn warn(&mut self, name: &str, text: impl Into<String>) {
        self.warnings.push(Warning { name: name.to_owned(), text: text.into() });
    }

    /// Whether something on disk was not what was expected.
    #[must_use]
    pub fn refused(&self) -> bool {
        let conflicts = self.dedup.iter().flat_map(|d| &d.conflicts).any(|c| !c.allowed);
        let patches = self.patches.iter().any(|p| p.is_refused());
        conflicts || patches || self.undo.iter().any(|u| !u.refused.is_empty())
    }

    /// Whether a check failed, or `status` found work to do.
    #[must_use]
    pub fn unsound(&self) -> bool {
        let failed = self.checks.iter().any(crate::check::CheckResult::failed);
        let pending = self.command == "status"
            && (self.dedup.iter().any(|d| !d.linked.is_empty() || !d.relinked.is_empty())
                || self.patches.iter().any(|p| p.is_pending())
                || self.runs.iter().any(|run| run.state.contains("interrupted") && run.moved_from.is_none()));
        failed || pending
    }

    /// The exit code that this report means: computed once, before anything is printed.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match &self.error {
            Some(trouble) if trouble.exit == Exit::Usage as u8 => Exit::Usage,
            Some(trouble) if trouble.exit == Exit::Refused as u8 => Exit::Refused,
            Some(trouble) if trouble.exit == Exit::Unsound as u8 => Exit::Unsound,
            Some(_) => Exit::Failed,
            None if self.refused() => Exit::Refused,
            None if self.unsound() => Exit::Unsound,
            None => Exit::Done,
        }
    }
}
