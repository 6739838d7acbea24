//! `patch`: from a recipe or a folder of patches to a plan, and from what was made of it to the report.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use crate::apply::Outcome;
use crate::cli;
use crate::dist;
use crate::error::{Exit, Hint};
use crate::ground::is_within;
use crate::journal::Run;
use crate::model::{Distribution, normalised};
use crate::patch::lint::Origin;
use crate::patch::past::Past;
use crate::patch::plan::{Direction, Options, Planned};
use crate::patch::report::State;
use crate::patch::target::{self, Ground};
use crate::patch::{self, Plain};
use crate::recipe::when::Facts;
use crate::recipe::{Recipe, embedded};
use crate::report::Report;
use crate::session::Session;
use crate::verbs::recipe::{Loaded, read_patch};

/// What conditions and targets are about, gathered once.
pub struct Known {
    pub distributions: Vec<Distribution>,
    unclear: Vec<String>,
    /// What recorded runs found, where that is asked for.
    pub past: Past,
}

impl Known {
    /// # Errors
    /// When a distribution's metadata can't be read.
    pub fn of(session: &Session<'_>) -> Result<Self> {
        let sites = &session.env.site_packages;
        let distributions = dist::all_or_fail(sites)?;
        Ok(Self { distributions, unclear: dist::unclear(sites), past: Past::default() })
    }

    /// Reads the journals, for taking patches back. Call after [`Session::prepare`].
    ///
    /// # Errors
    /// When one is damaged or not to be trusted.
    pub fn recall(&mut self, session: &Session<'_>) -> Result<()> {
        self.past = Past::new(session.journals()?, session.runs()?.to_vec());
        Ok(())
    }

