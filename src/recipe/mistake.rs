//! A mistake in a recipe, with the place to look at. Pure.

use std::fmt;
use std::ops::Range;

/// Line and column count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    pub text: String,
}

impl Mistake {
    pub(super) fn at(input: &str, span: Option<Range<usize>>, text: impl Into<String>) -> Self {
        let at = span.map_or(0, |s| s.start).min(input.len());
        let before = input.get(..at).unwrap_or(input);
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text: text.into(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.text)
    }
}

impl std::error::Error for Mistake {}

/// The one of `words` that is nearest to `word`, if any is near.
pub(super) fn nearest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    words
        .into_iter()
        .map(|w| (distance(word, w), w))
        .filter(|(d, w)| *d <= w.chars().count().max(3) / 2)
        .min_by_key(|(d, _)| *d)
        .map(|(_, w)| w)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut left_above = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = left_above + usize::from(x != *y);
            left_above = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(left_above + 1);
        }
    }
    row[b.len()]
}
