//! One import check: the interpreter, an ordered row of imports, and what came of it. Observes here, judges in
//! `verdict`. A crash or a hang of the imported code is a verdict; only a tool that couldn't look is an error.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{CheckResult, verdict};
use crate::elf;
use crate::python::wire::{Clash, Line, Object, Question, clashes};
use crate::python::{self, Interpreter, Reply};

/// The time limit where none is given.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// What is to be imported, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmokeCheck {
    pub name: String,
    pub module: String,
    /// Imported before it, in this order.
    pub preload: Vec<String>,
    /// Variables that are set for this check.
    pub env: Vec<(String, String)>,
    pub timeout: Duration,
    /// A missing GPU doesn't fail the check.
    pub gpu_optional: bool,
    /// Why it is checked; goes into the result.
    pub reason: Option<String>,
}

impl SmokeCheck {
    /// A check of `module` with the usual limit.
    #[must_use]
    pub fn new(module: &str) -> Self {
        Self {
            name: module.to_owned(),
            module: module.to_owned(),
            preload: Vec::new(),
            env: Vec::new(),
            timeout: TIMEOUT,
            gpu_optional: false,
            reason: None,
        }
    }
}

/// Runs the check.
///
/// # Errors
/// If the interpreter can't be started, can't host the probe, or ends before the first import.
pub fn smoke(interpreter: &Interpreter, check: &SmokeCheck) -> Result<CheckResult> {
    let modules: Vec<String> = check.preload.iter().chain([&check.module]).cloned().collect();
    let env: Vec<(OsString, OsString)> = check.env.iter().map(|(n, v)| (n.into(), v.into())).collect();
    let asked = python::ask(&interpreter.command, &Question::Import { modules }, &env, check.timeout);
    let reply = asked.with_context(|| format!("can't check `{}`", check.module))?;
    if let Some(unfit) = reply.answer.unfit {
        return Err(unfit.error(&interpreter.command));
    }
    if reply.answer.failure().is_some() || reply.answer.lines.is_empty() {
        let error = python::no_answer(&interpreter.command, &reply, check.timeout);
        return Err(error.context(format!("can't check `{}`", check.module)));
    }
    let seen = Seen {
        clashes: clashes(&mapped(&reply)),
        mapped: reply.answer.mapped.clone(),
        wanted_by: wanted_by(&reply),
        reply,
    };
    let mut result = verdict::judge(check, &seen);
    result.seconds = seen.reply.ended.seconds;
    result.reason.clone_from(&check.reason);
    Ok(result)
}

/// All that a verdict needs to know.
#[derive(Debug)]
pub struct Seen {
    pub reply: Reply,
    /// Files of one SONAME that were mapped together, at the end or at the crash.
    pub clashes: Vec<Clash>,
    /// Every file that was mapped at a crash.
    pub mapped: Vec<PathBuf>,
    /// The file that wants the missing library, where that can be told.
    pub wanted_by: Option<PathBuf>,
}

/// The objects that were loaded: by the loader's list if the imports came to an end, else by the map at the crash.
fn mapped(reply: &Reply) -> Vec<Object> {
    let list = reply.answer.lines.iter().find_map(|line| match line {
        Line::Loaded { objects } => Some(objects.clone()),
        _ => None,
    });
    list.unwrap_or_else(|| reply.answer.mapped.iter().filter_map(|path| object(path)).collect())
}

fn object(path: &Path) -> Option<Object> {
    let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let facts = elf::read(&File::open(path).ok()?).ok()?;
    let soname = facts.soname.map(|name| String::from_utf8_lossy(&name).into_owned());
    Some(Object { path: python::raw(path), dev: meta.dev(), ino: meta.ino(), soname, module: false })
}

/// Follows DT_NEEDED from the extension module that couldn't be loaded to whoever names the missing library.
fn wanted_by(reply: &Reply) -> Option<PathBuf> {
    let raised = reply.answer.lines.iter().find_map(|line| match line {
        Line::Raised { exceptions, .. } => Some(exceptions),
        _ => None,
    })?;
    raised.iter().find_map(|exception| {
        let Some(super::texts::Missing::Library { library }) = super::texts::loader(&exception.text) else {
            return None;
        };
        let module = python::path(exception.path.as_ref()?);
        super::needed::who_wants(&module, &library, &mapped(reply))
    })
}
