//! What is said about patches, as cli.md's JSON has it. Values only.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::sha::Sha256;

/// State of a patch or of one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is there; after a run: this run put it there.
    Applied,
    /// It was there before this run.
    Already,
    /// It isn't there, and can be applied.
    Pending,
    /// In some files it is there, in others not.
    Partial,
    /// A file is none of the known ones; the patch would fit, but isn't applied without consent.
    Drifted,
    /// A file is none of the known ones, and the patch doesn't fit.
    Conflict,
    NotInstalled,
    /// A version for which there is nothing to patch.
    NotApplicable,
    /// A version that brings the change itself: the patch can be dropped.
    FixedUpstream,
    /// The recipe's condition doesn't hold.
    Skipped,
    /// This run took it back.
    Reverted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileReport {
    /// Absolute and physical; lossy where it isn't UTF-8.
    pub path: String,
    /// The path in base64, where it isn't UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    pub state: State,
    /// Before and after the patch, as far as they are known; `null` for no file.
    #[schemars(with = "Option<String>")]
    pub before: Option<Sha256>,
    #[schemars(with = "Option<String>")]
    pub after: Option<Sha256>,
    /// How many lines away from the stated ones the patch fitted.
    pub offset: i64,
    /// Why it doesn't fit, in several lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

impl FileReport {
    pub(super) fn new(path: &Path, state: State) -> Self {
        let bytes = path.as_os_str().as_bytes();
        Self {
            path: path.to_string_lossy().into_owned(),
            path_bytes: path.to_str().is_none().then(|| BASE64_STANDARD.encode(bytes)),
            state,
            before: None,
            after: None,
            offset: 0,
            conflict: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PatchReport {
    pub name: String,
    pub state: State,
    pub files: Vec<FileReport>,
    /// Why it was skipped or isn't installed, what else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What stops the whole run, if this does.
    #[serde(skip)]
    pub refused: bool,
    /// A recipe allows that it is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allowed: bool,
}

impl PatchReport {
    pub(super) fn new(name: &str, state: State) -> Self {
        Self {
            name: name.to_owned(),
            state,
            files: Vec::new(),
            notes: Vec::new(),
            refused: false,
            allowed: false,
        }
    }

    /// Turns down the change of a file, if it is one of this patch's.
    pub(super) fn refuse(&mut self, path: &Path, why: &str) {
        for file in self.files.iter_mut().filter(|file| file.path == path.to_string_lossy()) {
            file.state = State::Conflict;
            file.conflict = Some(format!("`{}`: {why}", file.path));
            self.state = State::Conflict;
            self.refused = true;
        }
    }

    /// Whether this stops the run: drift without consent, a conflict.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether there is something to apply.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.state, State::Pending | State::Partial | State::Drifted)
    }

    /// A label and a text for each thing that people should read.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let state = serde_json::to_value(self.state).ok().and_then(|v| v.as_str().map(str::to_owned));
        let files = match self.files.len() {
            0 => String::new(),
            1 => ": 1 file".to_owned(),
            n => format!(": {n} files"),
        };
        let mut lines = vec![(state.unwrap_or_default(), format!("{}{files}", self.name))];
        let conflicts = self.files.iter().filter_map(|file| file.conflict.as_ref());
        for text in conflicts.flat_map(|text| text.lines()).chain(self.notes.iter().map(String::as_str)) {
            lines.push((String::new(), text.to_owned()));
        }
        lines
    }

    /// The report after the plan was carried out: what was pending is applied, what was applied was so already.
    #[must_use]
    pub fn applied(mut self) -> Self {
        let done = |state| match state {
            State::Applied => State::Already,
            State::Pending | State::Partial | State::Drifted => State::Applied,
            other => other,
        };
        self.state = done(self.state);
        self.files.iter_mut().for_each(|file| file.state = done(file.state));
        self
    }

    /// The report of a dry run: what is there was so before; what is pending stays so.
    #[must_use]
    pub fn not_yet_applied(mut self) -> Self {
        let told = |state| if state == State::Applied { State::Already } else { state };
        self.state = told(self.state);
        self.files.iter_mut().for_each(|file| file.state = told(file.state));
        self
    }

    /// The report after a plan that takes patches back was carried out.
    #[must_use]
    pub fn reverted(mut self) -> Self {
        let done = |state| match state {
            State::Applied | State::Partial | State::Drifted => State::Reverted,
            other => other,
        };
        self.state = done(self.state);
        self.files.iter_mut().for_each(|file| file.state = done(file.state));
        self
    }
}
