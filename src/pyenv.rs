//! What an installer wrote about files that we change: rows of RECORD, and which `.pyc` belongs to a source. Pure.
//!
//! Touches only the rows of the files given; line endings and order stay (pip writes CRLF, uv LF; patching.md, 4.1).
//! The same content gives the same row, so taking a change back gives back the exact RECORD.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use sha2::{Sha256, Sha384, Sha512};

/// What became of a file; paths are as RECORD has them, relative to site-packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Other content: the row's hash and size change. A file without a row stays without one.
    Changed(&'a [u8]),
    /// A new file: gets a row, for without one it survives uninstallation.
    Created(&'a [u8]),
    Deleted,
    /// As it was in this RECORD of an earlier day: the very row, at its place.
    Restored(&'a [u8]),
}

/// A RECORD, cut into lines.
pub struct Record<'a> {
    lines: Vec<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// Cuts a RECORD into lines; `None` if a row goes over several lines, which no installer writes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        let whole = |line: &&[u8]| line.iter().filter(|&&b| b == b'"').count() % 2 == 0;
        lines.iter().all(whole).then_some(Self { lines })
    }

    /// Whether a file has a row.
    #[must_use]
    pub fn has(&self, path: &[u8]) -> bool {
        self.row(path).is_some()
    }

    /// Whether a file below this directory has a row.
    #[must_use]
    pub fn has_below(&self, directory: &[u8]) -> bool {
        let below = |path: &[u8]| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"));
        self.lines.iter().any(|line| fields(line).is_some_and(|(path, _)| below(&path)))
    }

    /// The rows, each with the path of its file.
    pub fn rows(&self) -> impl Iterator<Item = (Vec<u8>, &'a [u8])> {
        self.lines.iter().filter_map(|line| Some((fields(line)?.0, *line)))
    }

    fn row(&self, path: &[u8]) -> Option<usize> {
        self.lines.iter().position(|line| fields(line).is_some_and(|(p, _)| p == path))
    }

    /// The RECORD after all edits.
    #[must_use]
    pub fn edited(&self, edits: &[(&[u8], Edit<'_>)]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = self.lines.iter().map(|l| l.to_vec()).collect();
        let ending: &[u8] =
            if self.lines.first().is_some_and(|l| l.ends_with(b"\r\n")) { b"\r\n" } else { b"\n" };
        for (path, edit) in edits {
            let row = lines.iter().position(|line| fields(line).is_some_and(|(p, _)| p == *path));
            match (row, edit) {
                (Some(row), Edit::Deleted) => {
                    lines.remove(row);
                }
                (Some(row), Edit::Changed(content) | Edit::Created(content)) => {
                    if let Some(line) = rehashed(&lines[row], content) {
                        lines[row] = line;
                    }
                }
                (None, Edit::Created(content)) => {
                    let size = size(content);
                    let hash = hash::<Sha256>(content);
                    let line = [&quoted(path)[..], b",sha256=", &hash, size.as_bytes(), ending];
                    lines.insert(place(&lines, path), line.concat());
                }
                (None, Edit::Changed(_) | Edit::Deleted) => {}
                (_, Edit::Restored(old)) => restore(&mut lines, path, old, ending),
            }
        }
        lines.concat()
    }
}

/// Puts the row of `path` back as `old` has it: for the one that is there, else behind the nearest row before it in `old`
/// that is still there.
fn restore(lines: &mut Vec<Vec<u8>>, path: &[u8], old: &[u8], ending: &[u8]) {
    let Some(old) = Record::new(old) else { return };
    let position = |lines: &[Vec<u8>], path: &[u8]| {
        lines.iter().position(|line| fields(line).is_some_and(|(p, _)| p == path))
    };
    let there = position(lines, path);
    let Some(row) = old.row(path) else {
        there.map(|at| lines.remove(at));
        return;
    };
    let mut line = old.lines[row].to_vec();
    let at = there.unwrap_or_else(|| {
        let before = old.lines[..row].iter().rev().filter_map(|line| fields(line));
        before.into_iter().find_map(|(path, _)| position(lines, &path)).map_or(0, |at| at + 1)
    });
    there.map(|at| lines.remove(at));
    // Only the last row may lack its line ending.
    let at =
        if lines.last().is_some_and(|last| !last.ends_with(b"\n")) { at.min(lines.len() - 1) } else { at };
    if at < lines.len() && !line.ends_with(b"\n") {
        line.extend_from_slice(ending);
    }
    lines.insert(at, line);
}

/// Where a new row goes: in order if the rows are in order (so both installers write them), else before the last.
/// Never last, since the last row may lack its line ending.
fn place(lines: &[Vec<u8>], path: &[u8]) -> usize {
    let paths: Vec<Vec<u8>> = lines.iter().map(|l| fields(l).map(|(p, _)| p).unwrap_or_default()).collect();
    let at = if paths.is_sorted() { paths.partition_point(|p| p.as_slice() < path) } else { paths.len() };
    at.min(lines.len().saturating_sub(1))
}

/// The row with another content's hash and size. `None` if it has no hash, or one that we don't know; quotes around
/// either are nothing that an installer writes.
fn rehashed(line: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let (_, rest) = fields(line)?;
    if rest.contains(&b'"') {
        return None;
    }
    let start = line.len() - rest.len();
    let algorithm = rest.get(..rest.iter().position(|&b| b == b'=')?)?;
    let value = match algorithm {
        b"sha256" => hash::<Sha256>(content),
        b"sha384" => hash::<Sha384>(content),
        b"sha512" => hash::<Sha512>(content),
        _ => return None,
    };
    let after_hash = rest.iter().position(|&b| b == b',')?;
    let size_field: Vec<u8> = rest[after_hash + 1..].iter().copied().take_while(u8::is_ascii_digit).collect();
    let end = &rest[after_hash + 1 + size_field.len()..];
    let size = if size_field.is_empty() { b",".to_vec() } else { size(content).into_bytes() };
    Some([&line[..start], algorithm, b"=", &value, &size, end].concat())
}

/// Whether a row has the hash of this content, and its size if it tells one.
#[must_use]
pub fn describes(row: &[u8], content: &[u8]) -> bool {
    rehashed(row, content).is_some_and(|now| now == row)
}

fn hash<H: sha2::Digest>(content: &[u8]) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.encode(H::digest(content)).into_bytes()
}

fn size(content: &[u8]) -> String {
    format!(",{}", content.len())
}

/// A row's path, unquoted, and what stands after its comma.
fn fields(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = line.strip_prefix(b"\"") else {
        let comma = line.iter().position(|&b| b == b',')?;
        return Some((line[..comma].to_vec(), &line[comma + 1..]));
    };
    let mut path = Vec::new();
    loop {
        let quote = rest.iter().position(|&b| b == b'"')?;
        path.extend_from_slice(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.first()? {
            b'"' => {
                path.push(b'"');
                rest = &rest[1..];
            }
            b',' => return Some((path, &rest[1..])),
            _ => return None,
        }
    }
}

fn quoted(path: &[u8]) -> Vec<u8> {
    if !path.iter().any(|b| b",\"\r\n".contains(b)) {
        return path.to_vec();
    }
    let doubled = path.iter().flat_map(|&b| if b == b'"' { vec![b, b] } else { vec![b] });
    std::iter::once(b'"').chain(doubled).chain(std::iter::once(b'"')).collect()
}

/// Whether `pyc`, a name in `__pycache__`, is compiled from `source`, a name beside that directory: every
/// interpreter's tag, optimised or not, pytest's too (patching.md, 4.3).
#[must_use]
pub fn is_bytecode_of(pyc: &[u8], source: &[u8]) -> bool {
    let Some(stem) = source.strip_suffix(b".py") else { return false };
    pyc.strip_prefix(stem).is_some_and(|rest| rest.starts_with(b".") && rest.ends_with(b".pyc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIP: &[u8] =
        b"a/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\n\"a/b,\"\"c\"\".py\",\
        sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\na/x.py,,\r\nx-1.dist-info/RECORD,,\r\n";

    fn edit(record: &[u8], edits: &[(&[u8], Edit<'_>)]) -> String {
        String::from_utf8(Record::new(record).unwrap().edited(edits)).unwrap()
    }

    #[test]
    fn only_the_named_row_changes_and_comes_back() {
        for path in [&b"a/__init__.py"[..], b"a/b,\"c\".py"] {
            let after = edit(PIP, &[(path, Edit::Changed(b"new"))]);
            assert_eq!(after.matches(",3\r\n").count(), 1);
            assert_eq!(after.lines().count(), 4);
            assert_eq!(edit(after.as_bytes(), &[(path, Edit::Changed(b""))]).as_bytes(), PIP);
        }
    }

    #[test]
    fn rows_without_hash_and_files_without_row_stay_so() {
        for path in [&b"a/x.py"[..], b"a/y.py", b"x-1.dist-info/RECORD"] {
            assert_eq!(edit(PIP, &[(path, Edit::Changed(b"new"))]).as_bytes(), PIP);
        }
    }

    #[test]
    fn created_and_deleted_files_gain_and_lose_their_row_exactly() {
        let cut = PIP.strip_suffix(b"\r\n").unwrap();
        for record in [PIP, cut, b"x-1.dist-info/RECORD,,\nb.py,,1\n"] {
            let with = edit(record, &[(b"a/new.py", Edit::Created(b"1"))]);
            assert!(with.contains("a/new.py,sha256="));
            assert!(with.as_bytes().ends_with(record.split(|&b| b == b'\n').next_back().unwrap()));
            assert_eq!(edit(with.as_bytes(), &[(b"a/new.py", Edit::Deleted)]).as_bytes(), record);
        }
        let without = edit(PIP, &[(b"a/__init__.py", Edit::Deleted)]);
        assert_eq!(edit(without.as_bytes(), &[(b"a/__init__.py", Edit::Created(b""))]).as_bytes(), PIP);
    }

    #[test]
    fn bytecode_of_every_tag_is_known_and_that_of_others_is_not() {
        for yes in
            ["x.cpython-311.pyc", "x.cpython-311.opt-2.pyc", "x.cpython-312-pytest-8.0.pyc", "x.pypy310.pyc"]
        {
            assert!(is_bytecode_of(yes.as_bytes(), b"x.py"), "{yes}");
        }
        for no in ["xy.cpython-311.pyc", "x.pyc.123", "x.txt", "y.cpython-311.pyc"] {
            assert!(!is_bytecode_of(no.as_bytes(), b"x.py"), "{no}");
        }
        assert!(!is_bytecode_of(b"x.cpython-311.pyc", b"x.h"));
    }
}
