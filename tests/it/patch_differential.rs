//! Ours against the reference tools, on files of unknown content: where ours applies, GNU patch without fuzz must
//! apply to the same bytes, and git too where it applies at all. Skipped, and said so, where a tool is missing.
//!
//! `PAIRS=20000 cargo test differential -- --nocapture` runs longer and shows the counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rocm_fixup::patch::lint::{Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};
use rocm_fixup::patch::verdict::{Verdict, judge};

/// A small generator of numbers, the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    /// Few different lines, so that hunks fit in several places; or many.
    fn line(&mut self, words: usize) -> String {
        const TEXT: [&str; 8] = ["{", "}", "", "    return x", "int f()", "#", "    y = 1", "  "];
        match self.roll(3) {
            0 => TEXT[self.roll(TEXT.len())].to_owned(),
            _ => format!("line {}", self.roll(words)),
        }
    }

    fn edit(&mut self, lines: &mut Vec<String>, times: usize, words: usize) {
        for _ in 0..times {
            let at = self.roll(lines.len() + 1);
            match self.roll(6) {
                0 | 1 => lines.insert(at, self.line(words)),
                2 if at < lines.len() => drop(lines.remove(at)),
                3 if at < lines.len() => lines[at] = self.line(words),
                4 => {
                    let end = (at + 1 + self.roll(12)).min(lines.len());
                    let block: Vec<String> = lines[at..end].to_vec();
                    let to = self.roll(lines.len() + 1);
                    lines.splice(to..to, block);
                }
                _ => {
                    let many = self.roll(8);
                    let new: Vec<String> = (0..many).map(|_| self.line(words)).collect();
                    lines.splice(at..at, new);
                }
            }
        }
    }
}

struct Pair {
    patch: Vec<u8>,
    file: Vec<u8>,
}

fn joined(lines: &[String], ending: &str, last: bool) -> Vec<u8> {
    let mut text = lines.join(ending);
    if last && !lines.is_empty() {
        text.push_str(ending);
    }
    text.into_bytes()
}

/// A patch from a base to an edit of it, and another edit of the base for it to be applied to.
fn pair(dice: &mut Dice) -> Pair {
    let words = [4, 40, 4000][dice.roll(3)];
    let length = 1 + dice.roll(70);
    let base: Vec<String> = (0..length).map(|_| dice.line(words)).collect();
    let mut new = base.clone();
    let times = 1 + dice.roll(5);
    dice.edit(&mut new, times, words);
    let mut skewed = base.clone();
    let times = dice.roll(5);
    dice.edit(&mut skewed, times, words);
    if dice.roll(8) == 0 {
        // Applied already, or nearly.
        skewed.clone_from(&new);
        let times = dice.roll(2);
        dice.edit(&mut skewed, times, words);
    }
    let ending = if dice.roll(12) == 0 { "\r\n" } else { "\n" };
    let ends = [dice.roll(10) > 0, dice.roll(10) > 0, dice.roll(10) > 0];
    let (old, new) = (joined(&base, ending, ends[0]), joined(&new, ending, ends[1]));
    let context = [3, 3, 1, 2, 5][dice.roll(5)];
    let mut options = diffy::DiffOptions::new();
    options.set_context_len(context).set_original_filename("a/f").set_modified_filename("b/f");
    let mut patch = options.create_patch_bytes(&old, &new).to_bytes();
    if dice.roll(10) == 0 {
        patch = damaged(dice, &patch);
    }
    Pair { patch, file: joined(&skewed, ending, if dice.roll(8) == 0 { ends[2] } else { ends[0] }) }
}

/// What people do to patches: a line or a hunk taken out, a line doubled, a number changed.
fn damaged(dice: &mut Dice, patch: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = patch.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    let at = dice.roll(lines.len());
    match dice.roll(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let hunks: Vec<usize> = (0..lines.len()).filter(|&n| lines[n].starts_with(b"@@")).collect();
            if hunks.len() > 1 {
                lines.drain(hunks[0]..hunks[1]);
            }
        }
        _ => {
            if let Some(digit) = lines[at].iter_mut().find(|b| b.is_ascii_digit()) {
                *digit = b'0' + dice.roll(10) as u8;
            }
        }
    }
    lines.concat()
}

