//! Several changes of one file, in order, judged and made in memory. Pure.
//!
//! Only the last of the applied changes sees its own result; the ones before are judged on what is left when the
//! later ones are taken away (patching.md, case 47).

use super::conflict::Conflict;
use super::parse::FilePatch;
use super::sha::Sha256;
use super::verdict::{Known, Verdict, judge};

/// One change of the file.
#[derive(Clone, Copy)]
pub struct Link<'p> {
    pub patch: &'p FilePatch<'p>,
    pub known: Option<Known>,
}

/// What came of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do: it is there (or, on the way back, it isn't).
    Already {
        verified: bool,
    },
    /// Made, or taken back; with the hashes of the file before and after that step.
    Done {
        offset: i64,
        verified: bool,
        before: Option<Sha256>,
        after: Option<Sha256>,
    },
    Conflict(Box<Conflict>),
}

/// The file after all changes, with an outcome for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chained {
    pub outcomes: Vec<Outcome>,
    pub content: Option<Vec<u8>>,
}

/// Makes all changes that aren't there yet.
#[must_use]
pub fn apply(file: Option<&[u8]>, links: &[Link<'_>]) -> Chained {
    let (base, there) = taken_off(file, links);
    let prefix = there.iter().take_while(|t| t.is_some()).count();
    let in_order = there[prefix..].iter().all(Option::is_none);
    // Changes that are there, one after the other from the first, needn't be taken off and made again.
    let mut content = if in_order { file.map(<[u8]>::to_vec) } else { base };
    let mut outcomes = Vec::with_capacity(links.len());
    for (n, (link, there)) in links.iter().zip(&there).enumerate() {
        if let Some(verified) = *there {
            if in_order && n < prefix {
                outcomes.push(Outcome::Already { verified });
                continue;
            }
            let outcome = match step(&mut content, link, link.known) {
                Outcome::Conflict(conflict) => Outcome::Conflict(conflict),
                _ => Outcome::Already { verified },
            };
            outcomes.push(outcome);
        } else {
            outcomes.push(step(&mut content, link, link.known));
        }
    }
    Chained { outcomes, content }
}

/// Takes back all changes that are there, the last first.
#[must_use]
pub fn revert(file: Option<&[u8]>, links: &[Link<'_>]) -> Chained {
    let mut content = file.map(<[u8]>::to_vec);
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(links.len());
    for link in links.iter().rev() {
        let reversed = link.patch.reverse();
        let back = Link { patch: &reversed, known: link.known.map(Known::reversed) };
        outcomes.push(step(&mut content, &back, back.known));
    }
    outcomes.reverse();
    Chained { outcomes, content }
}

/// The file without the changes that are there, and which those are (`Some(verified)`).
fn taken_off(file: Option<&[u8]>, links: &[Link<'_>]) -> (Option<Vec<u8>>, Vec<Option<bool>>) {
    let mut content = file.map(<[u8]>::to_vec);
    let mut there = vec![None; links.len()];
    for (n, link) in links.iter().enumerate().rev() {
        if let Verdict::Already { verified } = judge(content.as_deref(), link.patch, link.known) {
            there[n] = Some(verified);
            if n == 0 {
                break;
            }
            let back = link.patch.reverse();
            if let Verdict::Apply { content: before, .. } =
                judge(content.as_deref(), &back, link.known.map(Known::reversed))
            {
                content = before;
            }
        }
    }
    (content, there)
}

fn step(content: &mut Option<Vec<u8>>, link: &Link<'_>, known: Option<Known>) -> Outcome {
    match judge(content.as_deref(), link.patch, known) {
        Verdict::Already { verified } => Outcome::Already { verified },
        Verdict::Conflict(conflict) => Outcome::Conflict(conflict),
        Verdict::Apply { content: new, offset, verified } => {
            let before = content.as_deref().map(Sha256::of);
            let after = new.as_deref().map(Sha256::of);
            *content = new;
            Outcome::Done { offset, verified, before, after }
        }
    }
}
