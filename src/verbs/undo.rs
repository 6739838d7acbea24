//! `undo`: which recorded runs are taken back, and what the report says of it.

use anyhow::{Context as _, anyhow};

use crate::cli;
use crate::error::Hint;
use crate::report::{Report, Undo};
use crate::session::Session;
use crate::undo;
use crate::verbs::refusals;

/// Takes back one run, or all of them.
///
/// # Errors
/// When the run isn't recorded, or something can't be read or written.
pub fn undo(session: &mut Session<'_>, args: &cli::Undo, report: &mut Report) -> anyhow::Result<()> {
    session.prepare()?;
    let journals = session.journals()?;
    let mut runs = session.runs(&journals)?;
    let mut told = Undo::default();
    if let Some(id) = &args.id {
        runs.retain(|(_, run)| run.record.id == *id);
        if runs.is_empty() {
            return Err(anyhow!("no run {id} is recorded").context(Hint::new("rocm-fixup status names them")));
        }
    }
    if runs.is_empty() {
        report.notes.push("nothing to undo: no run is recorded".to_owned());
    }
    let allowed = session.allowed();
    while let Some((journal, run)) = runs.pop() {
        let record = &run.record;
        if session.global.dry_run {
            told.restored += record.plan.changes.len() as u64;
        } else {
            let undone = undo::undo(record, &journals[journal], &allowed)
                .with_context(|| format!("can't undo run {}", record.id))
                .map_err(|e| {
                    e.context(Hint::new(
                        "mend the cause and type rocm-fixup undo again: it goes on from here",
                    ))
                })?;
            told.restored += undone.restored.len() as u64;
            told.already += undone.already as u64;
            told.refused.extend(refusals(&undone.refused));
        }
        told.runs.push(record.id.clone());
        if !(args.all || (record.continues && args.id.is_none())) {
            break;
        }
    }
    report.undo = Some(told);
    Ok(())
}
