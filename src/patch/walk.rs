//! Steps through bytes line by line, with numbers. Pure.

/// A position in a text, always at the start of a line.
pub(super) struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    number: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, number: 1 }
    }

    /// The current line with its newline; `None` at the end.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        line_at(self.text, self.at)
    }

    /// The line after the current one.
    pub(super) fn second(&self) -> Option<&'a [u8]> {
        line_at(self.text, self.at + self.peek()?.len())
    }

    pub(super) fn advance(&mut self) {
        if let Some(line) = self.peek() {
            self.at += line.len();
            self.number += 1;
        }
    }

    /// Number of the current line, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Byte offset of the current line.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bytes from `start` to the current line.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }
}

fn line_at(text: &[u8], at: usize) -> Option<&[u8]> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
    rest.get(..end)
}
