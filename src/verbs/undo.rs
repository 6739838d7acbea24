//! `undo`: which recorded runs are taken back, and what the report says of them.

use std::path::PathBuf;

use anyhow::anyhow;

use crate::cli;
use crate::console;
use crate::error::{Exit, Hint, message};
use crate::journal::{Ended, Journal, Record, Run};
use crate::report::{Report, Undo};
use crate::session::{Session, run_ref};
use crate::undo::{self, Pretend, Undone};
use crate::verbs::{self, refusals};

/// Takes back one run, or all of them.
///
/// # Errors
/// When the run isn't recorded, or something can't be read or written.
pub fn undo(session: &mut Session<'_>, args: &cli::Undo, report: &mut Report) -> anyhow::Result<()> {
    verbs::patch::widen(session, args.recipe.as_deref())?;
    session.prepare()?;
    let journals = session.journals()?;
    let mut runs = session.runs()?.to_vec();
    let mut told = Undo::default();
    let mut newer = Vec::new();
    if let Some(id) = &args.id {
        let Some(at) = runs.iter().rposition(|(_, run)| run.record.id == *id) else {
            return Err(anyhow!("no run {id} is recorded").context(Hint::new("rocm-fixup status names them")));
        };
        newer = runs.split_off(at + 1).into_iter().map(|(_, run)| run.record).collect();
    }
    if runs.is_empty() {
        report.notes.push("nothing to undo: no run is recorded".to_owned());
    }
    let allowed = session.allowed();
    let mut pretend = Pretend::default();
    while let Some((journal, run)) = runs.pop() {
        let (journal, record) = (&journals[journal], run.record);
        let more = args.all || (record.continues && args.id.is_none());
        if let Some(error) = too_early(&record, &newer) {
            report.fail(&error);
            newer.insert(0, record);
        } else {
            let undone = if session.global.dry_run {
                undo::judge(&record, journal, &allowed, &mut pretend)
            } else {
                undo::undo(&record, journal, &allowed)
            };
            let undone = match undone {
                Ok(undone) => undone,
                Err(error) => {
                    // The runs that were taken back before this one are told all the same.
                    report.fail(&hinted(error.context(format!("can't undo run {}", record.id))));
                    break;
                }
            };
            tell(&undone, &record, journal, &mut told, report);
            if let Some(error) = undone.failed {
                report.fail(&hinted(error.context(format!("can't undo run {}", record.id))));
                break;
            }
            if !undone.refused.is_empty() {
                newer.insert(0, record);
            }
        }
        if !more {
            break;
        }
    }
    if report.error.is_none() && told.refused.is_empty() {
        report.notes.extend(runs.last().and_then(|(_, run)| stopped(run)));
    }
    report.undo = Some(told);
    Ok(())
}

/// Why a run can't be taken back before these newer ones, if it can't.
fn too_early(record: &Record, newer: &[Record]) -> Option<anyhow::Error> {
    let newer: Vec<&Record> = newer.iter().collect();
    let ids = undo::in_the_way(record, &newer);
    let first: Vec<String> = ids.iter().map(|id| format!("rocm-fixup undo {id}")).collect();
    (!ids.is_empty()).then(|| {
        let why =
            format!("run {} is older than run {}, which changed the same", record.id, ids.join(" and run "));
        let hint = format!("first {}; then rocm-fixup undo {}", first.join(", "), record.id);
        anyhow!(why).context(Hint::new(hint)).context(Exit::Refused)
    })
}

fn tell(undone: &Undone, record: &Record, journal: &Journal, told: &mut Undo, report: &mut Report) {
    told.runs.push(record.id.clone());
    told.restored += undone.restored.len() as u64;
    told.already += undone.already as u64;
    told.gone += undone.gone.len() as u64;
    told.refused.extend(refusals(&undone.refused));
    report.notes.extend(gone(&record.id, &undone.gone, "there was nothing to take back at them"));
    for path in &undone.kept {
        let path = console::path(path);
        report.notes.push(format!("`{path}` stays a file: the link that it was led to what is gone"));
    }
    if !undone.refused.is_empty() {
        report.next.push(leave_it(journal, &record.id));
    }
}

/// A stopped run that no later one went on from is taken back alone, and easily overlooked.
fn stopped(run: &Run) -> Option<String> {
    let stopped = !run.moved && matches!(run.ended, None | Some(Ended::Stopped));
    let id = &run.record.id;
    stopped.then(|| format!("run {id} was stopped half-way: rocm-fixup undo {id} takes back what it made"))
}

fn hinted(error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref::<Hint>().is_some() {
        return error;
    }
    error.context(Hint::new("mend the cause and type rocm-fixup undo again: it goes on from here"))
}

/// What to do where something changed since the run.
fn leave_it(journal: &Journal, id: &str) -> String {
    let path = console::path(&journal.path_of(id));
    format!("reinstall what was changed, then rocm-fixup undo; or leave it so for good: rm {path}")
}

/// Puts the recorded runs into the report, with what stands in the way of taking them back.
///
/// # Errors
/// When a journal is damaged or not to be trusted.
pub fn recorded(session: &Session<'_>, report: &mut Report) -> anyhow::Result<()> {
    let journals = session.journals()?;
    let allowed = session.allowed();
    for (journal, run) in session.runs()? {
        let id = &run.record.id;
        let mut told = run_ref(run);
        if let Some(home) = &told.moved_from {
            report.notes.push(format!(
                "run {id} was made in `{home}`, and this is a copy of that tree: what it did holds here too, but undo \
                 can't take it back here"
            ));
        } else {
            match undo::paths_gone(&run.record, &journals[*journal], &allowed) {
                Ok(paths) => {
                    told.gone = paths.len() as u64;
                    report.notes.extend(gone(
                        id,
                        &paths,
                        "rocm-fixup undo --dry-run tells what of the rest is taken back",
                    ));
                }
                Err(error) => report.notes.push(format!("undo can't take it back: {}", message(&error))),
            }
        }
        report.runs.push(told);
    }
    Ok(())
}

/// Whether nothing lies about of runs that were interrupted before their tree was copied here.
///
/// # Errors
/// As told by [`undo::nothing_left`], and when a journal is damaged or not to be trusted.
pub fn nothing_left_in_copies(session: &Session<'_>) -> anyhow::Result<()> {
    let journals = session.journals()?;
    let mut copied = session.runs()?.iter().filter(|(_, run)| run.moved && run.unsettled());
    copied.try_for_each(|(journal, run)| undo::nothing_left(&run.record, &journals[*journal]))
}

/// One sentence on the paths that are gone, naming some.
fn gone(id: &str, paths: &[PathBuf], then: &str) -> Option<String> {
    let (first, more) = (paths.first()?, paths.len() - 1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "of run {id}, `{}`{more} went with what was uninstalled or replaced since; {then}",
        console::path(first)
    ))
}
