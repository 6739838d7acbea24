//! Part 8: a disk that writes in another order. The run's block writes are recorded; then for each flush epoch the disk is
//! built with every ordered prefix and with random subsets of that epoch's writes, mounted, and judged.

use std::path::Path;
use std::time::Instant;

use crate::bench::{Bench, Check};
use crate::fault::Fault;
use crate::recorder::{Op, Recorder};
use crate::scene::Scene;
use crate::tally::{Context, Tally};
use crate::volume::command;

const SIZE: usize = 32 << 20;

pub fn states(context: &Context, scene: Scene) -> Result<Tally, String> {
    let start = Instant::now();
    let rounds = if context.full { 60 } else { 2 };
    let every = if context.full { 1 } else { 4 };
    let mut tally = match tried(context, scene, None, rounds, every) {
        Err(why) if why.starts_with(NO_RECORDER) => {
            return Ok(Tally::not_run(format!("reordered writes, {}: {why}", scene.name)));
        }
        tried => tried?,
    };
    if !context.full && scene.name != "split" {
        return Ok(told(scene, tally, "", start));
    }
    // With the sync of the plan dropped, some state must show it.
    let bench = Bench::new(&context.dir("reorder-barrier"), scene)?;
    let plan = bench.calls.iter().find(|call| call.is_barrier() && call.text.contains(".plan.part>"));
    let plan = plan.ok_or("the plan is never synced")?;
    let blind = tried(context, scene, Some(&Fault::new(plan, "SKIP", false)), 4, 1)?;
    if blind.failed.is_empty() {
        tally.failed.push(format!("reordered writes, {}: nobody misses the sync of the plan", scene.name));
    }
    let blind = format!("; {} of {} without the plan's sync", blind.failed.len(), blind.points);
    Ok(told(scene, tally, &blind, start))
}

fn told(scene: Scene, tally: Tally, more: &str, start: Instant) -> Tally {
    let (name, points, failed) = (scene.name, tally.points, tally.failed.len());
    let seconds = start.elapsed().as_secs_f64();
    println!("reordered writes, {name}: {points} states, {failed} failed{more}, {seconds:.1} s");
    tally
}

const NO_RECORDER: &str = "no block recorder";

fn tried(
    context: &Context,
    scene: Scene,
    dropped: Option<&Fault>,
    rounds: usize,
    every: usize,
) -> Result<Tally, String> {
    let dir = context.dir(&format!("reorder-{}", scene.name));
    let recorder = Recorder::new(&dir.join("fuse"), SIZE).map_err(|why| format!("{NO_RECORDER}: {why}"))?;
    let mut tally = Tally::default();
    let disk = recorder.file().display().to_string();
    command("mkfs.ext4", &["-q", "-F", &disk])?;
    let mount = dir.join("mount");
    std::fs::create_dir_all(&mount).unwrap();
    let at = mount.to_str().unwrap();
    command("mount", &["-o", "loop", &disk, at])?;
    let place = mount.join("place");
    std::fs::create_dir_all(&place).unwrap();
    let recorded = record(&place, &dir, scene, &recorder, dropped);
    command("umount", &[at])?;
    drop(recorder);
    let (mut bench, base, log, undo) = recorded?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut phases = vec![("run", base, log)];
    if dropped.is_none() {
        phases.push(("undo", undo.0, undo.1));
    }
    for (phase, base, log) in phases {
        for (number, image) in images(base, &log, rounds, &mut random).enumerate().step_by(every) {
            tally.points += 1;
            if let Err(error) = judge(&mut bench, &dir, at, &image) {
                tally
                    .failed
                    .push(format!("reordered writes, {}, {phase}, state {number}: {error}", scene.name));
            }
        }
    }
    Ok(tally)
}

type Recorded = (Bench, Vec<u8>, Vec<Op>, (Vec<u8>, Vec<Op>));

/// The disk before the run and what the run wrote; the same of the undo.
fn record(
    place: &Path,
    dir: &Path,
    scene: Scene,
    recorder: &Recorder,
    dropped: Option<&Fault>,
) -> Result<Recorded, String> {
    let sync = || rustix::fs::syncfs(std::fs::File::open(place).unwrap()).unwrap();
    let bench = Bench::new_with_log(place, &dir.join("log"), scene)?;
    bench.reset();
    sync();
    let base = recorder.start();
    let ran = dropped.map_or_else(|| bench.do_it(), |fault| bench.traced(scene.command, &fault.options()));
    bench.done(&ran)?;
    sync();
    let log = recorder.log();
    let undo = recorder.start();
    bench.undo_restores()?;
    sync();
    Ok((bench, base, log, (undo, recorder.log())))
}

/// Every state that the disk may be in: all earlier epochs, and of the current one each prefix and some subsets.
fn images<'a>(
    base: Vec<u8>,
    log: &'a [Op],
    rounds: usize,
    random: &'a mut u64,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let epochs: Vec<Vec<(u64, &[u8])>> = log
        .split(|op| matches!(op, Op::Flush))
        .map(|writes| {
            let write = |op: &'a Op| match op {
                Op::Write(at, bytes) => Some((*at, bytes.as_slice())),
                Op::Flush => None,
            };
            writes.iter().filter_map(write).collect()
        })
        .collect();
    let mut settled = base;
    epochs.into_iter().flat_map(move |epoch| {
        let mut made = Vec::new();
        let mut image = settled.clone();
        for (at, bytes) in &epoch {
            put(&mut image, *at, bytes);
            made.push(image.clone());
        }
        for _ in 0..rounds.min(3 * epoch.len()) {
            let mut image = settled.clone();
            for (at, bytes) in &epoch {
                // xorshift: the same states in every run.
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                if *random & 1 == 0 {
                    put(&mut image, *at, bytes);
                }
            }
            made.push(image);
        }
        settled = image;
        made
    })
}

fn put(image: &mut [u8], at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap();
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn judge(bench: &mut Bench, dir: &Path, at: &str, image: &[u8]) -> Check {
    let file = dir.join("image");
    std::fs::write(&file, image).unwrap();
    command("mount", &["-o", "loop", file.to_str().unwrap(), at])?;
    let judged = (|| {
        let now = bench.state();
        now.is_between(&bench.before, &bench.after)?;
        if now.plans() == 0 {
            now.is(&bench.before).map_err(|e| format!("changed without a record:{e}"))?;
        }
        bench.undo_restores()
    })();
    command("umount", &[at])?;
    judged
}
