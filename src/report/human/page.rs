//! The layout of the report for people: a label, a text beside it, lines as wide as the terminal. Knows nothing of what
//! is told. Makes all text harmless that goes through it.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::Look;
use crate::console::{RESET, harmless};

/// Columns of the labels; the longest ones are the states of patches.
const LABEL: usize = 14;
/// Lines named of one cause before "and N more".
const FEW: usize = 5;
/// Text is not squeezed into fewer columns than this, however narrow the terminal is.
const NARROWEST: usize = 24;

/// Bytes as MiB, the one unit of the reports.
#[must_use]
pub fn mib(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mib = bytes as f64 / f64::from(1 << 20);
    format!("{mib:.1} MiB")
}

/// `1 name`, `2 names`, `2 copies`.
#[must_use]
pub fn count(n: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if n == 1 => format!("1 {one}"),
        Some(stem) => format!("{n} {stem}ies"),
        None => format!("{n} {one}s"),
    }
}

pub struct Page<'a> {
    pub text: String,
    look: Look,
    /// The directory that is told once, at the top, and left out of all paths.
    base: Option<&'a str>,
}

impl<'a> Page<'a> {
    pub fn new(look: Look, base: Option<&'a str>) -> Self {
        Self { text: String::new(), look, base }
    }

    pub fn line(&mut self, label: &str, text: &str) {
        self.colored(label, "", text);
    }

    /// The label's word says it all; its colour only helps the eye.
    pub fn colored(&mut self, label: &str, color: &str, text: &str) {
        let text = self.short(text);
        self.put(label, color, &text, "");
    }

    /// A line as it is: for commands and for the directory itself.
    pub fn exactly(&mut self, label: &str, text: &str) {
        self.put(label, "", text, "");
    }

    /// Below the line before, without a label.
    pub fn under(&mut self, text: &str) {
        self.line("", text);
    }

    /// What somebody else's program said, behind a bar: nobody takes it for ours.
    pub fn quoted(&mut self, text: &str) {
        for line in text.lines() {
            self.put("", "", line, "| ");
        }
    }

    pub fn few(&mut self, lines: impl ExactSizeIterator<Item = String>) {
        let shown = if self.look.no_truncate { lines.len() } else { FEW };
        let more = lines.len().saturating_sub(shown);
        for line in lines.take(shown) {
            self.under(&line);
        }
        if more > 0 {
            self.under(&format!("and {more} more (--no-truncate names them)"));
        }
    }

    fn put(&mut self, label: &str, color: &str, text: &str, bar: &str) {
        let width = self
            .look
            .width
            .map_or(usize::MAX, |all| all.saturating_sub(LABEL + 1 + bar.len()).max(NARROWEST));
        let mut label = label;
        for line in harmless(text).split('\n').flat_map(|line| wrap(line, width)) {
            let padding = " ".repeat(LABEL.saturating_sub(label.width()));
            let reset = if color.is_empty() || label.is_empty() { "" } else { RESET };
            let color = if label.is_empty() { "" } else { color };
            let full = format!("{color}{label}{reset}{padding} {bar}{line}");
            let _ = writeln!(self.text, "{}", full.trim_end());
            label = "";
        }
    }

    /// Paths without the directory that they all begin with.
    fn short(&self, text: &str) -> String {
        let Some(base) = self.base.filter(|base| base.len() > 1) else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(base) {
            let (before, after) = (&rest[..at], &rest[at + base.len()..]);
            let starts = before.chars().last().is_none_or(|c| " `'\"(".contains(c));
            out.push_str(before);
            rest = match after.strip_prefix('/') {
                Some(after) if starts => after,
                _ => {
                    out.push_str(base);
                    after
                }
            };
        }
        out + rest
    }
}

/// Breaks at spaces. A word that is too long, such as a path, stays whole, so that it can be copied.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut words = line.split(' ');
    let mut lines = Vec::new();
    let mut current = words.next().unwrap_or_default().to_owned();
    for word in words {
        if current.trim().is_empty() || current.width() + 1 + word.width() <= width {
            current.push(' ');
        } else {
            lines.push(std::mem::take(&mut current));
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_spaces_and_paths_are_not() {
        assert_eq!(wrap("a bc d", 4), ["a bc", "d"]);
        assert_eq!(wrap("see /a/very/long/path now", 8), ["see", "/a/very/long/path", "now"]);
        assert_eq!(wrap("  indented", 80), ["  indented"]);
        assert_eq!(wrap("漢字 漢字", 8), ["漢字", "漢字"]);
        assert_eq!(wrap("", 8), [""]);
    }

    #[test]
    fn the_common_directory_is_left_out_where_a_path_begins_with_it() {
        let page = Page::new(Look::default(), Some("/s"));
        assert_eq!(page.short("/s/a `/s/b` /x/s/c /sd /s"), "a `b` /x/s/c /sd /s");
    }

    #[test]
    fn a_narrow_page_hangs_its_text_beside_the_label() {
        let look = Look { width: Some(40), ..Look::default() };
        let mut page = Page::new(look, None);
        page.line("label", "one two three four five six seven");
        page.quoted("::error::x");
        assert_eq!(
            page.text,
            "label          one two three four five\n               six seven\n               | : :error::x\n"
        );
    }
}
