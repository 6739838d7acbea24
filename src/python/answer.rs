//! Reads what came back from the interpreter. Pure: bytes in, values out; a broken answer is a value too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::wire::{Directories, Line, Raw};
use crate::error::Hint;

/// An interpreter that can't host the probe, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Older than 3.8.
    Old(String),
    /// Not CPython: its name and version.
    Foreign(String),
    FreeThreaded(String),
    /// It refused the module; the loader's words. Another place for the file may do.
    Unloadable(String),
}

/// [`Unfit`] as an error about one interpreter.
#[derive(Debug)]
pub struct Refusal {
    pub command: PathBuf,
    pub why: Unfit,
}

impl Unfit {
    /// As an error about `command`, with what to do instead.
    #[must_use]
    pub fn error(self, command: &Path) -> anyhow::Error {
        let hint = match &self {
            Self::Old(_) => "name a newer interpreter by --python",
            Self::Unloadable(_) => "set TMPDIR to a directory that is writable and not mounted noexec",
            _ => "name a standard CPython by --python, or the directory by --site-packages",
        };
        let refusal = Refusal { command: command.to_path_buf(), why: self };
        anyhow::Error::new(refusal).context(Hint::new(hint))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` {}", self.command.display(), self.why)
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Old(version) => write!(f, "is Python {version}; checks need CPython 3.8 or newer"),
            Self::Foreign(name) => write!(f, "is {name}, not CPython; its modules are of another kind"),
            Self::FreeThreaded(version) => {
                write!(f, "is a free-threaded build ({version}), which can't load the probe")
            }
            Self::Unloadable(text) => write!(f, "can't load the probe: {text}"),
        }
    }
}

/// A whole answer, or as much as came.
#[derive(Debug, Default)]
pub struct Answer {
    pub lines: Vec<Line>,
    pub unfit: Option<Unfit>,
    /// Something in it is no line of an answer: then nobody can tell what is missing.
    pub garbled: bool,
    /// Files that were mapped at a crash, about in load order; empty if there was none.
    pub mapped: Vec<PathBuf>,
}

impl Answer {
    /// Whether the probe came to its end, with every line understood.
    #[must_use]
    pub fn complete(&self) -> bool {
        !self.garbled && matches!(self.lines.last(), Some(Line::End))
    }

    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.lines
            .iter()
            .find_map(|line| if let Line::Failed { text } = line { Some(text.as_str()) } else { None })
    }
}

#[must_use]
pub fn parse(bytes: &[u8]) -> Answer {
    let mut answer = Answer::default();
    let mut lines = bytes.split(|&byte| byte == b'\n');
    while let Some(line) = lines.next() {
        if line == b"!maps" {
            answer.mapped = mapped(lines);
            break;
        }
        if let Some(said) = line.strip_prefix(b"!") {
            answer.unfit = unfit(&String::from_utf8_lossy(said)).or(answer.unfit);
        } else if !line.is_empty() {
            match serde_json::from_slice(line) {
                Ok(line) => answer.lines.push(line),
                Err(_) => answer.garbled = true,
            }
        }
    }
    answer
}

fn unfit(said: &str) -> Option<Unfit> {
    let (what, text) = said.split_once(' ').unwrap_or((said, ""));
    Some(match what {
        "old" => Unfit::Old(text.into()),
        "foreign" => Unfit::Foreign(text.into()),
        "free-threaded" => Unfit::FreeThreaded(text.into()),
        "unloadable" => Unfit::Unloadable(text.into()),
        _ => return None,
    })
}

/// The files of a `/proc/PID/maps`, each once, the lowest address last: the kernel hands out addresses from the top,
/// so this is about the order in which they were loaded.
fn mapped<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in lines {
        // Five columns come before the path: range, rights, offset, device, inode.
        let Some(at) = line.iter().position(|&byte| byte == b'/') else { continue };
        let columns = line[..at].split(|&byte| byte == b' ').filter(|column| !column.is_empty());
        if columns.count() == 5 {
            let path = PathBuf::from(OsStr::from_bytes(&line[at..]));
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    files.reverse();
    files
}

/// What the plain script of the last resort says.
#[must_use]
pub fn parse_plain(bytes: &[u8]) -> Option<Directories> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Directories::default();
    let mut fields = bytes.split(|&byte| byte == 0);
    while let (Some(key), Some(value)) = (fields.next(), fields.next()) {
        match key {
            b"version" => found.version = text(value),
            b"implementation" => found.markers.implementation_name = text(value),
            b"executable" => found.executable = Some(Raw::new(value)),
            b"prefix" => found.prefix = Some(Raw::new(value)),
            b"machine" => found.machine = text(value),
            b"glibc" => found.glibc = Some(text(value)),
            b"path" if !found.paths.contains(&Raw::new(value)) => found.paths.push(Raw::new(value)),
            _ => {
                if let Some(name) = key.strip_prefix(b"package:") {
                    found.packages.push((text(name), Raw::new(value)));
                }
            }
        }
    }
    found.markers.implementation_version.clone_from(&found.version);
    (!found.version.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_before_a_crash_are_kept_and_the_map_behind_them_is_read() {
        let answer = parse(
            b"{\"importing\":{\"module\":\"torch\"}}\n{\"half\n!maps\n\
              7f00-7f01 r-xp 00000000 fe:00 12                 /opt/a b/libX.so.1\n\
              7f01-7f02 rw-p 00001000 fe:00 12                 /opt/a b/libX.so.1\n\
              7f02-7f03 rw-p 00000000 00:00 0                  [heap]\n",
        );
        assert_eq!(answer.lines, [Line::Importing { module: "torch".into() }]);
        assert_eq!(answer.mapped, [PathBuf::from("/opt/a b/libX.so.1")]);
        assert!(!answer.complete());
    }

    #[test]
    fn an_interpreter_says_why_it_cannot() {
        assert_eq!(parse(b"!old 3.7.16\n").unfit, Some(Unfit::Old("3.7.16".into())));
        assert_eq!(parse(b"!foreign pypy 3.10.1\n").unfit, Some(Unfit::Foreign("pypy 3.10.1".into())));
        assert_eq!(parse(b"!new thing\n").unfit, None);
    }

    #[test]
    fn the_plain_script_is_understood_with_paths_that_are_not_utf8() {
        let found =
            parse_plain(b"version\x003.7.1\0path\0/a\xff\0path\0/a\xff\0package:x\0/a\xff/x\0").unwrap();
        assert_eq!(found.paths, [Raw::Bytes(b"/a\xff".to_vec())]);
        assert_eq!(found.packages, [("x".to_owned(), Raw::Bytes(b"/a\xff/x".to_vec()))]);
        assert!(parse_plain(b"").is_none());
    }
}
