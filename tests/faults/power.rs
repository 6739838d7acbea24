//! Parts 3 and 4: the power is cut at every call that changes something, and after the end, on ext4 and xfs, with and
//! without the names that were not synced. And once more with each needed barrier dropped, which must not stay unseen.

use std::fmt::{Display, Formatter};

use crate::bench::{Bench, Check};
use crate::calls::{self, Call};
use crate::fault::Fault;
use crate::scene::Scene;
use crate::tally::{Context, Tally};
use crate::volume::{Cut, Volume};

/// A cut at a moment; `None` is the moment after the end.
#[derive(Clone, Debug)]
struct Point {
    scene: Scene,
    fs: &'static str,
    cut: Cut,
    undo: bool,
    kill: Option<Fault>,
    dropped: Option<Fault>,
    /// Go on by a rerun, not by `undo`.
    rerun: bool,
}

impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let phase = if self.undo { "undo" } else { "run" };
        let then = if self.rerun { "rerun" } else { "undo" };
        let kill = self.kill.as_ref().map_or_else(|| "end".to_owned(), ToString::to_string);
        let dropped = self.dropped.as_ref().map_or_else(String::new, |d| format!(",drop={d}"));
        write!(f, "cut/{}/{}/{}/{phase}@{kill}{dropped}/{then}", self.scene.name, self.fs, self.cut.name())
    }
}

impl Point {
    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let &[_, scene, fs, cut, step, then] = &parts[..] else { return None };
        let (phase, kill) = step.split_once('@')?;
        let (kill, dropped) = kill.split_once(",drop=").map_or((kill, None), |(k, d)| (k, Some(d)));
        Some(Self {
            scene: Scene::named(scene)?,
            fs: if fs == "xfs" { "xfs" } else { "ext4" },
            cut: if cut == "all" { Cut::All } else { Cut::Data },
            undo: phase == "undo",
            kill: if kill == "end" { None } else { Some(Fault::parse(kill)?) },
            dropped: dropped.and_then(Fault::parse),
            rerun: then == "rerun",
        })
    }

    fn check(&self, place: &Place) -> Check {
        let (bench, volume) = (&place.bench, &place.volume);
        bench.reset();
        if self.undo {
            bench.done(&bench.do_it())?;
        }
        volume.sync();
        let args = if self.undo { &["undo"][..] } else { self.scene.command };
        let faults: Vec<&Fault> = self.kill.iter().chain(&self.dropped).collect();
        let ran =
            if faults.is_empty() { bench.run(args) } else { bench.traced(args, &Fault::together(&faults)) };
        if self.kill.is_some() != ran.killed {
            return Err(format!("the moment was not met: {}", ran.told()));
        }
        volume.cut(self.cut)?;
        let now = bench.state();
        now.is_between(&bench.before, &bench.after)?;
        if now.plans() == 0 {
            now.is(&bench.before).map_err(|e| format!("changed without a record:{e}"))?;
        }
        if ran.code == Some(0) {
            let goal = if self.undo { &bench.before } else { &bench.after };
            now.is(goal).map_err(|e| format!("exit 0, but it did not last:{e}"))?;
        }
        if self.rerun { bench.rerun_completes(&["undo"]) } else { bench.undo_restores() }
    }
}

struct Place {
    bench: Bench,
    volume: Volume,
}

impl Place {
    fn new(context: &Context, scene: Scene, fs: &'static str) -> Result<Self, String> {
        let dir = context.dir(&format!("power-{fs}-{}", scene.name));
        let volume = Volume::new(&dir, fs)?;
        let inside = volume.mount.join("place");
        std::fs::create_dir_all(&inside).unwrap();
        let bench = Bench::new_with_log(&inside, &dir.join("log"), scene)?;
        Ok(Self { bench, volume })
    }
}

