//! Tells for many pairs of files whether their bytes are equal, and hashes the kept one of the very bytes compared.
//! Reads only, with `pread` into fixed buffers: a mapped file that shrinks would kill the process (SIGBUS), and
//! maps gain too little for that (performance.md section 5). Holds at most two files and 2 MB a thread.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;

use crate::model::{Digest, FileId};
use crate::{spread, stat};

mod queue;
mod tree_hash;

/// Smaller ones cost more in system calls than they gain in the cache: 256 KB a tenth (performance.md section 3).
const BUFFER: usize = 1 << 20;
/// The kernel copies to where a page begins up to twice as fast as to 16 bytes behind that, which is what an allocator
/// gives (Zen 4, two threads: 24 and 13 GB/s).
const ALIGNED: usize = 4096;
/// What a thread takes at a time: a power of two of BLAKE3 chunks, so that it is a subtree of its own.
pub const UNIT: u64 = 4 << 20;
/// Holes are looked for from this size on. No real library is that large, and so no verdict on one depends on what a
/// file system says about holes; it saves hours on a forged one.
const HOLES_FROM: u64 = 4 << 30;
/// Larger files aren't compared: reading them would take the day, and their subtree hashes the memory.
pub const LARGEST: u64 = 1 << 40;

/// One file of a pair, and what the scan saw of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub path: PathBuf,
    pub id: FileId,
}

/// Two files to compare; with `hash`, the kept one's digest is wanted if they are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub kept: Side,
    pub copy: Side,
    pub hash: bool,
}

/// What is known of a pair. `Equal` means more than equal bytes: both files were, when they were opened and again
/// after the last byte was read, those that the scan saw, ctime included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Equal {
        digest: Option<Digest>,
    },
    /// The offset of a difference, not always of the first one; `None` where the sizes differ.
    Differ {
        at: Option<u64>,
    },
    /// One of them is no longer the file that was scanned, or moved while it was read.
    Changed {
        path: PathBuf,
    },
    Unreadable {
        path: PathBuf,
        error: String,
    },
}

/// How much was read, for tests and the curious.
#[derive(Debug, Default)]
pub struct Counters {
    pub opens: AtomicU64,
    pub bytes: AtomicU64,
    /// The last unit seems to have come from a disk.
    slow: AtomicBool,
}

/// Compares all pairs, the largest first, on all cores. The verdicts come in the order of `pairs`; `progress` is told
/// how many bytes a side have just been dealt with.
pub fn compare(pairs: &[Pair], counters: &Counters, progress: &(dyn Fn(u64) + Sync)) -> Vec<Verdict> {
    compare_on(spread::threads(), pairs, counters, progress)
}

fn compare_on(
    threads: usize,
    pairs: &[Pair],
    counters: &Counters,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Verdict> {
    let queue = queue::Queue::new(pairs, counters, threads as u64);
    let work = || {
        let mut space = vec![0; ALIGNED + 2 * BUFFER];
        let mut buffers = Buffers::within(&mut space);
        while let Some((job, turn)) = queue.next() {
            job.work(turn, &mut buffers, progress);
            queue.finished(&job);
        }
    };
    // One thread only for one unit: starting more costs more than it gains.
    spread::on(threads.min(usize::try_from(queue.units()).unwrap_or(threads)), work);
    queue.verdicts()
}

struct Buffers<'s> {
    kept: &'s mut [u8],
    copy: &'s mut [u8],
}

impl<'s> Buffers<'s> {
    fn within(space: &'s mut [u8]) -> Self {
        // What can't be aligned, in theory, is only slower.
        let start = space.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        let (kept, rest) = space[start..].split_at_mut(BUFFER);
        Self { kept, copy: &mut rest[..BUFFER] }
    }
}

/// Both files of a pair, opened and checked.
struct Files<'a> {
    pair: &'a Pair,
    kept: File,
    copy: File,
    counters: &'a Counters,
    /// Both may have holes worth skipping.
    sparse: bool,
}

