//! Why a change doesn't fit, in words that help: where it should be, what comes nearest, what differs. Pure.

use std::fmt;

use diffy::Hunk;

use super::fit::{Misfit, Sides, Why, place_folded};
use super::parse::FilePatch;
use super::sha::Sha256;
use super::text::Text;

/// Why a change can neither be made nor is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The file isn't there.
    Missing,
    /// A new file, but there is one with other content.
    Exists,
    /// A file to be deleted has lines that the patch doesn't know.
    MoreThanDeleted,
    TooLarge,
    /// A strict fit forward and in reverse: nobody can tell whether the change is there.
    FitsBothWays,
    /// The file was the known one, the result is not: the recipe is wrong.
    OtherResult {
        expected: Option<Sha256>,
        found: Option<Sha256>,
    },
    /// What stands there can't be patched: a link, a directory, a file with the setuid bit.
    Unfit(String),
    Hunk(HunkConflict),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkConflict {
    /// From 1.
    pub hunk: usize,
    pub of: usize,
    /// The line of the patch at which the hunk starts.
    pub patch_line: usize,
    pub stated: usize,
    pub expected: usize,
    pub why: Why,
    pub nearest: Option<Nearest>,
    pub only: Option<Only>,
}

/// The place that looks most like the hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// From 1.
    pub line: usize,
    pub equal: usize,
    pub of: usize,
    pub difference: Option<Difference>,
}

/// The first line that differs; `None` for a side that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub line: usize,
    pub expected: Option<Vec<u8>>,
    pub found: Option<Vec<u8>>,
}

/// All that differs at the nearest place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    LineEndings,
    FinalNewline,
    Whitespace,
}

/// Finds out what there is to say about a hunk that doesn't fit `file`.
#[must_use]
pub fn explain(file: &[u8], patch: &FilePatch<'_>, misfit: &Misfit) -> Conflict {
    let hunks = patch.patch.hunks();
    let Some(hunk) = hunks.get(misfit.hunk) else { return Conflict::FitsBothWays };
    let sides = Sides::of(hunk);
    let text = Text::new(file);
    let exact = match &misfit.why {
        Why::NotAtStart(line) | Why::NotAtEnd(line) | Why::OutOfOrder(line) => Some(*line - 1),
        Why::Ambiguous(_) | Why::TooMuchWork => None,
        Why::NoMatch | Why::NotTheWholeFile => None,
    };
    let (only, place) = match misfit.why {
        Why::NoMatch | Why::NotTheWholeFile => same_but(file, &sides.old, hunks, misfit.hunk).unzip(),
        _ => (None, exact),
    };
    let searched = matches!(misfit.why, Why::NoMatch | Why::NotTheWholeFile);
    let place = place.or_else(|| searched.then(|| nearest(&text, &sides, misfit.expected.saturating_sub(1))));
    Conflict::Hunk(HunkConflict {
        hunk: misfit.hunk + 1,
        of: hunks.len(),
        patch_line: patch.hunk_lines.get(misfit.hunk).copied().unwrap_or(0),
        stated: hunk.old_range().start().max(1),
        expected: misfit.expected,
        why: misfit.why.clone(),
        nearest: place.map(|line| compare(&text, &sides, line)),
        only,
    })
}

