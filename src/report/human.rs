//! The report for people: findings first, then what was done, then counts, then what to type, and the verdict last, where
//! a build log is read from. One screen; `--no-truncate` for all of it. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::{CheckResult, Kind, Verdict};
use crate::console::{BOLD, GREEN, RED, RESET, YELLOW};
use crate::error::Exit;
use crate::patch::report::{PatchReport, State};
use crate::report::{Conflict, Dedup, Environment, Report, Undo};

mod page;

use page::Page;
pub use page::{count, mib};

/// Lines of a failed check's own output that are shown; the end of a traceback says most.
const OUTPUT_LINES: usize = 8;

/// How it is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub no_truncate: bool,
    pub verbose: bool,
    /// Columns of the terminal; none for logs and files, where lines are as long as they are.
    pub width: Option<usize>,
    /// No stderr beside it that would tell the error: a file.
    pub alone: bool,
}

/// The whole text, ending in a newline.
#[must_use]
pub fn render(report: &Report, look: Look) -> String {
    let environment = report.environment.as_ref();
    let base = match environment.map(|e| &e.site_packages[..]) {
        Some([only]) if report.command != "locate" => Some(only.as_str()),
        _ => None,
    };
    let mut page = Page::new(look, base);
    match environment {
        Some(environment) if report.command == "locate" => locate(&mut page, environment),
        Some(environment) if worked(report) => place(&mut page, environment),
        _ => {}
    }
    findings(&mut page, report, look);
    if let Some(dedup) = &report.dedup {
        merged(&mut page, dedup, report, look);
    }
    let (pending, settled): (Vec<_>, Vec<_>) =
        report.patches.iter().filter(|p| !p.is_refused()).partition(|p| p.is_pending());
    patches(&mut page, &pending, YELLOW);
    patches(&mut page, &settled, "");
    if let Some(undo) = &report.undo {
        undone(&mut page, undo, report.dry_run);
    }
    passed(&mut page, report, look);
    if let Some(dedup) = &report.dedup {
        unchanged(&mut page, dedup, look);
    }
    rest(&mut page, report, look);
    verdict(&mut page, report);
    page.text
}

/// Whether there was anything to work on.
fn worked(report: &Report) -> bool {
    let found = report.environment.as_ref().is_some_and(|e| !e.trees.is_empty());
    let absent = |patch: &PatchReport| matches!(patch.state, State::NotInstalled | State::Skipped);
    let judged = !report.patches.iter().all(absent)
        || report.checks.iter().any(|check| check.verdict != Verdict::Skipped);
    found || judged || !report.runs.is_empty() || report.undo.is_some()
}

