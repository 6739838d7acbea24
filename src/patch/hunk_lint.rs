//! The rules for one hunk and for the hunks of one file. Pure; only walks and counts.

use super::lint::Mistake;
use super::walk::Walk;

/// Line numbers above this are no line numbers.
const MAX_LINE: usize = i32::MAX as usize;

/// What counting one hunk found.
#[derive(Clone, Debug, Default)]
pub(super) struct Hunk {
    /// The number of its `@@` line in the patch.
    pub line: usize,
    pub old_start: usize,
    pub old_len: usize,
    pub new_start: usize,
    pub new_len: usize,
    /// Context lines before the first and after the last change.
    pub leading: usize,
    pub trailing: usize,
    pub has_context: bool,
    /// The side has ended without a newline: nothing may follow on it.
    old_ended: bool,
    new_ended: bool,
    /// A marker for a missing newline in another language than English.
    pub foreign_marker: bool,
}

/// Walks one hunk from its `@@` line to its end.
///
/// # Errors
/// A malformed header, and a body that doesn't have exactly the lines that the header says.
pub(super) fn hunk(walk: &mut Walk<'_>) -> Result<Hunk, Mistake> {
    let number = walk.number();
    let head = walk.peek().unwrap_or_default();
    let mut hunk = header(head)
        .ok_or_else(|| Mistake::new(number, "bad-hunk-header", "expected `@@ -LINE,COUNT +LINE,COUNT @@`"))?;
    hunk.line = number;
    if hunk.old_len > 0 && hunk.old_start == 0 || hunk.new_len > 0 && hunk.new_start == 0 {
        return Err(Mistake::new(number, "bad-hunk-header", "lines count from 1"));
    }
    walk.advance();
    let (mut old, mut new) = (hunk.old_len, hunk.new_len);
    let mut changed = false;
    while old > 0 || new > 0 {
        let line = walk.peek().ok_or_else(|| {
            Mistake::new(
                walk.number(),
                "cut-short",
                format!("the patch ends inside the hunk of line {number}"),
            )
        })?;
        let (takes_old, takes_new) = match line.first() {
            Some(b' ' | b'\n') => (true, true),
            Some(b'-') => (true, false),
            Some(b'+') => (false, true),
            _ => return Err(count(walk, number, "this line is none of its lines")),
        };
        if takes_old && old == 0 || takes_new && new == 0 {
            return Err(count(walk, number, "this line is one too many of its kind"));
        }
        if takes_old && hunk.old_ended || takes_new && hunk.new_ended {
            return Err(Mistake::new(walk.number(), "after-the-end", "a line after the end of the file"));
        }
        old -= usize::from(takes_old);
        new -= usize::from(takes_new);
        let context = takes_old && takes_new;
        changed |= !context;
        hunk.has_context |= context;
        hunk.leading += usize::from(context && !changed);
        hunk.trailing = if context { hunk.trailing + 1 } else { 0 };
        walk.advance();
        marker(walk, &mut hunk, takes_old, takes_new);
    }
    if walk.peek().is_some_and(|l| l.starts_with(b"\\")) {
        return Err(Mistake::new(walk.number(), "after-the-end", "a second marker for a missing newline"));
    }
    if !changed {
        return Err(Mistake::new(number, "no-change", "a hunk that changes nothing"));
    }
    Ok(hunk)
}

fn count(walk: &Walk<'_>, number: usize, what: &str) -> Mistake {
    let text = format!("the `@@` line {number} doesn't count its hunk right, or the hunk is damaged: {what}");
    Mistake::new(walk.number(), "bad-count", text)
}

/// Takes `\ No newline at end of file`, in whatever language.
fn marker(walk: &mut Walk<'_>, hunk: &mut Hunk, old: bool, new: bool) {
    if let Some(line) = walk.peek().filter(|l| l.starts_with(b"\\ ")) {
        hunk.old_ended |= old;
        hunk.new_ended |= new;
        hunk.foreign_marker |= !line.starts_with(ENGLISH);
        walk.advance();
    }
}

const ENGLISH: &[u8] = b"\\ No newline at end of file";

