//! Hands out the pairs in units: the largest pair first, of each pair the last and the middle unit first, since most
//! look-alikes differ there (performance.md section 3). Opens a pair when its first unit is worked on, and closes it
//! after the last, so that few files are open at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::tree_hash::{self, TreeHash};
use super::{Buffers, Counters, Files, LARGEST, Pair, UNIT, Verdict, lock};

/// A unit of both files that took longer than this came from a disk: from memory it takes a fifth of that.
const FROM_DISK: Duration = Duration::from_millis(8);

pub struct Queue<'a> {
    waiting: Mutex<Waiting<'a>>,
    verdicts: Vec<OnceLock<Verdict>>,
    units: u64,
    threads: u64,
    counters: &'a Counters,
}

struct Waiting<'a> {
    /// The largest is the last.
    pairs: Vec<(usize, &'a Pair)>,
    current: Option<(Arc<Job<'a>>, u64)>,
}

impl<'a> Queue<'a> {
    pub fn new(pairs: &'a [Pair], counters: &'a Counters, threads: u64) -> Self {
        let verdicts: Vec<OnceLock<Verdict>> = pairs.iter().map(|_| OnceLock::new()).collect();
        let mut waiting = Vec::new();
        for (index, pair) in pairs.iter().enumerate() {
            let known = if pair.kept.id.size != pair.copy.id.size {
                Some(Verdict::Differ { at: None })
            } else if pair.kept.id.size > LARGEST {
                let error = format!("larger than {} GB", LARGEST >> 30);
                Some(Verdict::Unreadable { path: pair.kept.path.clone(), error })
            } else {
                None
            };
            match known {
                Some(verdict) => drop(verdicts[index].set(verdict)),
                None => waiting.push((index, pair)),
            }
        }
        waiting.sort_by_key(|(_, pair)| pair.kept.id.size);
        let units = waiting.iter().map(|(_, pair)| units(pair)).sum();
        let waiting = Mutex::new(Waiting { pairs: waiting, current: None });
        Self { waiting, verdicts, units, threads, counters }
    }

    pub fn units(&self) -> u64 {
        self.units
    }

    /// The next unit to work on: its pair, and the how manieth of that pair it is.
    pub fn next(&self) -> Option<(Arc<Job<'a>>, u64)> {
        let mut waiting = lock(&self.waiting);
        if let Some((job, turn)) = waiting.current.take() {
            if turn + 1 < job.units {
                waiting.current = Some((Arc::clone(&job), turn + 1));
            }
            return Some((job, turn));
        }
        let (index, pair) = waiting.pairs.pop()?;
        let job = Arc::new(Job::new(index, pair, self.counters, self.threads));
        if job.units > 1 {
            waiting.current = Some((Arc::clone(&job), 1));
        }
        Some((job, 0))
    }

    /// To be called after each unit.
    pub fn finished(&self, job: &Job<'a>) {
        if job.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.verdicts[job.index].set(job.verdict());
        }
    }

    pub fn verdicts(self) -> Vec<Verdict> {
        // Each unit was finished, so each verdict is set.
        self.verdicts
            .into_iter()
            .map(|verdict| verdict.into_inner().unwrap_or(Verdict::Differ { at: None }))
            .collect()
    }
}

fn units(pair: &Pair) -> u64 {
    pair.kept.id.size.div_ceil(UNIT).max(1)
}

/// One pair being compared.
pub struct Job<'a> {
    index: usize,
    pair: &'a Pair,
    counters: &'a Counters,
    files: OnceLock<Option<Files<'a>>>,
    units: u64,
    left: AtomicU64,
    /// How many units ahead the kernel is told to read.
    ahead: u64,
    settled: AtomicBool,
    bad: Mutex<Option<Verdict>>,
    hash: Option<Mutex<TreeHash>>,
}