/// Which SDK this is about.
fn place(page: &mut Page<'_>, environment: &Environment) {
    let mut versions: Vec<&str> = environment.trees.iter().filter_map(|t| t.version.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions = if versions.is_empty() { String::new() } else { format!("{} in ", versions.join(", ")) };
    let label = if environment.trees.is_empty() { "site-packages" } else { "ROCm SDK" };
    page.exactly(label, &format!("{versions}{}", environment.site_packages.join(", ")));
}

fn locate(page: &mut Page<'_>, environment: &Environment) {
    if let Some(python) = &environment.python {
        let version = environment.python_version.as_deref().unwrap_or("of unknown version");
        page.line("python", &format!("{python} ({version})"));
    }
    if let Some(glibc) = &environment.glibc {
        page.line("glibc", glibc);
    }
    for (number, directory) in environment.site_packages.iter().enumerate() {
        page.line(if number == 0 { "site-packages" } else { "" }, directory);
    }
    for tree in &environment.trees {
        let distribution = match (&tree.distribution, &tree.version) {
            (Some(name), Some(version)) => format!("({name} {version})"),
            _ => "(no distribution says that it owns it)".to_owned(),
        };
        page.line(&name_of(&tree.role), &format!("{} {distribution}", tree.path.path));
    }
}

/// All that makes the exit code other than 0, and warnings.
fn findings(page: &mut Page<'_>, report: &Report, look: Look) {
    let refused = report.undo.iter().flat_map(|undo| &undo.refused);
    let all: Vec<&Conflict> = report.dedup.iter().flat_map(|d| &d.conflicts).chain(refused).collect();
    let mut by_reason: BTreeMap<(bool, &str), Vec<&Conflict>> = BTreeMap::new();
    for conflict in all {
        by_reason.entry((conflict.allowed, &conflict.reason)).or_default().push(conflict);
    }
    for ((allowed, reason), conflicts) in by_reason {
        let (label, color) = if allowed { ("allowed", YELLOW) } else { ("refused", RED) };
        page.colored(label, color, &format!("{}: {reason}", count(conflicts.len() as u64, "path")));
        page.few(conflicts.iter().map(|c| {
            let other = c.other.as_ref().map(|other| format!(" ({other})")).unwrap_or_default();
            format!("{}: {}{other}", c.path.path, c.detail)
        }));
    }
    let refused: Vec<&PatchReport> = report.patches.iter().filter(|p| p.is_refused()).collect();
    patches(page, &refused, RED);
    for check in report.checks.iter().filter(|check| check.failed()) {
        failed(page, check, look);
    }
    for warning in &report.warnings {
        page.colored("warning", YELLOW, &format!("{} [{}]", warning.text, warning.name));
    }
    let here = report.runs.iter().filter(|run| run.moved_from.is_none());
    for run in here.filter(|run| run.state.contains("interrupted")) {
        page.colored("interrupted", YELLOW, &format!("run {} ({}, {})", run.id, run.command, run.started));
    }
}

fn patches(page: &mut Page<'_>, patches: &[&PatchReport], color: &str) {
    for patch in patches {
        let lines = patch.lines();
        if let [(state, what), (_, why)] = &lines[..] {
            page.colored(state, color, &format!("{what}: {why}"));
            continue;
        }
        lines.iter().for_each(|(label, text)| page.colored(label, color, text));
    }
}

fn failed(page: &mut Page<'_>, check: &CheckResult, look: Look) {
    let mut detail = check.detail.lines();
    let first = detail.next().unwrap_or_default();
    page.colored(&name_of(&check.verdict), RED, &format!("{}: {first}{}", check.name, seconds(check)));
    detail.for_each(|line| page.quoted(line));
    // Some details quote it already.
    if let Some(output) = check.output.as_ref().filter(|output| !check.detail.contains(output.trim())) {
        let lines: Vec<&str> = output.trim_end().lines().collect();
        let shown = if look.no_truncate { lines.len() } else { OUTPUT_LINES };
        let cut = lines.len().saturating_sub(shown);
        if cut > 0 {
            page.under(&format!("its last output ({cut} lines before it: --no-truncate):"));
        }
        page.quoted(&lines[cut..].join("\n"));
    }
    if let Some(reason) = &check.reason {
        page.under(&format!("checked because {reason}"));
    }
}

fn seconds(check: &CheckResult) -> String {
    if check.kind == Kind::Smoke { format!(" ({:.1} s)", check.seconds) } else { String::new() }
}

fn merged(page: &mut Page<'_>, dedup: &Dedup, report: &Report, look: Look) {
    let would = report.dry_run || report.command == "status";
    let color = if would { YELLOW } else { GREEN };
    if !dedup.linked.is_empty() {
        let kinds: Vec<String> =
            [("hard-link", "hard link"), ("copy", "copy"), ("reversed", "reversed link")]
                .iter()
                .map(|(was, one)| (dedup.linked.iter().filter(|l| l.was == *was).count() as u64, one))
                .filter(|(n, _)| *n > 0)
                .map(|(n, one)| count(n, one))
                .collect();
        let freed = match (dedup.bytes_freed, would) {
            (0, _) => String::new(),
            (bytes, true) => format!("; {} can be freed", mib(bytes)),
            (bytes, false) => format!("; {} freed", mib(bytes)),
        };
        let names = count(dedup.linked.len() as u64, "library name");
        let label = if would { "to merge" } else { "merged" };
        page.colored(label, color, &format!("{names}: {}{freed}", kinds.join(", ")));
        if look.verbose || look.no_truncate {
            page.few(dedup.linked.iter().map(|l| format!("{} -> {}", l.path.path, l.target)));
        }
    }
    if !dedup.relinked.is_empty() {
        let entries = count(dedup.relinked.len() as u64, "device-manifest entry");
        page.colored(if would { "to re-link" } else { "re-linked" }, color, &entries);
    }
}

fn undone(page: &mut Page<'_>, undo: &Undo, dry_run: bool) {
    if undo.runs.is_empty() {
        return;
    }
    let already =
        if undo.already > 0 { format!(", {} as before already", undo.already) } else { String::new() };
    let gone = if undo.gone > 0 { format!(", {} gone", undo.gone) } else { String::new() };
    let text = format!("run {}: {}{already}{gone}", undo.runs.join(", "), count(undo.restored, "path"));
    page.colored(if dry_run { "to undo" } else { "undone" }, if dry_run { YELLOW } else { GREEN }, &text);
}

/// Checks that hold: a line each where they were asked for, one for all where they are a part of more.
fn passed(page: &mut Page<'_>, report: &Report, look: Look) {
    let ok: Vec<&CheckResult> = report.checks.iter().filter(|c| c.verdict == Verdict::Ok).collect();
    if report.command == "run" && !look.verbose && !ok.is_empty() {
        let names: Vec<&str> = ok.iter().map(|check| check.name.as_str()).collect();
        page.colored("ok", GREEN, &format!("{}: {}", count(ok.len() as u64, "check"), names.join(", ")));
    } else {
        for check in ok {
            page.colored("ok", GREEN, &format!("{}: {}{}", check.name, check.detail, seconds(check)));
        }
    }
    for check in report.checks.iter().filter(|c| !c.failed() && c.verdict != Verdict::Ok) {
        let detail = check.detail.lines().next().unwrap_or_default();
        let tolerated = if check.tolerated { " (tolerated)" } else { "" };
        let color = if check.tolerated { YELLOW } else { "" };
        page.colored(&name_of(&check.verdict), color, &format!("{}: {detail}{tolerated}", check.name));
    }
}

fn unchanged(page: &mut Page<'_>, dedup: &Dedup, look: Look) {
    if dedup.already > 0 {
        page.line("already", &format!("{} to the owner's file", count(dedup.already, "link")));
    }
    if dedup.left_alone.is_empty() {
        return;
    }
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for left in &dedup.left_alone {
        *by_reason.entry(&left.reason).or_default() += 1;
    }
    let kinds: Vec<String> = by_reason.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    page.line("left alone", &kinds.join(", "));
    if look.verbose {
        page.few(dedup.left_alone.iter().map(|l| format!("{}: {} ({})", l.path.path, l.reason, l.detail)));
    }
}

fn rest(page: &mut Page<'_>, report: &Report, look: Look) {
    for allowed in &report.allowed {
        page.line(&allowed.state, &format!("{}: {}", allowed.name, allowed.reason));
    }
    for name in &report.skipped {
        page.line("skipped", &format!("{name} (--skip)"));
    }
    for note in &report.notes {
        page.line("note", note);
    }
    if let Some(journal) = &report.journal {
        page.line("recorded", &format!("run {}; rocm-fixup undo takes it back", journal.id));
        if look.verbose {
            page.under(&journal.path.path);
        }
    }
    recorded(page, report);
    for (number, next) in report.next.iter().enumerate() {
        page.exactly(if number == 0 { "next" } else { "" }, next);
    }
    if let Some(trouble) = report.error.as_ref().filter(|_| look.alone) {
        page.colored("error", RED, &trouble.message);
        trouble.hint.iter().for_each(|hint| page.exactly("hint", hint));
    }
}

/// The runs that undo knows, by the ids that it takes.
fn recorded(page: &mut Page<'_>, report: &Report) {
    let told = report.runs.iter().map(|run| match run.state.as_str() {
        "complete" => format!("{} ({})", run.id, run.command),
        "partial" => format!("{} ({}, in part)", run.id, run.command),
        state => format!("{} ({}, {state})", run.id, run.command),
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        let noun = if told.len() == 1 { "run" } else { "runs" };
        page.line("recorded", &format!("{noun} {}", told.join(", ")));
    }
}

fn verdict(page: &mut Page<'_>, report: &Report) {
    let (color, word) = match report.exit() {
        Exit::Done if report.command == "locate" => return,
        Exit::Done if !worked(report) => (GREEN, "nothing to do"),
        Exit::Done if report.command == "status" => (GREEN, "sound"),
        Exit::Done if report.dry_run => (GREEN, "nothing was written"),
        Exit::Done => (GREEN, "ok"),
        Exit::Unsound if report.checks.iter().any(CheckResult::failed) => (RED, "a check failed"),
        Exit::Unsound => (YELLOW, "pending"),
        Exit::Refused if report.error.is_some() => (RED, "refused"),
        Exit::Refused if report.command == "status" => (RED, "not as expected, see above"),
        Exit::Refused => (RED, "refused what is named above; it was left untouched"),
        Exit::Failed | Exit::Usage => (RED, "failed"),
    };
    let code = match report.exit() as u8 {
        0 => String::new(),
        code => format!(" (exit {code})"),
    };
    let _ = writeln!(page.text, "{BOLD}{}{RESET}: {color}{word}{RESET}{code}", report.command);
}

/// The stable kebab-case name.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
