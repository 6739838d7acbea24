//! Reads a patch line by line and says no to everything that could be misread: never parses names, opens no files.
//!
//! The reference tools and diffy all lose or misplace hunks of damaged patches and report success
//! (patching.md, 1.3 and cases 27, 34, 35, 38 to 45). So hunks are counted here, over the raw bytes, and what is
//! left is cut into sections of one file each, in a form that a parser can't misunderstand.

use std::borrow::Cow;
use std::fmt;

use super::hunk_lint::{self, Hunk};
use super::walk::Walk;
use super::words::{HEADS, is_binary, starts_message, unsupported};

/// Patches and their targets above this size are refused (patching.md, case 37).
pub const SIZE_CAP: usize = 16 << 20;

/// Whose patch it is: ours must also be tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Shipped,
    User,
}

/// A line of a patch that is refused, or (as a warning) that deserves a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1; 0 for the patch as a whole.
    pub line: usize,
    /// Stable kebab-case name of the rule.
    pub rule: &'static str,
    pub text: String,
}

impl Mistake {
    pub(super) fn new(line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { line, rule, text: text.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{} [{}]", self.text, self.rule),
            line => write!(f, "line {line}: {} [{}]", self.text, self.rule),
        }
    }
}

impl std::error::Error for Mistake {}

/// What git's extended header says about a file that appears or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Plain,
    Git,
    /// `new file mode`, with its permission bits.
    GitNew(u32),
    GitDeleted,
}

/// The part of a patch that changes one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The number of its `--- ` line.
    pub line: usize,
    pub header: Header,
    /// From `--- ` to the end of the last hunk, with the marker of a missing newline in English.
    pub text: Cow<'a, [u8]>,
    /// The lines at which the hunks start.
    pub hunk_lines: Vec<usize>,
}

/// A patch that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linted<'a> {
    pub sections: Vec<Section<'a>>,
    pub warnings: Vec<Mistake>,
}

/// Lints a whole patch.
///
/// # Errors
/// The first line that breaks a rule.
pub fn lint(patch: &[u8], origin: Origin) -> Result<Linted<'_>, Mistake> {
    if patch.is_empty() {
        return Err(Mistake::new(0, "empty", "the patch is empty"));
    }
    if patch.len() > SIZE_CAP {
        return Err(Mistake::new(0, "size", format!("the patch is larger than {} MiB", SIZE_CAP >> 20)));
    }
    if patch.starts_with(b"\xef\xbb\xbf") {
        return Err(Mistake::new(1, "byte-order-mark", "the patch starts with a byte order mark"));
    }
    let last = patch.split(|&b| b == b'\n').count();
    if !patch.ends_with(b"\n") {
        return Err(Mistake::new(last, "cut-short", "the last line has no newline: the patch is cut short"));
    }
    if origin == Origin::Shipped
        && let Some(at) = patch.iter().position(|&b| b == b'\r')
    {
        let line = 1 + patch[..at].iter().filter(|&&b| b == b'\n').count();
        return Err(Mistake::new(line, "carriage-return", "a shipped patch has LF line endings"));
    }
    let mut linter =
        Linter { walk: Walk::new(patch), origin, place: Place::Prologue, sections: vec![], warnings: vec![] };
    linter.run()?;
    if linter.sections.is_empty() {
        return Err(Mistake::new(
            0,
            "no-hunks",
            "no file section found (`--- …`, `+++ …`, `@@ …`): is this a patch?",
        ));
    }
    Ok(Linted { sections: linter.sections, warnings: linter.warnings })
}

/// Where between the sections the linter is; decides what may stand there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first section or after `From `: a mail's head and message.
    Prologue,
    /// After a section: nothing but the head of the next one.
    Gap,
    /// After `-- `: a mail's signature.
    Signature,
}

struct Linter<'a> {
    walk: Walk<'a>,
    origin: Origin,
    place: Place,
    sections: Vec<Section<'a>>,
    warnings: Vec<Mistake>,
}

impl<'a> Linter<'a> {
    fn run(&mut self) -> Result<(), Mistake> {
        while let Some(line) = self.walk.peek() {
            if line.starts_with(b"diff --git ") {
                self.git_section()?;
            } else if line.starts_with(b"--- ") && self.walk.second().is_some_and(|l| l.starts_with(b"+++ "))
            {
                if self.sections.iter().any(|s| s.header != Header::Plain) {
                    return self.refuse("mixed", "a section without `diff --git` in a git patch");
                }
                self.section(Header::Plain)?;
            } else {
                self.outside(line)?;
                self.walk.advance();
            }
        }
        Ok(())
    }

