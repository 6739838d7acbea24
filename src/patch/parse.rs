//! From linted sections to changes of named files: diffy parses the hunks, the rules for names are ours. Pure.
//!
//! diffy checks no paths and strips too short a name to its last component (patching.md, 1.3 point 8), so names are
//! taken from it as written and judged here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use diffy::Patch;

use super::lint::{Header, Linted, Mistake, Section};
use crate::journal::{OURS, is_ours};
use crate::model::RelPath;

/// How many leading components a name in the patch loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strip {
    Exactly(usize),
    /// One where the names start with `a/` and `b/`, none where both are equal; else an error.
    FromHeader,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Modify,
    /// With these permission bits.
    Create(u32),
    Delete,
}

/// The change of one file.
#[derive(Clone, Debug)]
pub struct FilePatch<'a> {
    pub path: RelPath,
    pub kind: Kind,
    pub patch: Patch<'a, [u8]>,
    /// The lines of the patch at which the hunks start.
    pub hunk_lines: Vec<usize>,
    /// It takes back what the patch file says.
    pub reversed: bool,
}

impl FilePatch<'_> {
    /// The change that takes this one back. A deleted file's mode is not in it: `plan` finds one.
    #[must_use]
    pub fn reverse(&self) -> FilePatch<'_> {
        FilePatch {
            path: self.path.clone(),
            kind: match self.kind {
                Kind::Modify => Kind::Modify,
                Kind::Create(_) => Kind::Delete,
                Kind::Delete => Kind::Create(0o644),
            },
            patch: self.patch.reverse(),
            hunk_lines: self.hunk_lines.clone(),
            reversed: !self.reversed,
        }
    }
}

/// Parses all sections of a patch.
///
/// # Errors
/// The first section whose names break a rule: absolute, `..`, unfolded, NUL, differing on the two sides, too few
/// components for the strip level (patching.md, cases 9, 18 to 20, 33).
pub fn parse<'a>(linted: &'a Linted<'_>, strip: Strip) -> Result<Vec<FilePatch<'a>>, Mistake> {
    linted.sections.iter().map(|section| file(section, strip)).collect()
}

fn file<'a>(section: &'a Section<'_>, strip: Strip) -> Result<FilePatch<'a>, Mistake> {
    let refuse = |rule, text: String| Err(Mistake::new(section.line, rule, text));
    let patch = match Patch::from_bytes(&section.text) {
        Ok(patch) => patch,
        Err(error) => return refuse("unparsable", error.to_string()),
    };
    let (old, new) = (patch.original().unwrap_or_default(), patch.modified().unwrap_or_default());
    let mut kind = match (old == DEV_NULL, new == DEV_NULL, section.header) {
        (true, true, _) => return refuse("name", "both names are `/dev/null`".into()),
        (true, false, Header::GitNew(mode)) => Kind::Create(mode),
        (true, false, _) => Kind::Create(0o644),
        (false, true, _) => Kind::Delete,
        (false, false, Header::GitNew(_)) => {
            return refuse("name", "a new file whose `---` isn't `/dev/null`".into());
        }
        (false, false, _) => Kind::Modify,
    };
    if kind == Kind::Delete && matches!(section.header, Header::GitNew(_))
        || kind != Kind::Delete && section.header == Header::GitDeleted
    {
        return refuse("name", "the git header and the names disagree on whether the file is deleted".into());
    }
    let (old_empty, new_empty) = match patch.hunks() {
        [only] => (only.old_range().is_empty(), only.new_range().is_empty()),
        _ => (false, false),
    };
    let path = match kind {
        Kind::Create(_) => stripped(new, one_sided(new, b"b/", strip)),
        Kind::Delete => stripped(old, one_sided(old, b"a/", strip)),
        Kind::Modify => both(old, new, strip),
    };
    let path = match path {
        Ok(path) => path,
        Err((rule, text)) => return refuse(rule, text),
    };
    // A time stamp of zero says that the file doesn't exist on that side (GNU diff -N; patching.md, case 29).
    if kind == Kind::Modify {
        let mut heads = section.text.split(|&b| b == b'\n').map(epoch);
        match (heads.next().unwrap_or(false), heads.next().unwrap_or(false)) {
            (true, false) if old_empty => kind = Kind::Create(0o644),
            (false, true) if new_empty => kind = Kind::Delete,
            _ => {}
        }
    }
    match kind {
        Kind::Create(_) if !old_empty => refuse("name", "a new file can't have old lines".into()),
        Kind::Delete if !new_empty => refuse("name", "a deleted file can't have lines left".into()),
        _ => Ok(FilePatch { path, kind, patch, hunk_lines: section.hunk_lines.clone(), reversed: false }),
    }
}

const DEV_NULL: &[u8] = b"/dev/null";

