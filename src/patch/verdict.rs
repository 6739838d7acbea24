//! What a file is to a change: done, to be done, or something else. Pure.
//!
//! The order of judgement (patching.md, end of section 3): the hash says; else strict fit forward *and* in reverse.
//! "Already applied" is never concluded from a failure to apply.

use super::conflict::{self, Conflict};
use super::fit::{self, Fitted, How};
use super::lint::SIZE_CAP;
use super::parse::{FilePatch, Kind};
use super::sha::Sha256;
use super::text::Text;

/// What a file is known to be before and after a change; `None` is "not there".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub before: Option<Sha256>,
    pub after: Option<Sha256>,
}

impl Known {
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { before: self.after, after: self.before }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The change is there. `verified` if its hash, or its every byte, says so.
    Already { verified: bool },
    /// The change can be made.
    Apply { content: Option<Vec<u8>>, offset: i64, verified: bool },
    /// Neither.
    Conflict(Box<Conflict>),
}

impl Verdict {
    fn conflict(conflict: Conflict) -> Self {
        Self::Conflict(Box::new(conflict))
    }
}

/// Judges a file (`None` if it isn't there) against a change. To take a change back, judge its reverse.
#[must_use]
pub fn judge(file: Option<&[u8]>, patch: &FilePatch<'_>, known: Option<Known>) -> Verdict {
    if file.is_some_and(|f| f.len() > SIZE_CAP) {
        return Verdict::conflict(Conflict::TooLarge);
    }
    if let Some(known) = known {
        let hash = file.map(Sha256::of);
        if hash == known.after {
            return Verdict::Already { verified: true };
        }
        if hash == known.before {
            return from_before(file, patch, known.after);
        }
    }
    match (file, patch.kind) {
        (file, Kind::Create(_)) => create(file, patch),
        (None, Kind::Delete) => Verdict::Already { verified: true },
        (Some(file), Kind::Delete) => delete(file, patch),
        (None, Kind::Modify) => Verdict::conflict(Conflict::Missing),
        (Some(file), Kind::Modify) => modify(file, patch),
    }
}

/// The file is the one that the change was made for; so must be the result.
fn from_before(file: Option<&[u8]>, patch: &FilePatch<'_>, after: Option<Sha256>) -> Verdict {
    let (content, offset) = match (file, patch.kind) {
        (_, Kind::Create(_)) => (Some(new_side(patch)), 0),
        (Some(file), Kind::Delete) => match fit::fit(file, patch.patch.hunks(), How::Known) {
            Ok(_) => (None, 0),
            Err(misfit) => return Verdict::conflict(conflict::explain(file, patch, &misfit)),
        },
        (Some(file), Kind::Modify) => match fit::fit(file, patch.patch.hunks(), How::Known) {
            Ok(fitted) => (Some(fitted.content.clone()), fitted.offset()),
            Err(misfit) => return Verdict::conflict(conflict::explain(file, patch, &misfit)),
        },
        (None, _) => return Verdict::conflict(Conflict::Missing),
    };
    let hash = content.as_deref().map(Sha256::of);
    if hash == after {
        Verdict::Apply { content, offset, verified: true }
    } else {
        Verdict::conflict(Conflict::OtherResult { expected: after, found: hash })
    }
}

fn create(file: Option<&[u8]>, patch: &FilePatch<'_>) -> Verdict {
    let content = new_side(patch);
    match file {
        None => Verdict::Apply { content: Some(content), offset: 0, verified: false },
        Some(file) if file == content.as_slice() => Verdict::Already { verified: true },
        Some(_) => Verdict::conflict(Conflict::Exists),
    }
}

fn delete(file: &[u8], patch: &FilePatch<'_>) -> Verdict {
    match fit::fit(file, patch.patch.hunks(), How::Strict) {
        Ok(fitted) if fitted.content.is_empty() => {
            Verdict::Apply { content: None, offset: fitted.offset(), verified: false }
        }
        Ok(_) => Verdict::conflict(Conflict::MoreThanDeleted),
        Err(misfit) => Verdict::conflict(conflict::explain(file, patch, &misfit)),
    }
}

fn modify(file: &[u8], patch: &FilePatch<'_>) -> Verdict {
    let text = Text::new(file);
    let forward = fit::fit_text(&text, patch.patch.hunks(), How::Strict);
    let backward = patch.reverse();
    let reverse = fit::fit_text(&text, backward.patch.hunks(), How::Strict);
    match (forward, reverse) {
        (Ok(fitted), Err(_)) => {
            let offset = fitted.offset();
            Verdict::Apply { content: Some(fitted.content), offset, verified: false }
        }
        (Err(_), Ok(_)) => Verdict::Already { verified: false },
        (Ok(forward), Ok(reverse)) => both_ways(file, patch, forward, reverse),
        (Err(misfit), Err(_)) => Verdict::conflict(conflict::explain(file, patch, &misfit)),
    }
}

/// A block that stands in the file several times can be there once as it was and once as it becomes. Where the becoming
/// stands at the very lines that the patch says, and what it was doesn't, the change is there: so a run leaves it, and the
/// next one must not make it in the other place. The converse proves nothing: the changed block may have moved.
fn both_ways(file: &[u8], patch: &FilePatch<'_>, forward: Fitted, reverse: Fitted) -> Verdict {
    let (made, not_made) = if patch.reversed { (&forward, &reverse) } else { (&reverse, &forward) };
    let stated = |fitted: &Fitted| fitted.offsets.iter().all(|&offset| offset == 0);
    if !stated(made) || stated(not_made) || !comes_to(&made.content, file, patch) {
        return Verdict::conflict(Conflict::FitsBothWays);
    }
    if patch.reversed {
        return Verdict::Apply { content: Some(forward.content), offset: 0, verified: false };
    }
    Verdict::Already { verified: false }
}

/// Whether the patch as it is written makes `after` of `before`, at the lines that it says.
fn comes_to(before: &[u8], after: &[u8], patch: &FilePatch<'_>) -> bool {
    let back = patch.patch.reverse();
    let hunks = if patch.reversed { back.hunks() } else { patch.patch.hunks() };
    let made = fit::fit(before, hunks, How::Strict);
    made.is_ok_and(|made| made.content == after && made.offset() == 0)
}

/// The whole new content that a creating patch brings.
fn new_side(patch: &FilePatch<'_>) -> Vec<u8> {
    patch.patch.hunks().iter().flat_map(|hunk| fit::Sides::of(hunk).new).collect()
}
