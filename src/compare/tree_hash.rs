//! BLAKE3 of a file from the hashes of its units, in whatever order these were made. No I/O.

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode};

use super::UNIT;
use crate::model::Digest;

/// A hasher for one unit of a file of `size` bytes.
pub fn hasher(unit: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(unit * UNIT);
    hasher
}

/// Collects the hashes of a file's units.
#[derive(Debug)]
pub struct TreeHash {
    size: u64,
    units: Vec<ChainingValue>,
    /// Set for a file of one unit, which is a tree of its own.
    whole: Option<Digest>,
}

impl TreeHash {
    pub fn new(size: u64) -> Self {
        Self { size, units: Vec::new(), whole: None }
    }

    /// Adds one unit, which `hasher` has seen whole.
    pub fn add(&mut self, unit: u64, hasher: &blake3::Hasher) {
        if self.size <= UNIT {
            self.whole = Some(Digest(*hasher.finalize().as_bytes()));
            return;
        }
        let count = usize::try_from(self.size.div_ceil(UNIT)).unwrap_or(usize::MAX);
        self.units.resize(count, [0; 32]);
        if let Some(place) = usize::try_from(unit).ok().and_then(|unit| self.units.get_mut(unit)) {
            *place = hasher.finalize_non_root();
        }
    }

    /// The digest of the whole, once all units were added; the same as that of a plain hasher.
    pub fn finish(&self) -> Digest {
        if let Some(whole) = self.whole {
            return whole;
        }
        let (left, right) = halves(self.size, &self.units);
        let root = blake3::hazmat::merge_subtrees_root(&left, &right, Mode::Hash);
        Digest(*root.as_bytes())
    }
}

fn halves(size: u64, units: &[ChainingValue]) -> (ChainingValue, ChainingValue) {
    let left = blake3::hazmat::left_subtree_len(size);
    let middle = usize::try_from(left / UNIT).unwrap_or(usize::MAX).min(units.len());
    let (first, second) = units.split_at(middle);
    (subtree(left, first), subtree(size - left, second))
}

fn subtree(size: u64, units: &[ChainingValue]) -> ChainingValue {
    match units {
        [one] => *one,
        _ => {
            let (left, right) = halves(size, units);
            blake3::hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash)
        }
    }
}
