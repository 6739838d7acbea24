//! Where hunks fit in a file, and the file with them applied. Pure; no fuzz, ever.
//!
//! The rules are those that GNU patch (`-F0`) and git share, and where the two would choose different places, none is
//! chosen (patching.md, 1.4, and cases 5 to 8, 11, 44):
//! - the expected line is the stated one plus the offset of the hunk before, as in GNU patch;
//! - a hunk from line 1 fits only at the file's start (git), one with less context after than before only at its end
//!   (GNU patch), and so one with none after (git);
//! - away from the expected line a hunk must fit exactly one place of the whole file;
//! - hunks keep their order.

use diffy::{Hunk, Line};

use super::text::Text;

/// How much is known about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing: all rules hold.
    Strict,
    /// The content is one that the recipe knows, and the result's hash will be compared: start and end needn't hold.
    Known,
}

/// A file with all hunks applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub content: Vec<u8>,
    /// For each hunk, how many lines away from the stated one it fitted.
    pub offsets: Vec<i64>,
}

impl Fitted {
    /// The offset furthest from 0.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offsets.iter().copied().max_by_key(|o| o.abs()).unwrap_or(0)
    }
}

/// A hunk that doesn't fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Index of the hunk.
    pub hunk: usize,
    /// The line where it should fit, counted from 1.
    pub expected: usize,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    NoMatch,
    /// It fits at these lines (the first few) and none is the expected one.
    Ambiguous(Vec<usize>),
    /// It fits at this line, but must be at the start of the file.
    NotAtStart(usize),
    NotAtEnd(usize),
    /// It fits at this line only, which lies before the end of the hunk before.
    OutOfOrder(usize),
    /// It replaces or creates the whole file, and the file has other content.
    NotTheWholeFile,
    /// Looking for it takes too long: a patch made to be slow.
    TooMuchWork,
}

/// Bytes that the searches for all hunks of one file may look at: 16 MiB 256 times, about a second.
const WORK: usize = 1 << 32;

/// Places listed when a hunk is ambiguous.
const LISTED: usize = 8;

/// Fits all hunks of one file, in order, and splices them.
///
/// # Errors
/// The first hunk that doesn't fit; nothing is half done.
pub fn fit(file: &[u8], hunks: &[Hunk<'_, [u8]>], how: How) -> Result<Fitted, Misfit> {
    fit_text(&Text::new(file), hunks, how)
}

/// The same for a file whose lines are numbered already.
pub(super) fn fit_text(text: &Text<'_>, hunks: &[Hunk<'_, [u8]>], how: How) -> Result<Fitted, Misfit> {
    let file = text.bytes();
    let mut search = Search::new(text, how);
    let mut content = Vec::with_capacity(file.len());
    let mut offsets = Vec::with_capacity(hunks.len());
    let mut copied = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let sides = Sides::of(hunk);
        let at = search.place(&sides, hunks.len() == 1).map_err(|why| Misfit {
            hunk: index,
            expected: usize::try_from(search.expected(&sides)).unwrap_or(0) + 1,
            why,
        })?;
        let start = text.start(at);
        content.extend_from_slice(file.get(copied..start).unwrap_or_default());
        content.extend_from_slice(&sides.new);
        copied = start + sides.old.len();
        offsets.push(at as i64 - sides.stated());
    }
    content.extend_from_slice(file.get(copied..).unwrap_or_default());
    Ok(Fitted { content, offsets })
}

/// Where the hunk `index` would go if both file and hunks were without what `fold` takes from them (never a newline in
/// mid-text). By all the rules: that the text is somewhere doesn't make it the place.
pub(super) fn place_folded(
    file: &[u8],
    hunks: &[Hunk<'_, [u8]>],
    index: usize,
    fold: impl Fn(&[u8]) -> Vec<u8>,
) -> Option<usize> {
    let file = fold(file);
    let text = Text::new(&file);
    let mut search = Search::new(&text, How::Strict);
    let mut at = None;
    for hunk in hunks.get(..=index)? {
        let mut sides = Sides::of(hunk);
        sides.old = fold(&sides.old);
        at = Some(search.place(&sides, hunks.len() == 1).ok()?);
    }
    at
}

/// A hunk as two texts.
pub(super) struct Sides {
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    pub old_lines: usize,
    pub new_lines: usize,
    old_start: usize,
    new_start: usize,
    leading: usize,
    trailing: usize,
}

impl Sides {
    pub(super) fn of(hunk: &Hunk<'_, [u8]>) -> Self {
        let mut sides = Self {
            old: Vec::new(),
            new: Vec::new(),
            old_lines: hunk.old_range().len(),
            new_lines: hunk.new_range().len(),
            old_start: hunk.old_range().start(),
            new_start: hunk.new_range().start(),
            leading: hunk.lines().iter().take_while(|l| matches!(l, Line::Context(_))).count(),
            trailing: hunk.lines().iter().rev().take_while(|l| matches!(l, Line::Context(_))).count(),
        };
        for line in hunk.lines() {
            match *line {
                Line::Context(text) => {
                    sides.old.extend_from_slice(text);
                    sides.new.extend_from_slice(text);
                }
                Line::Delete(text) => sides.old.extend_from_slice(text),
                Line::Insert(text) => sides.new.extend_from_slice(text),
            }
        }
        sides
    }

    /// Without context a hunk from line 1 is the whole file (the lint lets no other in).
    pub(super) fn is_whole(&self) -> bool {
        self.old_lines == 0 || self.leading + self.trailing == 0 && self.old_start <= 1
    }

    /// The stated line, from 0.
    pub(super) fn stated(&self) -> i64 {
        (self.old_start as i64 - 1).max(0)
    }
}

struct Search<'t> {
    text: &'t Text<'t>,
    how: How,
    /// Offset of the hunk before.
    carried: i64,
    /// Lines that the hunks before add to the file.
    grown: i64,
    /// Line after the last changed one, and after the whole hunk before.
    changed_to: usize,
    ended_at: usize,
    work: usize,
}

