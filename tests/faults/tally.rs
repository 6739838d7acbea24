//! What is common to all parts: where they work, two points at a time, and the count that they print.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::bench::Check;

/// Where the parts work, and how thoroughly.
#[derive(Debug)]
pub struct Context {
    pub full: bool,
    /// Parts were named, so that even the longest are meant.
    pub named: bool,
    pub work: PathBuf,
    pub workers: usize,
}

/// How many points were tried, and those that failed, each with its replay line.
#[derive(Debug, Default)]
pub struct Tally {
    pub points: usize,
    pub failed: Vec<String>,
    pub not_run: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.failed.extend(other.failed);
        self.not_run.extend(other.not_run);
    }

    pub fn not_run(why: impl Into<String>) -> Self {
        Self { not_run: vec![why.into()], ..Self::default() }
    }
}

impl Context {
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.work.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Checks every point, each worker in a place of its own that `make` gives.
    pub fn each<P: Display + Sync, B>(
        &self,
        what: &str,
        points: &[P],
        make: impl Fn(usize) -> Result<B, String> + Sync,
        check: impl Fn(&mut B, &P) -> Check + Sync,
    ) -> Result<Tally, String> {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(Vec::new());
        let work = |worker: usize| -> Result<(), String> {
            let mut bench = make(worker)?;
            while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = check(&mut bench, point) {
                    let line = format!("{what}: {error}\n    replay: tests/faults/replay '{point}'");
                    println!("FAILED {line}");
                    failed.lock().unwrap().push(line);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap())
        })?;
        let failed = failed.into_inner().unwrap();
        println!(
            "{what}: {} points, {} failed, {:.1} s",
            points.len(),
            failed.len(),
            start.elapsed().as_secs_f64()
        );
        Ok(Tally { points: points.len(), failed, not_run: Vec::new() })
    }
}

/// `count` of the points, evenly over the whole list, always the same ones.
pub fn spread<T>(points: Vec<T>, count: usize) -> Vec<T> {
    let all = points.len();
    if all <= count {
        return points;
    }
    // A step that is prime to small periods, so that not always the same fault of a call is taken.
    let keep: std::collections::HashSet<usize> = (0..count).map(|i| (i * all) / count).collect();
    points.into_iter().enumerate().filter(|(at, _)| keep.contains(at)).map(|(_, point)| point).collect()
}

/// A directory on tmpfs where there is one, so that a point costs milliseconds; else the usual place.
pub fn fast_place() -> PathBuf {
    let shm = Path::new("/dev/shm");
    let usable = tempfile::tempdir_in(shm).is_ok();
    if usable { shm.to_path_buf() } else { std::env::temp_dir() }
}