impl<'a> Job<'a> {
    fn new(index: usize, pair: &'a Pair, counters: &'a Counters, threads: u64) -> Self {
        let units = units(pair);
        Self {
            index,
            pair,
            counters,
            files: OnceLock::new(),
            units,
            left: AtomicU64::new(units),
            ahead: threads,
            settled: AtomicBool::new(false),
            bad: Mutex::new(None),
            hash: pair.hash.then(|| Mutex::new(TreeHash::new(pair.kept.id.size))),
        }
    }

    /// Compares the unit whose turn it is; does nothing once the pair is known not to be equal.
    pub fn work(&self, turn: u64, buffers: &mut Buffers<'_>, progress: &(dyn Fn(u64) + Sync)) {
        let (start, end) = self.range(turn);
        if !self.settled.load(Ordering::Relaxed)
            && let Some(files) = self.files()
        {
            // For what is in the page cache already the hint would cost a tenth of the time.
            if turn + self.ahead < self.units && self.counters.slow.load(Ordering::Relaxed) {
                let (start, end) = self.range(turn + self.ahead);
                files.will_need(start, end);
            }
            let (unit, began) = (start / UNIT, Instant::now());
            let mut hasher = self.hash.as_ref().map(|_| tree_hash::hasher(unit));
            match files.range(start, end, buffers, hasher.as_mut()) {
                Ok(()) => {
                    if let (Some(hash), Some(hasher)) = (&self.hash, &hasher) {
                        lock(hash).add(unit, hasher);
                    }
                }
                Err(verdict) => self.settle(verdict),
            }
            if end - start == UNIT {
                self.counters.slow.store(began.elapsed() > FROM_DISK, Ordering::Relaxed);
            }
        }
        progress(end - start);
    }

    fn files(&self) -> Option<&Files<'a>> {
        let open = || Files::open(self.pair, self.counters).map_err(|verdict| self.settle(verdict)).ok();
        self.files.get_or_init(open).as_ref()
    }

    fn settle(&self, verdict: Verdict) {
        lock(&self.bad).get_or_insert(verdict);
        self.settled.store(true, Ordering::Relaxed);
    }

    fn verdict(&self) -> Verdict {
        // A file that changed proves nothing, whatever was seen of it before.
        if let Some(Err(changed)) = self.files.get().and_then(Option::as_ref).map(Files::check) {
            return changed;
        }
        if let Some(verdict) = lock(&self.bad).take() {
            return verdict;
        }
        Verdict::Equal { digest: self.hash.as_ref().map(|hash| lock(hash).finish()) }
    }

    /// The bytes of the unit whose turn it is: the last, the middle one, then the others as they lie.
    fn range(&self, turn: u64) -> (u64, u64) {
        let (last, middle) = (self.units - 1, self.units / 2);
        let unit = match turn {
            _ if self.units < 3 => last - turn,
            0 => last,
            1 => middle,
            _ if turn - 2 < middle => turn - 2,
            _ => turn - 1,
        };
        (unit * UNIT, ((unit + 1) * UNIT).min(self.pair.kept.id.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Side;
    use crate::model::FileId;

    #[test]
    fn each_unit_has_its_turn_once() {
        for size in [0, 1, UNIT, UNIT + 1, 3 * UNIT, 4 * UNIT, 7 * UNIT + 5] {
            let side = Side { path: "x".into(), id: FileId { dev: 0, ino: 0, size, mtime: 0, ctime: 0 } };
            let pair = Pair { kept: side.clone(), copy: side, hash: false };
            let counters = Counters::default();
            let job = Job::new(0, &pair, &counters, 2);
            let mut ranges: Vec<_> = (0..job.units).map(|turn| job.range(turn)).collect();
            assert_eq!(ranges[0].1, size, "the last unit comes first");
            ranges.sort_unstable();
            assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (0, size));
            assert!(ranges.windows(2).all(|w| w[0].1 == w[1].0 && w[0].1 - w[0].0 == UNIT), "{ranges:?}");
        }
    }
}
