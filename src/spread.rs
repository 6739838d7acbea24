//! Spreads looks at many files over all cores. No I/O of its own.

use std::sync::OnceLock;
use std::thread::{self, Builder};

/// More don't read faster (performance.md section 3).
const MOST_THREADS: usize = 8;
/// Starting a thread takes as long as looking at as many files.
const LEAST: usize = 32;

/// How many threads are worth having. Asked once: the answer is read out of the cgroups' files.
#[must_use]
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS))
}

/// What `look` says of each item, in their order. A thread looks at neighbours, and this one does what there is no
/// thread for.
pub fn map<T: Sync, R: Send>(items: &[T], look: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let size = items.len().div_ceil(threads()).max(LEAST);
    let all = |part: &[T]| part.iter().map(&look).collect::<Vec<R>>();
    thread::scope(|scope| {
        let mut parts = items.chunks(size);
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> =
            parts.map(|part| (part, Builder::new().spawn_scoped(scope, || all(part)))).collect();
        let mut found = all(own);
        for (part, thread) in others {
            match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(more)) => found.extend(more),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => found.extend(all(part)),
            }
        }
        found
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_item_is_looked_at_once_and_in_order() {
        for count in [0, 1, 31, 32, 33, 64, 65, 1000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(super::map(&items, |item| item * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        }
    }
}