    #[must_use]
    pub fn facts<'a>(&'a self, session: &'a Session<'_>) -> Facts<'a> {
        Facts {
            distributions: &self.distributions,
            unclear: &self.unclear,
            env: &variable,
            glibc: session.env.glibc.as_deref(),
            python: session.env.interpreter.as_ref().map(|i| i.version.as_str()),
            arch: std::env::consts::ARCH,
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Plans the patches of a recipe, less those that `--skip` or an allowance leaves out.
///
/// # Errors
/// See [`patch::of_recipe`].
pub fn of_recipe(
    session: &Session<'_>,
    known: &Known,
    loaded: &Loaded,
    options: &Options<'_>,
    report: &mut Report,
) -> Result<Planned> {
    let ground =
        Ground { site_packages: &session.env.site_packages, facts: known.facts(session), past: &known.past };
    let origin = if loaded.is_embedded() { Origin::Shipped } else { Origin::User };
    let plan =
        |recipe: &Recipe| patch::of_recipe(recipe, &|file| loaded.patch_file(file), origin, &ground, options);
    let mut recipe = loaded.recipe.clone();
    for patch in recipe.patch.extract_if(.., |patch| session.global.skip.contains(&patch.name)) {
        report.skipped.push(patch.name);
    }
    let mut found = plan(&recipe)?;
    // All or nothing: patches whose refusal is allowed must not hold up the others.
    let allowed = |name: &str| !session.global.no_allow && loaded.allows(name).is_some();
    let (tolerated, stopped): (Vec<_>, Vec<_>) =
        found.patches.iter().filter(|p| p.refused).cloned().partition(|p| allowed(&p.name));
    if !tolerated.is_empty() && stopped.is_empty() {
        recipe.patch.retain(|patch| !tolerated.iter().any(|p| p.name == patch.name));
        found = plan(&recipe)?;
        found.patches.extend(tolerated);
    }
    report.notes.append(&mut found.notes);
    Ok(found)
}

/// Plans the plain patches of a folder, in the order of their names.
///
/// # Errors
/// When the folder has none, or one can't be read; see [`patch::of_files`].
pub fn of_folder(
    session: &Session<'_>,
    known: &Known,
    args: &cli::Patch,
    dir: &Path,
    options: &Options<'_>,
    report: &mut Report,
) -> Result<Planned> {
    let doing = || format!("can't read the folder `{}`", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(doing).context(Exit::Usage)? {
        let path = entry.with_context(doing)?.path();
        if [Some(OsStr::new("patch")), Some(OsStr::new("diff"))].contains(&path.extension()) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let hint = Hint::new("patches there are named *.patch or *.diff");
        return Err(anyhow!("there is no patch in `{}`", dir.display()).context(hint).context(Exit::Usage));
    }
    let mut patches: Vec<(PathBuf, Plain)> = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(skip) = session.global.skip.iter().find(|skip| **skip == name || **skip == file) {
            report.skipped.push(skip.clone());
            continue;
        }
        let called = |plain: &(PathBuf, Plain)| normalised(&plain.1.name) == normalised(&name);
        if let Some((other, _)) = patches.iter().find(|plain| called(plain)) {
            let hint = Hint::new(format!("rename one of them, or leave one out: --skip {file}"));
            let text =
                format!("`{}` and `{}` would both be the patch `{name}`", other.display(), path.display());
            return Err(anyhow!(text).context(hint).context(Exit::Usage));
        }
        patches.push((path.clone(), Plain { name, bytes: read_patch(&path).context(Exit::Usage)? }));
    }
    let ground =
        Ground { site_packages: &session.env.site_packages, facts: known.facts(session), past: &known.past };
    let patches: Vec<Plain> = patches.into_iter().map(|(_, plain)| plain).collect();
    let mut found = patch::of_files(&patches, Some(args.strip), None, &ground, options)?;
    report.notes.append(&mut found.notes);
    Ok(found)
}

/// The directories outside of site-packages in which a recipe's patches may change files.
#[must_use]
pub fn extra_roots(session: &Session<'_>, known: &Known, recipe: &Recipe) -> Vec<PathBuf> {
    let ground =
        Ground { site_packages: &session.env.site_packages, facts: known.facts(session), past: &known.past };
    let copies =
        recipe.patch.iter().filter_map(|patch| target::copies(&patch.target, &ground).ok()).flatten();
    copies.map(|copy| copy.root).collect()
}

/// Lets undo and tidying reach what recorded runs changed outside of site-packages: the places that the named recipe
/// gives, and those of the built-in recipes that runs recorded. A journal grants nothing, so that a file which only a
/// journal names widens nothing: who may write the one may not be allowed to write there.
///
/// # Errors
/// When a journal is damaged or not to be trusted, or the named recipe can't be read.
pub fn widen(session: &mut Session<'_>, named: Option<&str>) -> Result<()> {
    let allowed = session.allowed();
    let is_outside = |run: &Run| !run.record.plan.roots.iter().all(|root| is_within(root, &allowed));
    let outside: Vec<&Run> =
        session.runs()?.iter().map(|(_, run)| run).filter(|run| is_outside(run)).collect();
    if outside.is_empty() {
        return Ok(());
    }
    let recorded = outside.iter().filter_map(|run| run.record.recipe.as_deref());
    let recipes: BTreeSet<&str> =
        recorded.filter(|name| embedded::recipe(name).is_some()).chain(named).collect();
    let known = Known::of(session)?;
    let mut roots = Vec::new();
    for recipe in recipes {
        roots.extend(extra_roots(session, &known, &Loaded::load(Some(recipe))?.recipe));
    }
    session.extra_roots.extend(roots);
    Ok(())
}

/// What the report says once the plan was carried out, or was not.
pub fn done(planned: Planned, outcome: &Outcome, made: bool, direction: Direction, report: &mut Report) {
    let (dry, refused) = (report.dry_run && direction == Direction::Apply, planned.refused);
    let told = planned.patches.into_iter().map(|patch| match (made, direction) {
        (false, _) if dry && !refused => patch.not_yet_applied(),
        (true, Direction::Apply) => patch.applied(),
        (true, Direction::Revert) => patch.reverted(),
        (false, _) => patch,
    });
    report.patches = told.collect();
    let changed: Vec<_> = outcome.refused.iter().map(|r| (r.path.clone(), r.reason.clone())).collect();
    for patch in &mut report.patches {
        for (path, reason) in &changed {
            if patch.files.iter().any(|file| Path::new(&file.path) == path) {
                patch.refused = true;
                patch.state = State::Conflict;
                patch.notes.push(format!("`{}`: {reason}", path.display()));
            }
        }
    }
}

/// Names the plain patches that runs recorded, and whether they are still there.
///
/// # Errors
/// When a journal is damaged or not to be trusted, or a file can't be read.
pub fn recorded(session: &Session<'_>, report: &mut Report) -> Result<()> {
    let found = patch::recorded::recorded(session.runs()?, &session.allowed())?;
    if found.iter().any(|patch| patch.is_pending() && !patch.is_refused()) {
        report
            .next
            .push("rocm-fixup patch --from DIR, with the folder that the patches came from".to_owned());
    }
    report.patches.extend(found);
    Ok(())
}

/// Where a name is given, its absence is an error.
pub fn insist(names: &[String], report: &mut Report) {
    let named = |patch: &str| names.iter().any(|name| normalised(name) == normalised(patch));
    for patch in report.patches.iter_mut().filter(|patch| named(&patch.name)) {
        let absent = matches!(patch.state, State::NotInstalled | State::Skipped | State::NotApplicable);
        patch.refused |= absent;
    }
}
