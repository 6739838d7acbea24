//! The report for people: findings first, then counts, then what to type. One screen; `--no-truncate` for all of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::CheckResult;
use crate::console::{BOLD, GREEN, RED, RESET, YELLOW, harmless};
use crate::error::Exit;
use crate::report::{Conflict, Dedup, Environment, PatchReport, Report, Undo};

/// Paths named of one cause before "and N more".
const FEW: usize = 5;

/// How it is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub no_truncate: bool,
    pub verbose: bool,
}

/// The whole text, ending in a newline.
#[must_use]
pub fn render(report: &Report, look: Look) -> String {
    let mut page = Page { text: String::new(), look };
    if let Some(environment) = report.environment.as_ref().filter(|_| report.command == "locate") {
        page.environment(environment);
    }
    if let Some(dedup) = &report.dedup {
        page.dedup(dedup, report);
    }
    page.patches(&report.patches);
    page.checks(&report.checks);
    if let Some(undo) = &report.undo {
        page.undo(undo, report.dry_run);
    }
    page.rest(report);
    page.verdict(report);
    page.text
}

/// Bytes as MiB, the one unit of the reports.
#[must_use]
pub fn mib(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mib = bytes as f64 / f64::from(1 << 20);
    format!("{mib:.1} MiB")
}

/// `1 name`, `2 names`.
#[must_use]
pub fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

struct Page {
    text: String,
    look: Look,
}

