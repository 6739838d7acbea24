//! The report for GitHub Actions, in a step after the build: one annotation a cause, the rest in the step summary.
//! Limits and escapes are those of the runner (ecosystem.md, conventions 5 and 6). Pure.

use std::fmt::Write as _;

use crate::console::harmless;
use crate::report::Report;

/// Annotations of one level that the runner keeps for a step.
const LEVEL_CAP: usize = 10;
/// Characters of one message that it keeps.
const MESSAGE_CAP: usize = 4096;
/// Rows of the summary's table; the runner refuses a summary above 1 MiB.
const ROW_CAP: usize = 500;

/// One thing that needs a look.
struct Finding {
    level: &'static str,
    name: String,
    text: String,
}

/// The workflow commands, a line each.
#[must_use]
pub fn annotations(report: &Report) -> String {
    let findings = findings(report);
    let mut out = String::new();
    for level in ["error", "warning", "notice"] {
        for finding in findings.iter().filter(|f| f.level == level).take(LEVEL_CAP) {
            let title = property(&format!("rocm-fixup {}: {}", report.command, finding.name));
            let _ = writeln!(out, "::{level} title={title}::{}", message(&finding.text));
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
    for finding in findings.iter().take(ROW_CAP) {
        let _ = writeln!(out, "| {} | {} | {} |", finding.level, cell(&finding.name), cell(&finding.text));
    }
    if findings.len() > ROW_CAP {
        let _ = writeln!(out, "\nand {} more", findings.len() - ROW_CAP);
    }
    out
}

fn findings(report: &Report) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |level, name: &str, text: String| {
        found.push(Finding { level, name: name.to_owned(), text });
    };
    if let Some(trouble) = &report.error {
        let hint = trouble.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        add("error", "failed", format!("{}{hint}", trouble.message));
    }
    let conflicts = report.dedup.iter().flat_map(|d| &d.conflicts);
    for conflict in conflicts.chain(report.undo.iter().flat_map(|u| &u.refused)) {
        let level = if conflict.allowed { "notice" } else { "error" };
        add(level, &conflict.reason, format!("{}: {}", conflict.path.path, conflict.detail));
    }
    for patch in report.patches.iter().filter(|p| p.is_refused() || p.is_pending()) {
        let level = if patch.is_refused() { "error" } else { "warning" };
        let text: Vec<String> =
            patch.lines().into_iter().map(|(label, text)| format!("{label}: {text}")).collect();
        add(level, &patch.name, text.join("; "));
    }
    for check in report.checks.iter().filter(|c| c.failed() || c.tolerated) {
        add(if check.failed() { "error" } else { "notice" }, &check.name, check.detail.clone());
    }
    if report.command == "status" {
        let pending = report.dedup.iter().map(|d| d.linked.len()).sum::<usize>();
        if pending > 0 {
            add("warning", "pending", format!("{pending} library names to merge: rocm-fixup dedup"));
        }
    }
    for warning in &report.warnings {
        add("warning", &warning.name, warning.text.clone());
    }
    found
}

fn message(text: &str) -> String {
    let text: String = harmless(text).chars().take(MESSAGE_CAP / 2).collect();
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

/// A table cell: no row break, no column break, no mark-up of the image's choosing.
fn cell(text: &str) -> String {
    let text: String = harmless(text).chars().take(1000).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('|', "\\|").replace('`', "'").replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_can_neither_end_a_command_nor_a_cell() {
        assert_eq!(message("a%b\n::error::c"), "a%25b%0A: :error::c");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
        assert_eq!(cell("a|b\n<img src=x>`c`"), "a\\|b<br>&lt;img src=x&gt;'c'");
    }

    #[test]
    fn at_most_ten_annotations_of_a_level() {
        let mut report = Report::new("dedup", false);
        (0..30).for_each(|n| report.warn("many", format!("{n}")));
        assert_eq!(annotations(&report).lines().count(), 10);
        assert_eq!(summary(&report).lines().filter(|line| line.starts_with("| warning")).count(), 30);
    }
}
