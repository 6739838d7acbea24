//! Spreads work over all cores. No I/O of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// More don't read faster (performance.md section 3).
const MOST_THREADS: usize = 8;
/// Fewer looks than this take no longer than starting threads.
const LEAST: usize = 64;

/// How many threads are worth having. Asked once: the answer is read out of the cgroups' files.
#[must_use]
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS))
}

/// Does `work` on as many new threads; on this one where none is wanted, or where the system has none to give
/// (RLIMIT_NPROC, a pids cgroup). Where it has some, these do it all: `work` takes from what is common to them.
pub fn on(threads: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        let start = || Builder::new().spawn_scoped(scope, &work).is_ok();
        if (0..threads).filter(|_| start()).count() == 0 {
            work();
        }
    });
}

/// What `look` says of each item, in their order.
pub fn map<T: Sync, R: Send + Sync>(items: &[T], look: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let found: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let both: Vec<(&T, &OnceLock<R>)> = items.iter().zip(&found).collect();
    let next = AtomicUsize::new(0);
    on(if items.len() < LEAST { 0 } else { threads() }, || {
        let take = || next.fetch_add(1, Ordering::Relaxed);
        while let Some((item, place)) = both.get(take()) {
            let _ = place.set(look(item));
        }
    });
    // Each was looked at: a thread that panics takes all down with it.
    found.into_iter().filter_map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_whether_or_not_threads_are_wanted() {
        for wanted in [0, 1, 3] {
            let done = AtomicUsize::new(0);
            on(wanted, || {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), wanted.max(1));
        }
    }

    #[test]
    fn each_item_is_looked_at_once_and_in_order() {
        for count in [0, 1, LEAST - 1, LEAST, LEAST + 1, 1000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        }
    }
}