fn on_both(
    context: &Context,
    scene: Scene,
    part: impl Fn(&'static str) -> Result<Tally, String> + Sync,
) -> Result<Tally, String> {
    if let Err(why) = Volume::new(&context.dir("power-probe"), "xfs") {
        return Ok(Tally::not_run(format!("power cuts, {}: {why}", scene.name)));
    }
    std::thread::scope(|scope| {
        let parts = ["ext4", "xfs"].map(|fs| {
            let part = &part;
            scope.spawn(move || part(fs))
        });
        let mut tally = Tally::default();
        for part in parts {
            tally.add(part.join().unwrap()?);
        }
        Ok(tally)
    })
}

/// Part 3.
pub fn cuts(context: &Context, scene: Scene) -> Result<Tally, String> {
    on_both(context, scene, |fs| {
        let mut place = Some(Place::new(context, scene, fs)?);
        let bench = &place.as_ref().unwrap().bench;
        let mut points = Vec::new();
        for (undo, calls) in [(false, &bench.calls), (true, &bench.undo_calls)] {
            let changing = calls::distinct(calls.iter().filter(|call| call.changes()).cloned());
            let kills = changing.iter().map(|call| Some(Fault::new(call, "KILL", false))).chain([None]);
            for (at, kill) in kills.enumerate() {
                for cut in [Cut::All, Cut::Data] {
                    let point =
                        |rerun| Point { scene, fs, cut, undo, kill: kill.clone(), dropped: None, rerun };
                    let both = [point(false), point(true)];
                    // In the short form one way on from each moment, the other one for the other kind of cut.
                    let keep = |p: &Point| context.full || p.rerun == ((at % 2 == 0) == (cut == Cut::All));
                    points.extend(both.into_iter().filter(keep));
                }
            }
        }
        let one = Context { workers: 1, ..context.clone() };
        let cell = std::sync::Mutex::new(&mut place);
        let make = |_| Ok(cell.lock().unwrap().take().unwrap());
        one.each(&format!("power cut on {fs}, {}", scene.name), &points, make, |place, point| {
            point.check(place)
        })
    })
}

/// Part 4: a barrier is dropped; a cut must show it, on one of the file systems at least (xfs writes a file out that
/// was truncated, for one). Directories are left out: on one journalled volume a later sync
/// saves them, so `barriers` asserts them from the trace.
pub fn mutations(context: &Context, scene: Scene) -> Result<Tally, String> {
    let unnoticed = std::sync::Mutex::new(std::collections::BTreeMap::<usize, Vec<String>>::new());
    let mut tally = on_both(context, scene, |fs| {
        let place = Place::new(context, scene, fs)?;
        let start = std::time::Instant::now();
        let mut tally = Tally::default();
        let mut cuts = 0;
        let calls = place.bench.calls.clone();
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.is_barrier() && of_a_file(call)) {
            let later = calls[at..].iter().filter(|c| c.changes() && c.name != call.name);
            let kills = [None].into_iter().chain(later.map(|c| Some(Fault::new(c, "KILL", false))));
            let dropped = Some(Fault::new(call, "SKIP", false));
            let seen = kills.flat_map(|kill| [Cut::Data, Cut::All].map(|cut| (kill.clone(), cut))).any(
                |(kill, cut)| {
                    cuts += 1;
                    let rerun = false;
                    let point = Point { scene, fs, cut, undo: false, kill, dropped: dropped.clone(), rerun };
                    point.check(&place).is_err()
                },
            );
            tally.points += 1;
            if !seen {
                unnoticed.lock().unwrap().entry(call.nth).or_default().push(format!("{fs}: {}", call.text));
            }
        }
        println!(
            "dropped barriers on {fs}, {}: {} barriers, {cuts} cuts, {:.1} s",
            scene.name,
            tally.points,
            start.elapsed().as_secs_f64()
        );
        Ok(tally)
    })?;
    for missed in unnoticed.into_inner().unwrap().into_values().filter(|on| on.len() > 1) {
        tally.failed.push(format!("{}: nobody misses {missed:?}", scene.name));
    }
    Ok(tally)
}

/// With `-y`, strace shows what is synced: `fsync(8</…/0001.plan.part>)`.
fn of_a_file(call: &Call) -> bool {
    call.text.contains(".part>")
}

/// Replays one cut.
pub fn replay(context: &Context, text: &str) -> Result<Tally, String> {
    let point = Point::parse(text).ok_or_else(|| format!("`{text}` is no point"))?;
    let place = Place::new(context, point.scene, point.fs)?;
    let failed = point.check(&place).err().into_iter().collect();
    Ok(Tally { points: 1, failed, not_run: Vec::new() })
}
