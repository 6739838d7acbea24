//! The way of a report to its readers: to stdout or to files, none of which may be the SDK's. Decides nothing else.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::cli::{Format, Global, Output};
use crate::console::{self, Console};
use crate::error::{Exit, Hint, message};
use crate::ground::is_within;
use crate::journal::DIRECTORY;
use crate::model::Tree;
use crate::report::{Report, Warning, github, human, json};
use crate::{discover, fsops};

/// Refuses outputs that would overwrite each other or the SDK, before anything is done.
///
/// # Errors
/// Exit 2.
pub fn check(global: &Global) -> anyhow::Result<()> {
    // Annotations for GitHub are lines of their own among a text for people.
    let on_stdout = outputs(global).into_iter().filter(|o| o.file.is_none() && o.format != Format::Github);
    if on_stdout.count() > 1 {
        return Err(usage(
            "two reports would go to stdout".to_owned(),
            "name a file for one: --output json=FILE",
        ));
    }
    let mut seen = HashSet::new();
    for file in &files(global) {
        let physical = physical(file);
        // A pipe or terminal takes several, one after the other.
        let special = physical.metadata().is_ok_and(|meta| !meta.is_file());
        if !special && !seen.insert(physical.clone()) {
            return Err(usage(format!("two reports would go to `{}`", file.display()), "name another file"));
        }
        let ours = |path: &Path| path.components().any(|part| is_ours(part.as_os_str()));
        // As it is spelled, and where that leads: a tree may be a link to somewhere else.
        if ours(file) || ours(&physical) {
            return Err(in_the_sdk(file));
        }
    }
    Ok(())
}

/// The same for trees that lie under other names.
///
/// # Errors
/// Exit 2.
pub fn check_trees(global: &Global, trees: &[Tree]) -> anyhow::Result<()> {
    let trees: Vec<PathBuf> = trees.iter().map(|tree| tree.path.clone()).collect();
    let files = files(global);
    files.iter().find(|file| is_within(&physical(file), &trees)).map_or(Ok(()), |file| Err(in_the_sdk(file)))
}

/// Tries the places of all reports: what was done and then can't be told is worse than nothing done.
///
/// # Errors
/// When one can't be written to, as far as that can be told.
pub fn try_places(global: &Global) -> anyhow::Result<()> {
    for output in outputs(global) {
        let summary = step_summary().filter(|_| output.format == Format::Github);
        let (file, tried) = match (output.file, summary) {
            (Some(file), _) => (file.clone(), fsops::try_report(&file)),
            (None, Some(file)) => (file.clone(), fsops::try_append(&file)),
            (None, None) => continue,
        };
        tried
            .with_context(|| format!("can't write `{}`", file.display()))
            .context(UNDELIVERED)
            .context(Hint::new("nothing was done; name a file that can be written, such as one in /tmp"))?;
    }
    Ok(())
}

const UNDELIVERED: &str = "can't deliver the report";

/// All files that reports are written to.
fn files(global: &Global) -> Vec<PathBuf> {
    let outputs = outputs(global);
    let summary = outputs.iter().any(|output| output.format == Format::Github && output.file.is_none());
    outputs.into_iter().filter_map(|output| output.file).chain(step_summary().filter(|_| summary)).collect()
}

fn outputs(global: &Global) -> Vec<Output> {
    if global.output.is_empty() {
        return vec![Output { format: global.format.unwrap_or(Format::Human), file: None }];
    }
    global.output.clone()
}

fn step_summary() -> Option<PathBuf> {
    std::env::var_os("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// Trees, journals, and what pip keeps of a package.
fn is_ours(name: &OsStr) -> bool {
    let name_bytes = name.as_bytes();
    discover::is_tree_name(name) || name_bytes == DIRECTORY.as_bytes() || name_bytes.ends_with(b".dist-info")
}

fn in_the_sdk(file: &Path) -> anyhow::Error {
    let what = format!("the report `{}` would be written into the SDK or its journal", file.display());
    usage(what, "name a file elsewhere, such as one in /tmp")
}

fn usage(what: String, hint: &str) -> anyhow::Error {
    anyhow!(what).context(Hint::new(hint)).context(Exit::Usage)
}

/// Where a file lies, or will lie, without links on the way as far as that can be told.
fn physical(file: &Path) -> PathBuf {
    if let Ok(physical) = file.canonicalize() {
        return physical;
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_path_buf());
    file.file_name().map_or_else(|| file.to_path_buf(), |name| parent.join(name))
}

/// The exit code is settled first; then every format says the same.
#[must_use]
pub fn publish(report: &mut Report, console: &Console, global: &Global) -> Exit {
    for name in global.skip.iter().filter(|name| !report.skipped.contains(name)) {
        report.warnings.push(Warning {
            name: "unused-skip".to_owned(),
            text: format!("--skip {name} names nothing that this command would do"),
        });
    }
    let mut exit = report.exit();
    report.exit_code = exit as u8;
    for output in &outputs(global) {
        if let Err(error) = deliver(report, output, console, global) {
            let error = error.context(UNDELIVERED);
            // Where it was tried beforehand, the report's own error says the same.
            if report.error.as_ref().is_none_or(|trouble| trouble.message != message(&error)) {
                Console::error(&error);
            }
            exit = if report.error.is_none() { Exit::Failed } else { exit };
        }
    }
    if let Some(trouble) = &report.error {
        console.trouble(&trouble.message, trouble.hint.as_deref());
    }
    exit
}

fn deliver(report: &Report, output: &Output, console: &Console, global: &Global) -> anyhow::Result<()> {
    if output.format == Format::Github {
        return to_github(report, output, console);
    }
    let text = match output.format {
        Format::Human if global.quiet && output.file.is_none() => return Ok(()),
        Format::Json => json::render(report)?,
        _ => human::render(
            report,
            human::Look {
                no_truncate: global.no_truncate,
                verbose: global.verbose > 0,
                width: Console::width().filter(|_| output.file.is_none()),
                alone: output.file.is_some(),
            },
        ),
    };
    match &output.file {
        None => Console::result(&text).context("can't write to stdout"),
        Some(file) => {
            let text = if output.format == Format::Human { console::plain(&text) } else { text };
            fsops::write_report(file, text.as_bytes())
                .with_context(|| format!("can't write `{}`", file.display()))
        }
    }
}

/// Annotations go to stdout, where the runner reads them; the table to the named file or to the step's summary.
fn to_github(report: &Report, output: &Output, console: &Console) -> anyhow::Result<()> {
    Console::result(&github::annotations(report)).context("can't write to stdout")?;
    let summary = github::summary(report);
    if let Some(file) = &output.file {
        return fsops::write_report(file, summary.as_bytes())
            .with_context(|| format!("can't write `{}`", file.display()));
    }
    match step_summary() {
        Some(file) => fsops::append(&file, summary.as_bytes())
            .with_context(|| format!("can't write `{}`", file.display())),
        None => {
            console.note("GITHUB_STEP_SUMMARY is not set: no step summary is written");
            Ok(())
        }
    }
}
