//! Plain patches that recorded runs made, and whether they are still in place. No recipe tells of them, only the journal
//! does. Looks at their files, never writes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::read::{self, Found};
use super::report::{FileReport, PatchReport, State};
use crate::ground::is_within;
use crate::journal::{Ended, Run};
use crate::model::{Digest, Entry, RelPath};

type File = (PathBuf, RelPath);

/// A patch as the runs left it: the last one's id, and its files.
#[derive(Default)]
struct Made {
    run: String,
    files: Vec<File>,
}

/// A report for each plain patch that was made and not taken back. Only files within `allowed` are looked at.
///
/// # Errors
/// I/O errors.
pub fn recorded(runs: &[(usize, Run)], allowed: &[PathBuf]) -> Result<Vec<PatchReport>> {
    let mut made: BTreeMap<&str, Made> = BTreeMap::new();
    // What the newest run left at each path, and what it found there.
    let mut left: BTreeMap<File, (&Entry, &Entry)> = BTreeMap::new();
    for (_, run) in runs {
        let plan = &run.record.plan;
        let file = |root: usize, path: &RelPath| {
            let root = plan.roots.get(root).filter(|root| is_within(root, allowed))?;
            Some((root.clone(), path.clone()))
        };
        let changes =
            plan.changes.iter().filter_map(|c| Some((file(c.at.root, &c.at.path)?, &c.after, &c.before)));
        let changes: Vec<(File, &Entry, &Entry)> = changes.collect();
        // Of a run that stopped half-way only what is there counts.
        let mut whole = run.ended == Some(Ended::Complete);
        if !whole && !plan.patches.is_empty() {
            whole = true;
            for ((root, path), after, _) in &changes {
                whole &= holds(&read::read(root, path)?, after);
            }
        }
        if !whole {
            continue;
        }
        left.extend(changes.into_iter().map(|(file, after, before)| (file, (after, before))));
        for patch in &plan.patches {
            let entry = made.entry(&patch.name).or_default();
            let files: Vec<File> = patch.files.iter().filter_map(|at| file(at.root, &at.path)).collect();
            entry.files.retain(|file| !files.contains(file));
            if !patch.reverted {
                entry.run.clone_from(&run.record.id);
                entry.files.extend(files);
            }
        }
    }
    made.retain(|_, made| !made.files.is_empty());
    made.into_iter().map(|(name, made)| report(name, &made, &left)).collect()
}

fn report(name: &str, made: &Made, left: &BTreeMap<File, (&Entry, &Entry)>) -> Result<PatchReport> {
    let mut report = PatchReport::new(name, State::Applied);
    report.notes.push(format!("made by `patch --from`, run {}", made.run));
    for file in &made.files {
        let (root, path) = file;
        let Some((after, before)) = left.get(file) else { continue };
        let (state, what) = match read::read(root, path)? {
            found if holds(&found, after) => (State::Applied, None),
            Found::NoDirectory => (State::NotInstalled, Some("is gone with its directory")),
            found if holds(&found, before) => (State::Pending, Some("is as it was before the patch")),
            Found::Absent { .. } => (State::Drifted, Some("is gone")),
            _ => (State::Drifted, Some("is not as the patch left it")),
        };
        let absolute = root.join(path.as_path());
        report.notes.extend(what.map(|what| format!("`{}` {what}", absolute.display())));
        report.files.push(FileReport::new(&absolute, state));
    }
    let mut states = report.files.iter().map(|file| file.state);
    let first = states.next().unwrap_or(State::Applied);
    let same = states.all(|state| state == first);
    let drifted = report.files.iter().any(|file| file.state == State::Drifted);
    report.state = match () {
        () if drifted => State::Drifted,
        () if same => first,
        () => State::Partial,
    };
    report.refused = drifted;
    Ok(report)
}

/// By content only: a mode that was changed since is no business of a patch.
fn holds(found: &Found, entry: &Entry) -> bool {
    match (found, entry) {
        (Found::File(seen), Entry::File(file)) => file.digest == Some(Digest::of(&seen.bytes)),
        (Found::Absent { .. } | Found::NoDirectory, Entry::Absent) => true,
        _ => false,
    }
}
