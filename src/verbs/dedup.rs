//! `dedup`: from an image to a plan, and from what was made of it to the report.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::apply::Outcome;
use crate::cli;
use crate::dedup::{self, DedupPlan, Progress};
use crate::discover::DevelState;
use crate::journal::Journal;
use crate::model::{Entry, Plan, Role, Source};
use crate::report::{Conflict, Dedup, LeftAlone, Linked, PathText, Report};
use crate::session::Session;
use crate::verbs::{self, refusals};

/// Plans the merge of duplicate libraries; the report tells what is to be done until [`done`] corrects it.
///
/// # Errors
/// When the trees can't be read.
pub fn plan(
    session: &Session<'_>,
    options: &cli::Dedup,
    hash: bool,
    report: &mut Report,
) -> anyhow::Result<DedupPlan> {
    if !session.env.trees.iter().any(|tree| tree.role == Role::Devel) {
        report.notes.push("no devel tree: nothing to merge".to_owned());
    }
    let mut options = dedup::Options {
        device_links: options.device_links,
        keep_hard_links: options.keep_hard_links,
        hash,
        ..dedup::Options::default()
    };
    remember(session, &mut options)?;
    let bar = session.console.progress("comparing libraries", 0, true);
    let planned = dedup::plan(&session.env.trees, &options, &|progress| match progress {
        Progress::Total(bytes) => bar.grow(bytes),
        Progress::Done(bytes) => bar.add(bytes),
    })?;
    drop(bar);
    report.notes.extend(planned.notes.iter().cloned());
    planned.doubles.iter().for_each(|text| report.warn("one-soname", text));
    let mut told = tell(&planned);
    if not_expanded(&session.env.devel, &mut told) {
        report.next.push("rocm-sdk init, then this again, in the same RUN".to_owned());
    }
    report.dedup = Some(told);
    Ok(planned)
}

/// `rocm-sdk init` must come first: a tree that is expanded later would bring new copies.
fn not_expanded(devel: &DevelState, told: &mut Dedup) -> bool {
    let (tarball, reason, how) = match devel {
        DevelState::Unexpanded { tarball } => (tarball, "unexpanded", "is not expanded yet"),
        DevelState::HalfExpanded { tarball } => (tarball, "half-expanded", "was expanded only in part"),
        DevelState::None | DevelState::Expanded => return false,
    };
    if !told.conflicts.iter().any(|conflict| conflict.reason == reason) {
        told.conflicts.push(Conflict {
            path: PathText::from(tarball.as_path()),
            other: None,
            reason: reason.to_owned(),
            detail: format!("the devel package {how}: run `rocm-sdk init` first, in the same RUN"),
            allowed: false,
        });
    }
    true
}

/// Names that earlier runs made links or re-made as hard links, the latter with the time that they got. All is still so
/// in a copy of the tree.
fn remember(session: &Session<'_>, options: &mut dedup::Options) -> anyhow::Result<()> {
    let journals = session.journals()?;
    for (journal, run) in session.runs()? {
        let (then, now) = (&run.record.site_packages, journals[*journal].site_packages().path());
        let plan = &run.record.plan;
        let at = i128::from(run.record.started_second()) * 1_000_000_000;
        for change in &plan.changes {
            let path = plan.absolute(&change.at);
            let path = path.strip_prefix(then).map(|path| now.join(path)).unwrap_or(path);
            match &change.after {
                Entry::File(file) if file.source == Source::Refresh => {
                    options.refreshed.insert((path, at));
                }
                Entry::Symlink { .. } => {
                    options.linked.insert(path);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn tell(planned: &DedupPlan) -> Dedup {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Dedup {
        linked: planned
            .linked
            .iter()
            .map(|l| Linked {
                path: PathText::from(l.path.as_path()),
                target: text(&l.target),
                was: name_of(&l.was),
                bytes: l.bytes,
                blake3: l.blake3.map(crate::model::Digest::to_hex),
            })
            .collect(),
        relinked: planned.remade.iter().map(|r| PathText::from(r.path.as_path())).collect(),
        already: planned.already,
        bytes_freed: planned.bytes_freed,
        left_alone: planned
            .left_alone
            .iter()
            .map(|l| LeftAlone {
                path: PathText::from(l.path.as_path()),
                reason: name_of(&l.reason),
                detail: l.detail.clone(),
            })
            .collect(),
        conflicts: planned
            .conflicts
            .iter()
            .map(|c| Conflict {
                path: PathText::from(c.path.as_path()),
                other: c.other.as_deref().map(text),
                reason: name_of(&c.reason),
                detail: c.detail.clone(),
                allowed: false,
            })
            .collect(),
    }
}

/// The stable kebab-case name of a reason.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Corrects the report by what was really done: refused groups were not merged.
pub fn done(planned: &DedupPlan, outcome: &Outcome, plan: &Plan, report: &mut Report) {
    let made: HashSet<PathBuf> = outcome.made.iter().map(|i| plan.absolute(&plan.changes[*i].at)).collect();
    let Some(dedup) = &mut report.dedup else { return };
    let kept = |path: &Path| made.contains(path);
    let mut linked = planned.linked.iter();
    dedup.linked.retain(|_| linked.next().is_some_and(|l| kept(&l.path)));
    let mut remade = planned.remade.iter();
    dedup.relinked.retain(|_| remade.next().is_some_and(|r| kept(&r.path)));
    if dedup.linked.len() < planned.linked.len() {
        dedup.bytes_freed = dedup.linked.iter().filter(|l| l.was == "copy").map(|l| l.bytes).sum();
    }
    dedup.conflicts.extend(refusals(&outcome.refused));
}

/// What to do next, and what a container's file system means for what was done (facts.md, section 2).
pub fn advise(session: &Session<'_>, report: &mut Report) {
    let patches = report.patches.iter().any(|patch| patch.is_pending() && !patch.is_refused());
    let merges = report.dedup.iter().any(|d| !d.linked.is_empty() || !d.relinked.is_empty());
    if report.dry_run || report.command == "status" {
        if let Err(error) = verbs::undo::nothing_left_in_copies(session) {
            // The real run would say so, and do nothing.
            return report.fail(&error);
        }
        match &report.recipe {
            Some(recipe) if patches || (merges && report.command == "run") => {
                report.next.push(format!("rocm-fixup run --recipe {recipe}"));
            }
            _ if merges => report.next.push("rocm-fixup dedup".to_owned()),
            _ => {}
        }
    }
    let Some(dedup) = &report.dedup else { return };
    let done = !dedup.linked.is_empty() && !report.dry_run;
    let freed = dedup.bytes_freed;
    if done && session.home().is_some_and(on_overlay) && freed > 0 {
        report.notes.push(format!(
            "lower image layers keep their {}: install the SDK, `rocm-sdk init` and rocm-fixup in one RUN",
            crate::report::human::mib(freed)
        ));
    }
    if report.runs.iter().any(|run| run.state.contains("interrupted") && run.moved_from.is_none()) {
        report
            .next
            .push("the same command again goes on from there, rocm-fixup undo takes it back".to_owned());
    }
    let reinstall = |c: &&Conflict| {
        ["content", "alias-content", "other-file", "dangling", "link-loop"].contains(&c.reason.as_str())
    };
    if dedup.conflicts.iter().filter(|c| !c.allowed).any(|c| reinstall(&c)) {
        report.next.push("reinstall the package that owns the named file, then rocm-fixup dedup".to_owned());
    }
}

fn on_overlay(site_packages: &Path) -> bool {
    Journal::open(site_packages).is_ok_and(|journal| journal.site_packages().on_overlay())
}