    /// A line that belongs to no section.
    fn outside(&mut self, line: &[u8]) -> Result<(), Mistake> {
        let text = line.trim_ascii_end();
        if line.starts_with(b"@@ -") {
            return self.refuse("lost-hunk", "a hunk that belongs to no file: tools drop it silently");
        }
        if text == b"***************" {
            return self.refuse("context-diff", "context diffs are not supported: make it with `diff -u`");
        }
        if is_binary(line) {
            return self.refuse("binary", "binary changes are not supported");
        }
        if text.is_empty() || self.place == Place::Signature && !starts_message(line) {
            return Ok(());
        }
        if starts_message(line) {
            self.place = Place::Prologue;
        }
        let head = HEADS.iter().any(|head| line.starts_with(head));
        if line.starts_with(b"Only in ") {
            let text = format!("`{}`: that file is not part of the patch", String::from_utf8_lossy(text));
            self.warnings.push(Mistake::new(self.walk.number(), "only-in", text));
        } else if self.place == Place::Gap && line.trim_ascii_end() == b"--" && line.starts_with(b"-- ") {
            self.place = Place::Signature;
        } else if self.place == Place::Gap && !head {
            return match line.first() {
                Some(b' ' | b'+' | b'-' | b'\\') => {
                    self.refuse("bad-count", "the hunk before it has more lines than its `@@` line says")
                }
                _ => self.refuse("junk", "this line belongs neither to a hunk nor to a header"),
            };
        }
        if self.origin == Origin::Shipped && !line.starts_with(b"diff ") {
            return self.refuse("junk", "a shipped patch holds nothing but its sections");
        }
        Ok(())
    }

    fn git_section(&mut self) -> Result<(), Mistake> {
        if self.sections.iter().any(|s| s.header == Header::Plain) {
            return self.refuse("mixed", "a `diff --git` section after a plain one");
        }
        self.walk.advance();
        let mut header = Header::Git;
        while let Some(line) = self.walk.peek() {
            let text = line.trim_ascii_end();
            if let Some(mode) = text.strip_prefix(b"new file mode ") {
                header = Header::GitNew(self.mode(mode)?);
            } else if let Some(mode) = text.strip_prefix(b"deleted file mode ") {
                self.mode(mode)?;
                header = Header::GitDeleted;
            } else if is_binary(line) {
                return self.refuse("binary", "binary changes are not supported");
            } else if let Some(what) = unsupported(text) {
                return self.refuse("unsupported", format!("{what} is not supported"));
            } else if !text.starts_with(b"index ") {
                break;
            }
            self.walk.advance();
        }
        let pair = self.walk.peek().is_some_and(|l| l.starts_with(b"--- "))
            && self.walk.second().is_some_and(|l| l.starts_with(b"+++ "));
        if !pair {
            return self.refuse(
                "no-hunks",
                "a `diff --git` section without `--- ` and `+++ ` lines changes no text",
            );
        }
        self.section(header)
    }

    /// Permission bits of a git mode; regular files only.
    fn mode(&self, mode: &[u8]) -> Result<u32, Mistake> {
        match mode {
            b"100644" | b"100664" => Ok(0o644),
            b"100755" => Ok(0o755),
            b"120000" => self.refuse("symlink", "symbolic links are not supported"),
            b"160000" => self.refuse("submodule", "submodules are not supported"),
            _ => self.refuse("mode", "not a mode that git writes"),
        }
    }

    /// `--- `, `+++ ` and the hunks.
    fn section(&mut self, header: Header) -> Result<(), Mistake> {
        let line = self.walk.number();
        let start = self.walk.at();
        self.walk.advance();
        self.walk.advance();
        let mut hunks: Vec<Hunk> = Vec::new();
        while self.walk.peek().is_some_and(|l| l.starts_with(b"@@")) {
            let hunk = hunk_lint::hunk(&mut self.walk)?;
            hunk_lint::order(hunks.last(), &hunk)?;
            hunks.push(hunk);
        }
        if hunks.is_empty() {
            return Err(Mistake::new(line, "no-hunks", "a file section without hunks"));
        }
        let found = hunk_lint::contexts(&hunks)?;
        if self.origin == Origin::Shipped
            && let Some(first) = found.first()
        {
            return Err(first.clone());
        }
        self.warnings.extend(found);
        let raw = self.walk.since(start);
        let text = if hunks.iter().any(|h| h.foreign_marker) {
            Cow::Owned(hunk_lint::english(raw, line, &hunks))
        } else {
            Cow::Borrowed(raw)
        };
        self.sections.push(Section {
            line,
            header,
            text,
            hunk_lines: hunks.iter().map(|h| h.line).collect(),
        });
        self.place = Place::Gap;
        Ok(())
    }

    fn refuse<T>(&self, rule: &'static str, text: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake::new(self.walk.number(), rule, text))
    }
}
