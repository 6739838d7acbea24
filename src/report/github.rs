//! The report for GitHub Actions, in a step after the build: one annotation a cause, each path in the step summary.
//! The runner reads a command only at the start of a line, keeps ten annotations of a level and 4,096 characters of a
//! message, and refuses a summary above 1 MiB. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::CheckResult;
use crate::console::harmless;
use crate::report::{Conflict, Report};

/// Annotations of one level that the runner keeps for a step.
const LEVEL_CAP: usize = 10;
/// Characters of one message that it keeps.
const MESSAGE_CAP: usize = 4096;
/// Characters of a cell: a traceback's worth.
const CELL_CAP: usize = 1000;
/// Bytes of a summary that are surely below the runner's limit, with what others wrote before.
const SUMMARY_CAP: usize = 512 * 1024;
/// Lines of a failed check's output.
const OUTPUT_LINES: usize = 8;

/// One cause, and the things that it is about.
struct Finding {
    level: &'static str,
    name: String,
    /// What and where, at least one.
    texts: Vec<String>,
}

/// The workflow commands, a line each.
#[must_use]
pub fn annotations(report: &Report) -> String {
    let findings = findings(report);
    let mut out = String::new();
    for level in ["error", "warning", "notice"] {
        let of_level: Vec<&Finding> = findings.iter().filter(|f| f.level == level).collect();
        for finding in of_level.iter().take(LEVEL_CAP) {
            let title = property(&format!("rocm-fixup {}: {}", report.command, finding.name));
            let more = match finding.texts.len() {
                0 | 1 => String::new(),
                n => format!("\nand {} more, in the step summary", n - 1),
            };
            let text = finding.texts.first().map(String::as_str).unwrap_or_default();
            let _ = writeln!(out, "::{level} title={title}::{}", message(&format!("{text}{more}")));
        }
    }
    out
}

/// The Markdown for `$GITHUB_STEP_SUMMARY`.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut out = format!("### rocm-fixup {}: {}\n\n", report.command, report.exit());
    let findings = findings(report);
    if findings.is_empty() {
        out.push_str("Nothing to report.\n");
        return out;
    }
    out.push_str("| level | name | what |\n|---|---|---|\n");
    let rows = findings.iter().flat_map(|f| f.texts.iter().map(move |text| (f.level, &f.name, text)));
    let mut left_out = 0u64;
    for (level, name, text) in rows {
        let row = format!("| {level} | {} | {} |\n", cell(name), cell(text));
        if left_out > 0 || out.len() + row.len() > SUMMARY_CAP { left_out += 1 } else { out.push_str(&row) }
    }
    if left_out > 0 {
        let _ = writeln!(out, "\nand {left_out} more; `--format json` has all of them");
    }
    for next in &report.next {
        let _ = writeln!(out, "\nNext: {}", cell(next));
    }
    out
}

fn findings(report: &Report) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |level, name: &str, texts: Vec<String>| {
        found.push(Finding { level, name: name.to_owned(), texts });
    };
    if let Some(trouble) = &report.error {
        let hint = trouble.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        add("error", "failed", vec![format!("{}{hint}", trouble.message)]);
    }
    let mut by_reason: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    let conflicts = report.dedup.iter().flat_map(|d| &d.conflicts);
    for conflict in conflicts.chain(report.undo.iter().flat_map(|u| &u.refused)) {
        let texts = by_reason.entry((conflict.allowed, &conflict.reason)).or_default();
        texts.push(told(conflict));
    }
    for ((allowed, reason), texts) in by_reason {
        add(if allowed { "notice" } else { "error" }, reason, texts);
    }
    for patch in report.patches.iter().filter(|p| p.is_refused() || p.is_pending()) {
        let level = if patch.is_refused() { "error" } else { "warning" };
        let texts = patch.lines().into_iter().map(|(label, text)| format!("{label}: {text}"));
        add(level, &patch.name, texts.collect());
    }
    for check in report.checks.iter().filter(|c| c.failed() || c.tolerated) {
        add(if check.failed() { "error" } else { "notice" }, &check.name, vec![of_check(check)]);
    }
    if report.command == "status" {
        let pending = report.dedup.iter().map(|d| d.linked.len() + d.relinked.len()).sum::<usize>();
        if pending > 0 {
            add("warning", "pending", vec![format!("{pending} library names to merge: rocm-fixup dedup")]);
        }
        for run in report.runs.iter().filter(|run| run.state.contains("interrupted")) {
            add("warning", "interrupted", vec![format!("run {} ({})", run.id, run.command)]);
        }
    }
    for warning in &report.warnings {
        add("warning", &warning.name, vec![warning.text.clone()]);
    }
    found
}