fn ours(pair: &Pair) -> Option<Vec<u8>> {
    let linted = lint(&pair.patch, Origin::User).ok()?;
    let files = parse(&linted, Strip::FromHeader).ok()?;
    match judge(Some(&pair.file), files.first()?, None) {
        Verdict::Apply { content: Some(content), .. } => Some(content),
        _ => None,
    }
}

fn there(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Runs a tool in a directory that has `f` and `p`; the new `f` if it says so.
fn theirs(directory: &Path, pair: &Pair, tool: &str, args: &[&str]) -> Option<Vec<u8>> {
    fs::write(directory.join("f"), &pair.file).unwrap();
    fs::write(directory.join("p"), &pair.patch).unwrap();
    let status = Command::new(tool)
        .args(args)
        .current_dir(directory)
        .env("GIT_CEILING_DIRECTORIES", "/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    status.success().then(|| fs::read(directory.join("f")).unwrap_or_default())
}

#[derive(Default)]
struct Counts {
    pairs: usize,
    ours: usize,
    gnu: usize,
    both_git: usize,
    git: usize,
}

#[test]
fn differential_against_gnu_patch_and_git() {
    let (gnu, git) = (there("patch"), there("git"));
    if !gnu {
        eprintln!("skipped: there is no `patch`");
        return;
    }
    let pairs: usize = std::env::var("PAIRS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_400);
    let threads = 4;
    let mut total = Counts::default();
    std::thread::scope(|scope| {
        let run = |seed: u64| move || thread(seed, pairs / threads, git);
        let handles: Vec<_> = (0..threads as u64).map(|n| scope.spawn(run(0x9E37_79B9 + n * 7919))).collect();
        for counts in handles.into_iter().map(|h| h.join().unwrap()) {
            total.pairs += counts.pairs;
            total.ours += counts.ours;
            total.gnu += counts.gnu;
            total.git += counts.git;
            total.both_git += counts.both_git;
        }
    });
    eprintln!(
        "{} pairs: ours {}, patch -F0 {}, git {}, ours and git {}",
        total.pairs, total.ours, total.gnu, total.git, total.both_git
    );
    // The corpus must be one in which much fits and much doesn't.
    assert!(total.ours * 5 > total.pairs && total.ours < total.gnu);
}

fn thread(seed: u64, pairs: usize, git: bool) -> Counts {
    let mut dice = Dice(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut counts = Counts::default();
    for _ in 0..pairs {
        let pair = pair(&mut dice);
        let ours = ours(&pair);
        let gnu = theirs(
            directory.path(),
            &pair,
            "patch",
            &["-F0", "-f", "-s", "--binary", "--no-backup-if-mismatch", "-r", "-", "-p1", "-i", "p"],
        );
        let by_git = if git { theirs(directory.path(), &pair, "git", &["apply", "p"]) } else { None };
        counts.pairs += 1;
        counts.ours += usize::from(ours.is_some());
        counts.gnu += usize::from(gnu.is_some());
        counts.git += usize::from(by_git.is_some());
        counts.both_git += usize::from(by_git.is_some() && ours.is_some());
        let Some(ours) = ours else { continue };
        let shown = || {
            format!(
                "patch:\n{}\nfile:\n{}\nours:\n{}",
                String::from_utf8_lossy(&pair.patch),
                String::from_utf8_lossy(&pair.file),
                String::from_utf8_lossy(&ours)
            )
        };
        let Some(gnu) = gnu else { panic!("GNU patch refuses what ours applies\n{}", shown()) };
        assert!(gnu == ours, "GNU patch:\n{}\n{}", String::from_utf8_lossy(&gnu), shown());
        if let Some(git) = by_git {
            assert!(git == ours, "git:\n{}\n{}", String::from_utf8_lossy(&git), shown());
        }
    }
    counts
}