/// A place where the hunk would fit but for one kind of difference.
fn same_but(file: &[u8], old: &[u8], hunks: &[Hunk<'_, [u8]>], index: usize) -> Option<(Only, usize)> {
    if old.is_empty() {
        return None;
    }
    let place = |fold: fn(&[u8]) -> Vec<u8>| place_folded(file, hunks, index, fold);
    let returns = memchr::memchr(b'\r', file).is_some() || memchr::memchr(b'\r', old).is_some();
    if returns && let Some(line) = place(without_cr) {
        return Some((Only::LineEndings, line));
    }
    if file.ends_with(b"\n") != old.ends_with(b"\n")
        && let Some(line) = place(|text| [text.strip_suffix(b"\n").unwrap_or(text), b"\n"].concat())
    {
        return Some((Only::FinalNewline, line));
    }
    let squeezed =
        |text: &[u8]| text.iter().copied().filter(|b| !b.is_ascii_whitespace() || *b == b'\n').collect();
    place(squeezed).map(|line| (Only::Whitespace, line))
}

fn without_cr(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&b| b == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => out.extend_from_slice(&[line, b"\n"].concat()),
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// Bounds of the search for the nearest place, which is only for the reader.
const LINES_COMPARED: usize = 2000;
const LINES_TRIED: usize = 4;
const PLACES_TRIED: usize = 64;

/// The line (from 0) at which most lines of the old side stand, the nearest to `expected` among equals.
fn nearest(text: &Text<'_>, sides: &Sides, expected: usize) -> usize {
    let block: Vec<&[u8]> = sides.old.split_inclusive(|&b| b == b'\n').take(LINES_COMPARED).collect();
    let mut telling: Vec<(usize, &[u8])> =
        block.iter().copied().enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()).collect();
    telling.sort_by_key(|(_, line)| std::cmp::Reverse(line.len()));
    let mut places = vec![expected];
    for (index, line) in telling.into_iter().take(LINES_TRIED) {
        let mut work = usize::MAX;
        let found = text.find(line, 0, usize::MAX, PLACES_TRIED, &mut work).unwrap_or_default();
        places.extend(found.into_iter().filter_map(|at| at.checked_sub(index)));
    }
    let score = |at: usize| block.iter().enumerate().filter(|(n, line)| text.line(at + n) == **line).count();
    places
        .into_iter()
        .filter(|&at| at < text.lines().max(1))
        .max_by_key(|&at| (score(at), std::cmp::Reverse(at.abs_diff(expected))))
        .unwrap_or(0)
}

fn compare(text: &Text<'_>, sides: &Sides, at: usize) -> Nearest {
    let block: Vec<&[u8]> = sides.old.split_inclusive(|&b| b == b'\n').collect();
    let equal = block.iter().enumerate().filter(|(n, line)| text.line(at + n) == **line).count();
    let differs = block.iter().enumerate().find(|(n, line)| text.line(at + n) != **line);
    let some = |line: &[u8]| (!line.is_empty()).then(|| line.to_vec());
    let difference = match differs {
        Some((n, line)) => {
            Some(Difference { line: at + n + 1, expected: some(line), found: some(text.line(at + n)) })
        }
        None if at + block.len() < text.lines() && sides.old_lines == 0 => {
            Some(Difference { line: at + 1, expected: None, found: some(text.line(at)) })
        }
        None => None,
    };
    Nearest { line: at + 1, equal, of: block.len(), difference }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = |h: &Option<Sha256>| h.map_or_else(|| "no file".to_owned(), |h| h.to_string());
        match self {
            Self::Missing => f.write_str("the file is not there"),
            Self::Exists => {
                f.write_str("the patch makes this file anew, but one with other content is there")
            }
            Self::MoreThanDeleted => {
                f.write_str("the patch deletes this file, but it has more lines than the patch")
            }
            Self::TooLarge => write!(f, "the file is larger than {} MiB", super::lint::SIZE_CAP >> 20),
            Self::FitsBothWays => {
                f.write_str("the patch fits forward and in reverse: it can't be told whether it was applied")
            }
            Self::OtherResult { expected, found } => write!(
                f,
                "the patch fits the known file but gives another result than the recipe says: expected sha256 {}, \
                 got {}",
                hash(expected),
                hash(found)
            ),
            Self::Unfit(why) => f.write_str(why),
            Self::Hunk(hunk) => hunk.fmt(f),
        }
    }
}

impl fmt::Display for HunkConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} of {} (line {} of the patch) ", self.hunk, self.of, self.patch_line)?;
        match &self.why {
            Why::NoMatch => write!(f, "doesn't fit at line {}", self.expected)?,
            Why::Ambiguous(lines) => {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                write!(f, "fits at several lines ({}), none of them surely meant", lines.join(", "))?;
            }
            Why::NotAtStart(line) => write!(f, "belongs to the start of the file, but fits at line {line}")?,
            Why::NotAtEnd(line) => write!(f, "belongs to the end of the file, but fits at line {line}")?,
            Why::OutOfOrder(line) => write!(f, "fits at line {line}, above the end of the hunk before")?,
            Why::NotTheWholeFile => write!(f, "replaces the whole file, which has other content")?,
            Why::TooMuchWork => write!(f, "takes too long to place")?,
        }
        if self.expected != self.stated {
            write!(f, "\n  stated line {}, moved by the hunks before to {}", self.stated, self.expected)?;
        }
        if let Some(near) = self.nearest.as_ref().filter(|near| near.difference.is_some()) {
            write!(f, "\n  nearest: line {}, {} of {} lines equal", near.line, near.equal, near.of)?;
            if let Some(difference) = &near.difference {
                write!(
                    f,
                    "\n  line {} expected: {}",
                    difference.line,
                    shown(difference.expected.as_deref())
                )?;
                write!(f, "\n  line {} found:    {}", difference.line, shown(difference.found.as_deref()))?;
            }
        }
        match self.only {
            Some(Only::LineEndings) => f.write_str("\n  only line endings differ"),
            Some(Only::FinalNewline) => f.write_str("\n  only the newline at the end of the file differs"),
            Some(Only::Whitespace) => f.write_str("\n  only whitespace differs"),
            None => Ok(()),
        }
    }
}

/// A line in backticks with its control characters escaped; never more than a screen line or two.
fn shown(line: Option<&[u8]>) -> String {
    let Some(line) = line else { return "(end of file)".to_owned() };
    let (body, end) = match line.strip_suffix(b"\n") {
        Some(body) => (body, ""),
        None => (line, " (no newline at the end)"),
    };
    let text: String = String::from_utf8_lossy(body)
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .take(160)
        .collect();
    format!("`{text}`{end}")
}