fn told(conflict: &Conflict) -> String {
    let other = conflict.other.as_ref().map(|other| format!(" ({other})")).unwrap_or_default();
    format!("{}: {}{other}", conflict.path.path, conflict.detail)
}

fn of_check(check: &CheckResult) -> String {
    let output = check.output.as_deref().unwrap_or_default().trim_end();
    let lines: Vec<&str> = output.lines().collect();
    let mut text = check.detail.clone();
    for line in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
        let _ = write!(text, "\n| {line}");
    }
    text
}

fn message(text: &str) -> String {
    let text: String = harmless(text).chars().take(MESSAGE_CAP).collect();
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

/// A table cell: no row break, no column break, no mark-up of the image's choosing.
fn cell(text: &str) -> String {
    let text: String = harmless(text).chars().take(CELL_CAP).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text: String = text
        .chars()
        .map(|c| match c {
            '|' | '[' | ']' | '*' | '_' | '\\' | '!' | '~' | '#' | '@' => format!("&#{};", u32::from(c)),
            '`' => "'".to_owned(),
            '\n' => "<br>".to_owned(),
            c => c.to_string(),
        })
        .collect();
    text.replace("://", ":&#47;/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Kind, Verdict};
    use crate::report::{Dedup, PathText};

    #[test]
    fn foreign_text_can_neither_end_a_command_nor_a_cell() {
        assert_eq!(message("a%b\n::error::c"), "a%25b%0A: :error::c");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
        assert_eq!(cell("a|b\n<img src=x>`c`"), "a&#124;b<br>&lt;img src=x&gt;'c'");
        assert_eq!(cell("![x](https://y)"), "&#33;&#91;x&#93;(https:&#47;/y)");
    }

    #[test]
    fn at_most_ten_annotations_of_a_level() {
        let mut report = Report::new("dedup", false);
        (0..30).for_each(|n| report.warn("many", format!("{n}")));
        assert_eq!(annotations(&report).lines().count(), 10);
        assert_eq!(summary(&report).lines().filter(|line| line.starts_with("| warning")).count(), 30);
    }

    #[test]
    fn one_annotation_for_one_cause_and_a_summary_that_the_runner_takes() {
        let conflict = |n: u32| Conflict {
            path: PathText {
                path: format!("/s/lib{n}.so\n::error::{}", "<x>".repeat(500)),
                path_bytes: None,
            },
            other: None,
            reason: "content".to_owned(),
            detail: "differs".to_owned(),
            allowed: false,
        };
        let mut report = Report::new("dedup", false);
        report.dedup = Some(Dedup { conflicts: (0..2000).map(conflict).collect(), ..Dedup::default() });
        report.checks.push(CheckResult {
            output: Some("##[error]x\n::stop-commands::y".to_owned()),
            ..CheckResult::new("torch", Kind::Smoke, Verdict::Fail, "no")
        });
        let text = annotations(&report);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("and 1999 more") && !text.contains("##["), "{text}");
        let summary = summary(&report);
        assert!(summary.len() < 1 << 20, "{}", summary.len());
        assert!(summary.contains(" more; `--format json`"));
    }
}
