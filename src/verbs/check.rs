//! `require` and `smoke`: which checks are made, in which order, and why one is skipped.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

use crate::check::{
    self, CheckResult, Kind, LIBRARY_TIMEOUT, LibraryOptions, Requirement, SmokeCheck, require, smoke,
};
use crate::cli;
use crate::error::{Exit, Hint};
use crate::python::Interpreter;
use crate::recipe::{Recipe, glob_matches};
use crate::report::Report;
use crate::session::Session;
use crate::verbs::patch::Known;

/// Checks the named rules.
///
/// # Errors
/// Exit 2 where one can't be read.
pub fn require_rules(session: &Session<'_>, rules: &[String], report: &mut Report) -> Result<()> {
    let parsed = rules.iter().map(|rule| parsed(rule)).collect::<Result<Vec<_>>>()?;
    report.checks.extend(parsed.iter().map(|rule| require(rule, &session.env)));
    Ok(())
}

fn parsed(rule: &str) -> Result<Requirement> {
    rule.parse::<Requirement>().map_err(|error| {
        anyhow!("{error}").context(format!("can't read the rule `{rule}`")).context(Exit::Usage)
    })
}

/// Checks what a recipe requires, where its conditions hold.
///
/// # Errors
/// Exit 2 where a rule can't be read.
pub fn require_recipe(
    session: &Session<'_>,
    known: &Known,
    recipe: &Recipe,
    report: &mut Report,
) -> Result<()> {
    for entry in &recipe.require {
        if leave_out(session, &entry.name, report) {
            continue;
        }
        let result = match entry.when.skipped_check(&known.facts(session)) {
            Some(why) => CheckResult::skipped(&entry.name, Kind::Require, plain(&why)),
            None => CheckResult {
                name: entry.name.clone(),
                reason: Some(entry.reason.clone()),
                ..require(&parsed(&entry.rule)?, &session.env)
            },
        };
        report.checks.push(result);
    }
    Ok(())
}

/// Whether `--skip` names it; the report keeps that.
pub(super) fn leave_out(session: &Session<'_>, name: &str, report: &mut Report) -> bool {
    let skipped = session.global.skip.iter().any(|skip| skip == name);
    if skipped {
        report.skipped.push(name.to_owned());
    }
    skipped
}

/// The verdict says "skipped" already.
fn plain(why: &str) -> String {
    why.strip_prefix("skipped: ").unwrap_or(why).to_owned()
}

/// How the smoke checks are to be run, over what the recipe says.
#[derive(Clone, Debug, Default)]
pub struct How {
    pub preload: Vec<String>,
    pub timeout: Option<u64>,
    pub gpu_optional: bool,
}

impl From<&cli::Smoke> for How {
    fn from(args: &cli::Smoke) -> Self {
        Self { preload: args.preload.clone(), timeout: args.timeout, gpu_optional: args.gpu_optional }
    }
}

/// Imports the named modules, each in a process of its own. A module that the recipe knows is checked as it says.
///
/// # Errors
/// When there is no interpreter. What goes wrong with one check is in the report, and stops no other.
pub fn smoke_modules(
    session: &Session<'_>,
    recipe: &Recipe,
    modules: &[String],
    how: &How,
    report: &mut Report,
) -> Result<()> {
    let interpreter = interpreter(session)?;
    for module in modules {
        if session.global.skip.contains(module) {
            return Err(anyhow!("`{module}` is to be checked and to be skipped").context(Exit::Usage));
        }
        let entry = recipe.smoke.iter().find(|entry| entry.name == *module || entry.module == *module);
        let check = entry.map_or_else(|| SmokeCheck::new(module), of_entry);
        one(session, interpreter, how.over(check), report);
    }
    Ok(())
}

/// Runs a recipe's import checks, where their conditions hold.
///
/// # Errors
/// When there is something to run and no interpreter.
pub fn smoke_recipe(
    session: &Session<'_>,
    known: &Known,
    recipe: &Recipe,
    how: &How,
    report: &mut Report,
) -> Result<()> {
    for entry in &recipe.smoke {
        if leave_out(session, &entry.name, report) {
            continue;
        }
        match entry.when.skipped_check(&known.facts(session)) {
            Some(why) => report.checks.push(CheckResult::skipped(&entry.name, Kind::Smoke, plain(&why))),
            None => one(session, interpreter(session)?, how.over(of_entry(entry)), report),
        }
    }
    Ok(())
}

/// The checks that are not run because something was refused, or failed, before.
pub fn not_run(recipe: &Recipe, report: &mut Report) {
    let why = match &report.error {
        Some(_) => "the run failed before (--keep-going runs it all the same)",
        None => "something was refused before (--keep-going runs it all the same)",
    };
    let skipped = recipe.smoke.iter().map(|entry| CheckResult::skipped(&entry.name, Kind::Smoke, why));
    report.checks.extend(skipped);
}

fn interpreter<'s>(session: &'s Session<'_>) -> Result<&'s Interpreter> {
    session.env.interpreter.as_ref().context("import checks need an interpreter").map_err(|error| {
        error.context(Hint::new("name it with --python, beside or in place of --site-packages"))
    })
}

fn of_entry(entry: &crate::recipe::Smoke) -> SmokeCheck {
    SmokeCheck {
        name: entry.name.clone(),
        module: entry.module.clone(),
        preload: entry.preload.clone(),
        env: entry.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        timeout: Duration::from_secs(entry.timeout),
        gpu_optional: entry.gpu_optional,
        reason: Some(entry.reason.clone()),
    }
}

impl How {
    fn over(&self, mut check: SmokeCheck) -> SmokeCheck {
        if !self.preload.is_empty() {
            check.preload.clone_from(&self.preload);
        }
        if let Some(seconds) = self.timeout {
            check.timeout = Duration::from_secs(seconds);
        }
        check.gpu_optional |= self.gpu_optional;
        check
    }
}

fn one(session: &Session<'_>, interpreter: &Interpreter, check: SmokeCheck, report: &mut Report) {
    let bar = session.console.progress(&format!("importing {}", check.module), 1, false);
    match smoke(interpreter, &check) {
        Ok(result) => report.checks.push(result),
        Err(error) => report.fail(&error),
    }
    drop(bar);
}

/// Opens every shared library of the SDK's trees, and each of devel with the one that it doubles, in both orders.
///
/// # Errors
/// When there is no interpreter, or a tree can't be walked.
pub fn libraries(session: &Session<'_>, recipe: &Recipe, how: &How, report: &mut Report) -> Result<()> {
    let exception = |path: &str| {
        let known = recipe.library.iter().find(|library| glob_matches(&library.glob, path));
        known.map(|library| library.reason.clone())
    };
    let options = LibraryOptions {
        exception: &exception,
        timeout: how.timeout.map_or(LIBRARY_TIMEOUT, Duration::from_secs),
        gpu_optional: how.gpu_optional,
    };
    let bar = session.console.progress("opening libraries", 1, false);
    report.checks.extend(check::libraries(interpreter(session)?, &session.env.trees, &options)?);
    drop(bar);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_is_not_run_says_whether_something_failed_or_was_refused() {
        let text = "name='x'\ndescription='y'\n[[smoke]]\nname='s'\nmodule='m'\nreason='r'\n";
        let recipe = crate::recipe::read(text).unwrap();
        let mut report = Report::new("run", false);
        not_run(&recipe, &mut report);
        report.fail(&anyhow!("no space left on device"));
        not_run(&recipe, &mut report);
        assert!(report.checks[0].detail.starts_with("something was refused before"));
        assert!(report.checks[1].detail.starts_with("the run failed before"));
    }
}
