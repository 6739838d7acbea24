//! The second look of `run`, after its import checks: an import runs foreign code in the image, which may change what was
//! just made or found done, as where it expands the SDK's devel tree. Reads only.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::apply::Outcome;
use crate::check::{CheckResult, Kind, Verdict};
use crate::cli;
use crate::model::Plan;
use crate::patch::plan::{Direction, Options};
use crate::patch::report::{PatchReport, State};
use crate::report::human::count;
use crate::report::{Conflict, Report};
use crate::session::Session;
use crate::verbs;
use crate::verbs::patch::Known;
use crate::verbs::recipe::Loaded;

/// The check that fails then; there is no such row otherwise.
pub const NAME: &str = "changed-by-import";
/// How many paths are named.
const NAMED: usize = 3;

/// Plans once more what `run` planned, and tells what there is to do again. `unmade` was so before the imports.
///
/// # Errors
/// When the trees or patched files can't be read any more.
pub fn look(
    session: &Session<'_>,
    dedup: &cli::Dedup,
    allow_drift: bool,
    loaded: &Loaded,
    unmade: &HashSet<PathBuf>,
    report: &mut Report,
) -> Result<()> {
    let imported = |check: &CheckResult| check.kind == Kind::Smoke && check.verdict != Verdict::Skipped;
    if session.global.dry_run || !report.checks.iter().any(imported) {
        return Ok(());
    }
    if verbs::check::leave_out(session, NAME, report) {
        return Ok(());
    }
    let began = Instant::now();
    let mut now = Report::new("status", true);
    let session = &session.again()?;
    if report.dedup.is_some() {
        verbs::dedup::plan(session, dedup, false, &mut now)?;
    }
    if !session.global.skip.iter().any(|name| name == "patch") {
        let options = Options { direction: Direction::Apply, allow_drift, names: &[] };
        now.patches =
            verbs::patch::of_recipe(session, &Known::of(session)?, loaded, &options, &mut now)?.patches;
    }
    if !session.global.no_allow {
        verbs::recipe::mark_all(loaded, &mut now);
    }
    let found = Changed::between(report, &now, unmade);
    if found.is_nothing() {
        return Ok(());
    }
    let mut row = CheckResult::new(NAME, Kind::Smoke, Verdict::Fail, found.told());
    row.seconds = began.elapsed().as_secs_f64();
    report.checks.push(row);
    let verb = if found.names.is_empty() && found.patches.iter().all(PatchReport::is_refused) {
        "status"
    } else {
        "run"
    };
    let recipe = report.recipe.as_deref().unwrap_or_default();
    report.next.push(format!("rocm-fixup {verb} --recipe {recipe}"));
    // Refused is refused, whoever made it so.
    for patch in found.patches.into_iter().filter(PatchReport::is_refused) {
        report.patches.retain(|before| before.name != patch.name);
        report.patches.push(patch);
    }
    report.dedup.iter_mut().for_each(|told| told.conflicts.extend(found.conflicts.iter().cloned()));
    Ok(())
}

/// Paths of planned changes that were not made: an import has no part in that.
#[must_use]
pub fn unmade(plan: &Plan, outcome: &Outcome) -> HashSet<PathBuf> {
    let changes = plan.changes.iter().enumerate();
    changes.filter(|(at, _)| !outcome.made.contains(at)).map(|(_, c)| plan.absolute(&c.at)).collect()
}

/// What is to be done now, and was not before the imports.
struct Changed {
    /// Names of libraries, to be merged or to be linked again.
    names: Vec<String>,
    patches: Vec<PatchReport>,
    conflicts: Vec<Conflict>,
}

impl Changed {
    fn between(before: &Report, now: &Report, unmade: &HashSet<PathBuf>) -> Self {
        let unmade: HashSet<String> = unmade.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let dedup = now.dedup.iter();
        let linked = dedup.clone().flat_map(|d| d.linked.iter().map(|l| &l.path).chain(&d.relinked));
        let names = linked.map(|path| path.path.clone()).filter(|path| !unmade.contains(path)).collect();
        let open = |patch: &PatchReport| patch.is_pending() || patch.is_refused();
        let was_open = |patch: &&PatchReport| {
            let same = before.patches.iter().find(|one| one.name == patch.name);
            same.is_some_and(|one| open(one) || one.allowed)
        };
        let known: HashSet<_> =
            before.dedup.iter().flat_map(|d| &d.conflicts).map(|c| (&c.path.path, &c.reason)).collect();
        let conflicts = dedup.flat_map(|d| &d.conflicts).filter(|c| !c.allowed);
        Self {
            names,
            patches: now.patches.iter().filter(|p| open(p) && !was_open(p)).cloned().collect(),
            conflicts: conflicts.filter(|c| !known.contains(&(&c.path.path, &c.reason))).cloned().collect(),
        }
    }

    fn is_nothing(&self) -> bool {
        self.names.is_empty() && self.patches.is_empty() && self.conflicts.is_empty()
    }

    /// What it is in one line, and some of the paths in lines of their own.
    fn told(&self) -> String {
        let mut parts = Vec::new();
        if !self.names.is_empty() {
            parts.push(format!("{} to merge", count(self.names.len() as u64, "library name")));
        }
        if !self.conflicts.is_empty() {
            parts.push(format!("{} not as expected", count(self.conflicts.len() as u64, "path")));
        }
        for patch in &self.patches {
            parts.push(format!("patch {} is not in place", patch.name));
        }
        let files = self.patches.iter().flat_map(|patch| &patch.files);
        let files = files.filter(|file| file.state != State::Applied).map(|file| &file.path);
        let paths: Vec<&String> =
            self.names.iter().chain(self.conflicts.iter().map(|c| &c.path.path)).chain(files).collect();
        let mut lines = vec![format!("an import check changed the installed packages: {}", parts.join(", "))];
        lines.extend(paths.iter().take(NAMED).map(|path| (*path).clone()));
        if paths.len() > NAMED {
            lines.push(format!("and {} more", paths.len() - NAMED));
        }
        lines.join("\n")
    }
}