impl<'a> Files<'a> {
    fn open(pair: &'a Pair, counters: &'a Counters) -> Result<Self, Verdict> {
        let open = |side: &Side| {
            counters.opens.fetch_add(1, Ordering::Relaxed);
            stat::open_regular(&side.path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Verdict::Changed { path: side.path.clone() },
                _ => Verdict::Unreadable { path: side.path.clone(), error: error.to_string() },
            })
        };
        let (kept, copy) = (open(&pair.kept)?, open(&pair.copy)?);
        let mut files = Self { pair, kept, copy, counters, sparse: false };
        files.check()?;
        let holes = |file: &File| {
            file.metadata().is_ok_and(|m| m.size() >= HOLES_FROM && m.blocks() * 512 < m.size())
        };
        files.sparse = holes(&files.kept) && holes(&files.copy);
        Ok(files)
    }

    /// Both are still what the scan saw.
    fn check(&self) -> Result<(), Verdict> {
        for (side, file) in [(&self.pair.kept, &self.kept), (&self.pair.copy, &self.copy)] {
            let now = file.metadata().map_err(|error| unreadable(side, &error))?;
            if stat::file_id(&now) != side.id {
                return Err(Verdict::Changed { path: side.path.clone() });
            }
        }
        Ok(())
    }

    /// Compares one range, which `hasher` gets to see too.
    fn range(
        &self,
        start: u64,
        end: u64,
        buffers: &mut Buffers<'_>,
        mut hasher: Option<&mut blake3::Hasher>,
    ) -> Result<(), Verdict> {
        if self.sparse && hole(&self.kept, start, end) && hole(&self.copy, start, end) {
            if let Some(hasher) = hasher {
                buffers.kept.fill(0);
                for at in (start..end).step_by(BUFFER) {
                    hasher.update(&buffers.kept[..length(at, end)]);
                }
            }
            return Ok(());
        }
        for at in (start..end).step_by(BUFFER) {
            let length = length(at, end);
            let (kept, copy) = (&mut buffers.kept[..length], &mut buffers.copy[..length]);
            self.fill(&self.pair.kept, &self.kept, kept, at)?;
            self.fill(&self.pair.copy, &self.copy, copy, at)?;
            if kept != copy {
                let within = kept.iter().zip(copy.iter()).position(|(a, b)| a != b).unwrap_or(0);
                return Err(Verdict::Differ { at: Some(at + within as u64) });
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(kept);
            }
        }
        Ok(())
    }

    fn fill(&self, side: &Side, file: &File, buffer: &mut [u8], at: u64) -> Result<(), Verdict> {
        match file.read_exact_at(buffer, at) {
            Ok(()) => {
                self.counters.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            // It has become shorter.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Verdict::Changed { path: side.path.clone() })
            }
            Err(error) => Err(unreadable(side, &error)),
        }
    }

    /// Lets the kernel fetch a range that will be wanted soon. Only a hint; for holes it would make pages of zeros.
    fn will_need(&self, start: u64, end: u64) {
        if self.sparse {
            return;
        }
        for file in [&self.kept, &self.copy] {
            let _ = rustix::fs::fadvise(file, start, NonZeroU64::new(end - start), Advice::WillNeed);
        }
    }
}

fn unreadable(side: &Side, error: &io::Error) -> Verdict {
    Verdict::Unreadable { path: side.path.clone(), error: error.to_string() }
}

fn length(at: u64, end: u64) -> usize {
    usize::try_from(end - at).map_or(BUFFER, |left| left.min(BUFFER))
}

/// No data in this range, as far as the file system tells. One that can't tell says "data", which is always right.
fn hole(file: &File, start: u64, end: u64) -> bool {
    match rustix::fs::seek(file, SeekFrom::Data(start)) {
        Ok(data) => data >= end,
        Err(error) => error == Errno::NXIO,
    }
}

/// A lock that a panicking thread can't spoil: what it guards is valid at any time.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