type Refusal = (&'static str, String);

fn one_sided(name: &[u8], prefix: &[u8], strip: Strip) -> usize {
    match strip {
        Strip::Exactly(n) => n,
        Strip::FromHeader => usize::from(name.starts_with(prefix)),
    }
}

/// The one path that both names mean.
fn both(old: &[u8], new: &[u8], strip: Strip) -> Result<RelPath, Refusal> {
    let level = match strip {
        Strip::Exactly(n) => n,
        Strip::FromHeader if old.starts_with(b"a/") && new.starts_with(b"b/") => 1,
        Strip::FromHeader if old == new => 0,
        Strip::FromHeader => {
            let text = format!("`{}` and `{}` don't tell the strip level: give it", lossy(old), lossy(new));
            return Err(("strip", text));
        }
    };
    let (old_path, new_path) = (stripped(old, level)?, stripped(new, level)?);
    if old_path != new_path {
        // GNU patch takes the old name, git the new one.
        return Err(("two-names", format!("`{old_path}` or `{new_path}`? The two names must be one")));
    }
    Ok(new_path)
}

/// `name` without its first `level` components, if what is left is a plain relative path.
fn stripped(name: &[u8], level: usize) -> Result<RelPath, Refusal> {
    let lossy_name = lossy(name);
    if name.starts_with(b"/") {
        return Err(("absolute-name", format!("`{lossy_name}` is absolute")));
    }
    if looks_stamped(name) {
        return Err(("time-stamp", format!("`{lossy_name}`: a time stamp must follow a tab, not spaces")));
    }
    // The whole name must be plain, so that stripping can't hide anything.
    if RelPath::new(Path::new(OsStr::from_bytes(name))).is_none() {
        return Err((
            "name",
            format!("`{lossy_name}` is not a plain path: no `..`, `.`, `//`, NUL or empty name"),
        ));
    }
    if is_ours(Path::new(OsStr::from_bytes(name))) {
        return Err(("journal", format!("`{lossy_name}` {OURS}")));
    }
    let mut rest = name;
    for _ in 0..level {
        match rest.iter().position(|&b| b == b'/') {
            Some(slash) => rest = &rest[slash + 1..],
            None => return Err(("strip", format!("`{lossy_name}` has fewer than {} components", level + 1))),
        }
    }
    RelPath::new(Path::new(OsStr::from_bytes(rest)))
        .ok_or(("name", format!("`{lossy_name}` is not a plain path")))
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// Ends with something like ` 2024-01-31 12:00:00`.
fn looks_stamped(name: &[u8]) -> bool {
    let Some(at) = name.iter().rposition(|&b| b == b':') else { return false };
    let digits = |s: &[u8]| s.len() == 2 && s.iter().all(u8::is_ascii_digit);
    name.contains(&b' ')
        && at.checked_sub(2).and_then(|from| name.get(from..at)).is_some_and(digits)
        && name.get(at + 1..at + 3).is_some_and(digits)
}

/// Whether a header line ends with a tab and the time 0, in whatever time zone.
fn epoch(line: &[u8]) -> bool {
    let Some(tab) = line.iter().position(|&b| b == b'\t') else { return false };
    let Ok(stamp) = std::str::from_utf8(line[tab + 1..].trim_ascii_end()) else { return false };
    let mut words = stamp.split(' ');
    let (Some(day), Some(time)) = (words.next(), words.next()) else { return false };
    let zone = words.next().unwrap_or("+0000");
    let days = match day {
        "1970-01-01" => 0,
        "1969-12-31" => -1,
        _ => return false,
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|p| p.parse::<u8>().ok().map(i64::from));
    let (Some(Some(h)), Some(Some(m)), Some(Some(s))) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    zone_minutes(zone).is_some_and(|offset| {
        fraction.bytes().all(|b| b == b'0') && s == 0 && days * 24 * 60 + h * 60 + m - offset == 0
    })
}

fn zone_minutes(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    let number: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
    Some(sign * (number / 100 * 60 + number % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_known_in_every_time_zone() {
        for yes in
            ["1970-01-01 00:00:00.000000000 +0000", "1969-12-31 16:00:00 -0800", "1970-01-01 05:30:00 +05:30"]
        {
            assert!(epoch(format!("--- a/x\t{yes}\n").as_bytes()), "{yes}");
        }
        for no in [
            "1970-01-01 00:00:01 +0000",
            "1970-01-01 00:00:00 +0100",
            "2024-01-01 00:00:00 +0000",
            // So many hours are no minutes in 64 bits.
            "1970-01-01 4611686018427387904:00:00 +0000",
            "",
            "x y z",
        ] {
            assert!(!epoch(format!("--- a/x\t{no}\n").as_bytes()), "{no}");
        }
    }
}