impl Page {
    fn line(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.text, "{label:<12} {text}");
    }

    fn under(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:<12} {text}", "");
    }

    fn few(&mut self, lines: Vec<String>) {
        let shown = if self.look.no_truncate { lines.len() } else { FEW };
        let more = lines.len().saturating_sub(shown);
        for line in lines.into_iter().take(shown) {
            self.under(&line);
        }
        if more > 0 {
            self.under(&format!("and {more} more (--no-truncate names them)"));
        }
    }

    fn conflicts(&mut self, conflicts: &[Conflict]) {
        let mut by_reason: BTreeMap<(bool, &str), Vec<&Conflict>> = BTreeMap::new();
        for conflict in conflicts {
            by_reason.entry((conflict.allowed, &conflict.reason)).or_default().push(conflict);
        }
        for ((allowed, reason), conflicts) in by_reason {
            let label = if allowed {
                format!("{YELLOW}allowed{RESET}     ")
            } else {
                format!("{RED}refused{RESET}     ")
            };
            let _ = writeln!(self.text, "{label} {}: {reason}", count(conflicts.len() as u64, "path"));
            let lines = conflicts.iter().map(|c| {
                let other = c.other.as_ref().map(|o| format!(" ({})", harmless(o))).unwrap_or_default();
                format!("{}: {}{other}", harmless(&c.path.path), harmless(&c.detail))
            });
            self.few(lines.collect());
        }
    }

    fn environment(&mut self, environment: &Environment) {
        if let Some(python) = &environment.python {
            let version = environment.python_version.as_deref().unwrap_or("of unknown version");
            self.line("python", &format!("{} ({version})", harmless(python)));
        }
        if let Some(glibc) = &environment.glibc {
            self.line("glibc", glibc);
        }
        for (number, directory) in environment.site_packages.iter().enumerate() {
            self.line(if number == 0 { "packages" } else { "" }, &harmless(directory));
        }
        for tree in &environment.trees {
            let role = serde_json::to_value(tree.role).ok().and_then(|v| v.as_str().map(str::to_owned));
            let distribution = match (&tree.distribution, &tree.version) {
                (Some(name), Some(version)) => format!(" ({} {})", harmless(name), harmless(version)),
                _ => " (no distribution says that it owns it)".to_owned(),
            };
            let path = harmless(&tree.path.path);
            self.line(&role.unwrap_or_default(), &format!("{path}{distribution}"));
        }
    }

    fn dedup(&mut self, dedup: &Dedup, report: &Report) {
        self.conflicts(&dedup.conflicts);
        let would = report.dry_run || report.command == "status";
        if !dedup.linked.is_empty() {
            let of = |was: &str| dedup.linked.iter().filter(|l| l.was == was).count() as u64;
            let kinds: Vec<String> =
                [("hard-link", "hard link"), ("copy", "copie"), ("reversed", "reversed link")]
                    .iter()
                    .filter(|(was, _)| of(was) > 0)
                    .map(|(was, one)| {
                        if *was == "copy" && of(was) == 1 { "1 copy".to_owned() } else { count(of(was), one) }
                    })
                    .collect();
            let label = if would { "to merge" } else { "merged" };
            let freed = if dedup.bytes_freed > 0 {
                format!("; {} freed", mib(dedup.bytes_freed))
            } else {
                String::new()
            };
            let names = count(dedup.linked.len() as u64, "library name");
            self.line(label, &format!("{names}: {}{freed}", kinds.join(", ")));
            if self.look.verbose || self.look.no_truncate {
                let lines = dedup
                    .linked
                    .iter()
                    .map(|l| format!("{} -> {}", harmless(&l.path.path), harmless(&l.target)));
                self.few(lines.collect());
            }
        }
        if !dedup.relinked.is_empty() {
            let label = if would { "to re-link" } else { "re-linked" };
            self.line(
                label,
                &count(dedup.relinked.len() as u64, "device-manifest entr")
                    .replace("entrs", "entries")
                    .replace("entr ", "entry"),
            );
        }
        if dedup.already > 0 {
            self.line("already", &format!("{} to the owner's file", count(dedup.already, "link")));
        }
        if !dedup.left_alone.is_empty() {
            let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
            for left in &dedup.left_alone {
                *by_reason.entry(&left.reason).or_default() += 1;
            }
            let kinds: Vec<String> = by_reason.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            self.line("left alone", &kinds.join(", "));
            if self.look.verbose {
                let lines = dedup
                    .left_alone
                    .iter()
                    .map(|l| format!("{}: {} ({})", harmless(&l.path.path), l.reason, harmless(&l.detail)));
                self.few(lines.collect());
            }
        }
    }

    fn patches(&mut self, patches: &[PatchReport]) {
        for patch in patches {
            for line in patch.lines() {
                let (label, text) = line;
                self.line(&label, &harmless(&text));
            }
        }
    }

    fn checks(&mut self, checks: &[CheckResult]) {
        for check in checks {
            let verdict =
                serde_json::to_value(check.verdict).ok().and_then(|v| v.as_str().map(str::to_owned));
            let verdict = verdict.unwrap_or_default();
            let color = if check.failed() {
                RED
            } else if verdict == "ok" {
                GREEN
            } else {
                YELLOW
            };
            let padded = format!("{verdict:<12}");
            let mut lines = check.detail.lines();
            let first = lines.next().unwrap_or_default();
            let _ =
                writeln!(self.text, "{color}{padded}{RESET} {} {}", harmless(&check.name), harmless(first));
            for line in lines {
                self.under(&format!("| {}", harmless(line)));
            }
        }
    }

    fn undo(&mut self, undo: &Undo, dry_run: bool) {
        self.conflicts(&undo.refused);
        if undo.runs.is_empty() {
            return;
        }
        let label = if dry_run { "to undo" } else { "undone" };
        let already =
            if undo.already > 0 { format!(", {} as before already", undo.already) } else { String::new() };
        let runs = undo.runs.join(", ");
        self.line(label, &format!("run {runs}: {}{already}", count(undo.restored, "path")));
    }

    fn rest(&mut self, report: &Report) {
        for run in report.runs.iter().filter(|run| run.state.contains("interrupted")) {
            self.line("interrupted", &format!("run {} ({}, {})", run.id, run.command, run.started));
        }
        for allowed in &report.allowed {
            self.line(&allowed.state, &format!("{}: {}", harmless(&allowed.name), harmless(&allowed.reason)));
        }
        for name in &report.skipped {
            self.line("skipped", &format!("{} (--skip)", harmless(name)));
        }
        for note in &report.notes {
            self.line("note", &harmless(note));
        }
        for warning in &report.warnings {
            let _ = writeln!(
                self.text,
                "{YELLOW}warning{RESET}      {} [{}]",
                harmless(&warning.text),
                warning.name
            );
        }
        if let Some(journal) = &report.journal {
            self.line(
                "recorded",
                &format!(
                    "run {} in {} (rocm-fixup undo takes it back)",
                    journal.id,
                    harmless(&journal.path.path)
                ),
            );
        }
        for next in &report.next {
            self.line("next", &harmless(next));
        }
    }

    fn verdict(&mut self, report: &Report) {
        let command = &report.command;
        let (color, word) = match report.exit() {
            Exit::Done if report.command == "status" => (GREEN, "sound"),
            Exit::Done if report.dry_run => (GREEN, "nothing was written"),
            Exit::Done => (GREEN, "ok"),
            Exit::Unsound if report.checks.iter().any(CheckResult::failed) => (RED, "a check failed"),
            Exit::Unsound => (YELLOW, "pending"),
            Exit::Refused => (RED, "refused what is named above; it was left untouched"),
            Exit::Failed | Exit::Usage => (RED, "failed"),
        };
        let code = report.exit() as u8;
        let code = if code == 0 { String::new() } else { format!(" (exit {code})") };
        let _ = writeln!(self.text, "{BOLD}{command}{RESET}: {color}{word}{RESET}{code}");
    }
}
