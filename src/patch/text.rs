//! A file's bytes with its lines numbered, and a search that never gets slower than linear. Pure.

use memchr::memmem;

/// Bytes with the offsets of their lines.
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    /// Files are capped far below 4 GiB; what lies beyond that would only not be found.
    starts: Vec<u32>,
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut starts = Vec::with_capacity(bytes.len() / 32);
        if !bytes.is_empty() {
            starts.push(0);
        }
        let next = memchr::memchr_iter(b'\n', bytes).map(|n| n + 1).filter(|&n| n < bytes.len());
        starts.extend(next.map_while(|n| u32::try_from(n).ok()));
        Self { bytes, starts }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of lines.
    pub(super) fn lines(&self) -> usize {
        self.starts.len()
    }

    /// Offset of a line (from 0); the end for lines past it.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts.get(line).map_or(self.bytes.len(), |&start| start as usize)
    }

    /// A line (from 0) with its newline; empty past the end.
    pub(super) fn line(&self, line: usize) -> &'a [u8] {
        self.bytes.get(self.start(line)..self.start(line.saturating_add(1))).unwrap_or_default()
    }

    /// The line (from 0) that holds an offset.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start as usize <= offset).saturating_sub(1)
    }

    /// Whether `block`, made of whole lines, stands at `line` (from 0).
    pub(super) fn matches(&self, line: usize, block: &[u8]) -> bool {
        line < self.lines() && self.stands(self.start(line), block)
    }

    fn stands(&self, at: usize, block: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(block))
            && self.ends_well(at + block.len(), block)
    }

    /// A block without a last newline fits only where the file ends.
    fn ends_well(&self, end: usize, block: &[u8]) -> bool {
        block.ends_with(b"\n") || end == self.bytes.len()
    }

    /// The first `limit` lines (from 0) of `from..=to` at which `block` stands; `None` when `work`, a count of
    /// bytes, runs out.
    ///
    /// The block is looked for behind a newline, so that each hit is the start of a line: without that, a text made
    /// for it would cost lines times length of the block.
    pub(super) fn find(
        &self,
        block: &[u8],
        from: usize,
        to: usize,
        limit: usize,
        work: &mut usize,
    ) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        if from == 0 && self.matches(0, block) {
            found.push(0);
        }
        let mut needle = Vec::with_capacity(block.len() + 1);
        needle.push(b'\n');
        needle.extend_from_slice(block);
        let finder = memmem::Finder::new(&needle);
        // From the newline before line `from` to the end of a block that starts at line `to`.
        let mut at = self.start(from.max(1)).saturating_sub(1);
        let end = self.start(to).saturating_add(block.len()).min(self.bytes.len());
        *work = work.checked_sub(block.len())?;
        while found.len() < limit
            && let Some(window) = self.bytes.get(at..end)
        {
            let hit = finder.find(window);
            *work = work.checked_sub(hit.map_or(window.len(), |n| n + block.len()))?;
            let Some(hit) = hit else { break };
            let start = at + hit + 1;
            if self.ends_well(start + block.len(), block) {
                found.push(self.line_of(start));
            }
            at = start;
        }
        Some(found)
    }
}
