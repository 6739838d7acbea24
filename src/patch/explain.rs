//! From the outcomes of a patch's files to its state, and to the words that say why. Pure.

use super::chain::Outcome;
use super::conflict::Conflict;
use super::plan::{Direction, Job, JobFile, Options};
use super::report::{FileReport, State};

/// Fills a job's report.
pub(super) fn outcomes(job: &mut Job<'_>, outcomes: Vec<Option<Outcome>>, options: &Options<'_>) {
    if job.files.is_empty() {
        return;
    }
    let (there, not_there) = match options.direction {
        Direction::Apply => (State::Applied, State::Pending),
        Direction::Revert => (State::Pending, State::Applied),
    };
    let mut unverified_already = false;
    let mut unverified_done = false;
    for (file, outcome) in job.files.iter().zip(outcomes) {
        let mut report = FileReport::new(&file.root.join(file.path.as_path()), there);
        let (known_before, known_after) = file.known.map_or((None, None), |k| (k.before, k.after));
        (report.before, report.after) = (known_before, known_after);
        match outcome {
            Some(Outcome::Already { verified }) => unverified_already |= !verified,
            Some(Outcome::Done { offset, verified, before, after }) => {
                unverified_done |= !verified;
                report.state = if job.knows && !verified { State::Drifted } else { not_there };
                report.offset = offset;
                (report.before, report.after) = match options.direction {
                    Direction::Apply => (before, after),
                    Direction::Revert => (after, before),
                };
                if offset != 0 && !verified {
                    let text = format!("`{}`: fits {} lines away from where it says", report.path, offset);
                    job.report.notes.push(text);
                }
            }
            Some(Outcome::Conflict(conflict)) => {
                report.state = State::Conflict;
                report.conflict = Some(words(job.advice.as_str(), file, &conflict));
            }
            None => report.state = State::Conflict,
        }
        job.report.files.push(report);
    }
    let states = || job.report.files.iter().map(|f| f.state);
    let mixed = states().any(|s| s == there) && states().any(|s| s != there);
    let unverified = unverified_already || unverified_done;
    job.report.state = if states().any(|s| s == State::Conflict) {
        State::Conflict
    } else if states().any(|s| s == State::Drifted) || job.knows && mixed && unverified {
        State::Drifted
    } else if mixed {
        State::Partial
    } else {
        states().next().unwrap_or(there)
    };
    // With content that nobody knows, "some files have it, others don't" is no state to build on (case 3).
    let refused = match job.report.state {
        State::Conflict => true,
        State::Drifted => !options.allow_drift,
        State::Partial => unverified && !options.allow_drift,
        _ => false,
    };
    job.report.refused |= refused;
    let changes = states().any(|s| s != there);
    if options.direction == Direction::Apply && changes {
        job.report.notes.extend(job.late.take());
    }
    if unverified_already && job.report.state == there {
        let what = if there == State::Applied { "applied" } else { "not applied" };
        job.report.notes.push(format!("{what}, by the look of it: the file is none of the known ones"));
    }
    if refused && job.report.state != State::Conflict {
        let text = "the patch would fit, but a file has content that the recipe doesn't know: `--allow-drift` \
                    changes it all the same";
        let plain = "some files have the change and others don't: `--allow-drift` completes it all the same";
        job.report.notes.push(if job.knows {
            format!("{text}{}", after(&job.advice))
        } else {
            plain.to_owned()
        });
    }
}

fn after(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!(" ({advice})") }
}

fn words(advice: &str, file: &JobFile<'_>, conflict: &Conflict) -> String {
    let mut text = format!("`{}`: {conflict}", file.root.join(file.path.as_path()).display());
    if !advice.is_empty() {
        text.push_str("\n  ");
        text.push_str(advice);
    }
    text
}