impl<'t> Search<'t> {
    fn new(text: &'t Text<'t>, how: How) -> Self {
        Self { text, how, carried: 0, grown: 0, changed_to: 0, ended_at: 0, work: WORK }
    }

    fn expected(&self, sides: &Sides) -> i64 {
        sides.stated() + self.carried
    }

    /// The line (from 0) at which the hunk goes.
    fn place(&mut self, sides: &Sides, alone: bool) -> Result<usize, Why> {
        if sides.old_lines == 0 || alone && sides.is_whole() {
            return if self.text.bytes() == sides.old.as_slice() { Ok(0) } else { Err(Why::NotTheWholeFile) };
        }
        let at = self.choose(sides)?;
        if at < self.ended_at {
            return Err(Why::OutOfOrder(at + 1));
        }
        self.carried = at as i64 - sides.stated();
        self.grown += sides.new_lines as i64 - sides.old_lines as i64;
        self.changed_to = at + sides.old_lines - sides.trailing;
        self.ended_at = at + sides.old_lines;
        Ok(at)
    }

    fn choose(&mut self, sides: &Sides) -> Result<usize, Why> {
        if self.how == How::Strict {
            let at_start = sides.old_start <= 1;
            let at_end = sides.trailing < sides.leading || sides.trailing == 0;
            let last = self.text.lines().checked_sub(sides.old_lines);
            let only = match (at_start, at_end) {
                (true, true) => Some(if last == Some(0) { last } else { None }),
                (true, false) => Some(Some(0)),
                (false, true) => Some(last),
                (false, false) => None,
            };
            if let Some(only) = only {
                if let Some(at) = only.filter(|&at| self.text.matches(at, &sides.old)) {
                    return self.anchored(sides, at);
                }
                return Err(match self.find(sides, 0, usize::MAX)?.first() {
                    Some(&at) if at_start && at > 0 => Why::NotAtStart(at + 1),
                    Some(&at) => Why::NotAtEnd(at + 1),
                    None => Why::NoMatch,
                });
            }
        }
        let expected = usize::try_from(self.expected(sides)).ok();
        if let Some(at) = expected.filter(|&at| at >= self.changed_to && self.text.matches(at, &sides.old)) {
            return self.undisputed(sides, at);
        }
        let found = self.find(sides, 0, usize::MAX)?;
        match found.as_slice() {
            [] => Err(Why::NoMatch),
            [at] if *at >= self.changed_to => Ok(*at),
            [at] => Err(Why::OutOfOrder(at + 1)),
            many => Err(Why::Ambiguous(many.iter().map(|at| at + 1).collect())),
        }
    }

    /// The line at the file's start or end, unless a tool that doesn't see the anchor would come to another.
    fn anchored(&mut self, sides: &Sides, at: usize) -> Result<usize, Why> {
        let first = sides.old_start <= 1;
        let for_gnu = sides.trailing < sides.leading || first;
        let for_git = sides.trailing == 0 || first;
        if !for_gnu && self.expected(sides) != at as i64 {
            let found = self.find(sides, 0, usize::MAX)?;
            if found != [at] {
                return Err(Why::Ambiguous(found.iter().map(|at| at + 1).collect()));
            }
        }
        if for_git { Ok(at) } else { self.undisputed(sides, at) }
    }

    /// The expected line, unless git, which doesn't carry offsets, would come to another (patching.md, 1.3 point 5).
    fn undisputed(&mut self, sides: &Sides, at: usize) -> Result<usize, Why> {
        let git = (sides.new_start as i64 - i64::from(sides.new_lines > 0) - self.grown).max(0);
        let reach = git.abs_diff(at as i64);
        if reach == 0 || self.how == How::Known {
            return Ok(at);
        }
        let from = usize::try_from(git).unwrap_or(0).saturating_sub(reach as usize);
        let to = usize::try_from(git).unwrap_or(0).saturating_add(reach as usize);
        let found = self.find(sides, from, to)?;
        if found.iter().all(|&other| other == at) {
            return Ok(at);
        }
        Err(Why::Ambiguous(found.iter().map(|at| at + 1).collect()))
    }

    /// The first few lines between `from` and `to` at which the old side stands.
    fn find(&mut self, sides: &Sides, from: usize, to: usize) -> Result<Vec<usize>, Why> {
        self.text.find(&sides.old, from, to, LISTED, &mut self.work).ok_or(Why::TooMuchWork)
    }
}