/// The section with each marker for a missing newline in English, since diffy knows only that.
pub(super) fn english(section: &[u8], first_line: usize, hunks: &[Hunk]) -> Vec<u8> {
    // A body line can't start with a backslash, and the lint let no other line in.
    let start = hunks.first().map_or(0, |h| h.line - first_line);
    let mut out = Vec::with_capacity(section.len());
    for (n, line) in section.split_inclusive(|&b| b == b'\n').enumerate() {
        if n > start && line.starts_with(b"\\ ") {
            out.extend_from_slice(ENGLISH);
            out.push(b'\n');
        } else {
            out.extend_from_slice(line);
        }
    }
    out
}

/// A hunk must come after the one before it, on both sides, and neither side may have ended.
pub(super) fn order(before: Option<&Hunk>, hunk: &Hunk) -> Result<(), Mistake> {
    let Some(before) = before else { return Ok(()) };
    let after = |start: usize, len: usize, next: usize, next_len: usize| {
        // An empty range names the line before it.
        let (end, next) =
            (if len == 0 { start + 1 } else { start + len }, if next_len == 0 { next + 1 } else { next });
        next >= end
    };
    if !after(before.old_start, before.old_len, hunk.old_start, hunk.old_len)
        || !after(before.new_start, before.new_len, hunk.new_start, hunk.new_len)
    {
        return Err(Mistake::new(hunk.line, "order", "hunks overlap or are not in the file's order"));
    }
    if before.old_ended || before.new_ended {
        return Err(Mistake::new(hunk.line, "after-the-end", "a hunk after the end of the file"));
    }
    Ok(())
}

/// Hunks without context can go anywhere, so they are let in only where they are the whole file; what looks
/// hand-made becomes a warning.
pub(super) fn contexts(hunks: &[Hunk]) -> Result<Vec<Mistake>, Mistake> {
    let mut warnings = Vec::new();
    let mut shift = 0_i64;
    for (n, hunk) in hunks.iter().enumerate() {
        let whole = hunks.len() == 1 && hunk.old_start <= 1 && hunk.new_start <= 1;
        if !hunk.has_context && !whole {
            return Err(Mistake::new(
                hunk.line,
                "no-context",
                "a hunk without context can go anywhere: make the patch with at least one line of context",
            ));
        }
        let last = n + 1 == hunks.len();
        if hunk.has_context
            && (hunk.trailing < hunk.leading && !last || hunk.leading < hunk.trailing && hunk.old_start > 1)
        {
            let text = "more context on one side than on the other, away from the file's start or end";
            warnings.push(Mistake::new(hunk.line, "asymmetric-context", text));
        }
        // An empty range names the line before it, so it is one short.
        let short = |len: usize| i64::from(len == 0);
        let old = hunk.old_start as i64 + short(hunk.old_len);
        let new = hunk.new_start as i64 + short(hunk.new_len);
        if old + shift != new {
            let text = format!("the new side should start at line {}: was a hunk taken out?", old + shift);
            warnings.push(Mistake::new(hunk.line, "start-lines", text));
        }
        shift += hunk.new_len as i64 - hunk.old_len as i64;
    }
    Ok(warnings)
}

fn header(line: &[u8]) -> Option<Hunk> {
    let rest = line.strip_prefix(b"@@ -")?;
    let (old_start, old_len, rest) = range(rest)?;
    let rest = rest.strip_prefix(b" +")?;
    let (new_start, new_len, rest) = range(rest)?;
    let rest = rest.strip_prefix(b" @@")?;
    matches!(rest.first(), Some(b' ' | b'\n' | b'\r')).then_some(Hunk {
        old_start,
        old_len,
        new_start,
        new_len,
        ..Hunk::default()
    })
}

fn range(text: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        Some(rest) => number(rest).map(|(len, rest)| (start, len, rest)),
        None => Some((start, 1, rest)),
    }
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (head, rest) = text.split_at(digits);
    let value: usize = std::str::from_utf8(head).ok()?.parse().ok()?;
    (value <= MAX_LINE).then_some((value, rest))
}
