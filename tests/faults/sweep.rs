//! Parts 1 and 2: every fault at every call that changes something, in the run, in `undo`, and in what comes after a
//! kill. A point is `scene/phase@fault[,phase@fault…]`; the same text replays it.

use std::path::Path;

use crate::bench::{Bench, Check};
use crate::calls::{self, Call};
use crate::fault::Fault;
use crate::oracle::State;
use crate::scene::Scene;
use crate::tally::{Context, Tally, spread};
use crate::tool::Ran;

const NOT_MET: &str = "the moment was not met";

/// The command of the scene (`run`) or `undo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Run,
    Undo,
}

impl Phase {
    fn name(self) -> &'static str {
        if self == Self::Run { "run" } else { "undo" }
    }

    fn args(self, scene: &Scene) -> &'static [&'static str] {
        if self == Self::Run { scene.command } else { &["undo"] }
    }
}

/// Faults one after the other. A leading phase without a fault is a clean run.
#[derive(Clone, Debug)]
pub struct Point {
    pub scene: Scene,
    pub steps: Vec<(Phase, Option<Fault>)>,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = |(phase, fault): &(Phase, Option<Fault>)| match fault {
            None => phase.name().to_owned(),
            Some(fault) => format!("{}@{fault}", phase.name()),
        };
        write!(f, "{}/{}", self.scene, self.steps.iter().map(step).collect::<Vec<_>>().join(","))
    }
}

impl Point {
    pub fn parse(text: &str) -> Option<Self> {
        let (scene, steps) = text.split_once('/')?;
        let step = |text: &str| {
            let (phase, fault) = text.split_once('@').map_or((text, None), |(p, f)| (p, Some(f)));
            let phase = if phase == "run" { Phase::Run } else { Phase::Undo };
            let fault = match fault {
                None => None,
                Some(fault) => Some(Fault::parse(fault)?),
            };
            Some((phase, fault))
        };
        Some(Self { scene: Scene::named(scene)?, steps: steps.split(',').map(step).collect::<Option<_>>()? })
    }

    /// Goes through the steps twice: once to undo what they left, once to do it again.
    pub fn check(&self, bench: &Bench) -> Check {
        self.reach(bench)?;
        bench.undo_restores()?;
        let refused = self.reach(bench)?;
        bench.rerun_completes(if refused { &["undo", "--all"] } else { &["undo"] })
    }

    /// Goes through the steps; tells whether one of them refused something.
    fn reach(&self, bench: &Bench) -> Result<bool, String> {
        bench.reset();
        let mut refused = false;
        for (phase, fault) in &self.steps {
            let args = phase.args(&self.scene);
            let ran = match fault {
                None => bench.run(args),
                Some(fault) => bench.traced(args, &fault.options()),
            };
            if fault.is_some() && !ran.injected() {
                return Err(format!("{NOT_MET}: {}", ran.told()));
            }
            let now = bench.state();
            let goal = if *phase == Phase::Run { &bench.after } else { &bench.before };
            judge(bench, &ran, &now, goal, *phase).map_err(|e| format!("{e} [{}]", ran.told()))?;
            if fault.as_ref().is_some_and(Fault::is_to_be_tried_again) && ran.code != Some(0) {
                return Err(format!("an interrupted call was not tried again [{}]", ran.told()));
            }
            refused |= ran.code == Some(3);
        }
        Ok(refused)
    }
}

/// Whether exit code, report and tree agree, and the tree is one that can be gone on from.
pub fn judge(bench: &Bench, ran: &Ran, now: &State, goal: &State, phase: Phase) -> Check {
    now.is_between(&bench.before, &bench.after)?;
    let changed = now.is(&bench.before).is_err();
    if changed && now.plans() == 0 {
        return Err(format!("changed without a record:{}", now.is(&bench.before).unwrap_err()));
    }
    if ran.killed {
        return Ok(());
    }
    match ran.code {
        Some(0) => {
            now.is(goal).map_err(|e| format!("exit 0, but{e}"))?;
            let strays = if phase == Phase::Undo { now.journal.len() } else { now.journal_strays().len() };
            if strays > 0 {
                return Err(format!("exit 0, but the journal holds {:?}", now.journal));
            }
        }
        Some(1 | 3) => {}
        // A recipe or a patch that can't be read is told from the start.
        Some(2) if !changed => {}
        other => return Err(format!("unexpected end {other:?}")),
    }
    let refused = ran.code == Some(3) && ran.report.is_some(); // the report names it
    let mute = refused || ran.log.contains("write(2"); // the fault was that nothing can be said
    if ran.code != Some(0) && !mute && !ran.stderr.contains("error") {
        return Err("a failure that names no error".to_owned());
    }
    let Some(report) = &ran.report else {
        return if ran.code == Some(0) { Err("exit 0 without a report".to_owned()) } else { Ok(()) };
    };
    agree(bench, ran, now, report, phase)
}

fn agree(bench: &Bench, ran: &Ran, now: &State, report: &serde_json::Value, phase: Phase) -> Check {
    if report["exit_code"].as_i64() != ran.code.map(i64::from) && report["exit_code"] != 0 {
        return Err(format!("the report says exit {}, the process {:?}", report["exit_code"], ran.code));
    }
    if phase == Phase::Undo {
        return Ok(());
    }
    let site = bench.site();
    let mut told = std::collections::BTreeSet::new();
    for linked in report["dedup"]["linked"].as_array().into_iter().flatten() {
        let path = Path::new(linked["path"].as_str().unwrap_or_default());
        let path = path
            .strip_prefix(bench.top())
            .map_err(|_| format!("{} isn't in {}", path.display(), site.display()))?;
        told.insert(path.to_path_buf());
    }
    let found: std::collections::BTreeSet<_> = now.new_links(&bench.before);
    // What an earlier run linked before it was stopped is "already" there for this one.
    if told.difference(&found).next().is_some() {
        return Err(format!("the report tells of links {told:?}, the tree has {found:?}"));
    }
    let fresh = report["dedup"]["already"] == 0 || report["dedup"]["already"].is_null();
    if fresh && told != found && ran.code == Some(0) {
        return Err(format!("the report tells of links {told:?}, the tree has {found:?}"));
    }
    let journal = !report["journal"].is_null();
    if !told.is_empty() && !journal {
        return Err("the report names no journal, but there are changes".to_owned());
    }
    if journal && now.plans() == 0 {
        return Err("the report names a journal that is not there".to_owned());
    }
    Ok(())
}

/// Part 1: one fault in the run.
pub fn runs(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("sweep-{}", scene.name)), scene)?;
    let calls = calls::distinct(bench.calls.iter().filter(|call| call.changes()).cloned());
    let points = calls
        .iter()
        .flat_map(Fault::all)
        .map(|fault| Point { scene, steps: vec![(Phase::Run, Some(fault))] });
    check_all(context, "fault in the run", scene, points.collect())
}

/// Faults in the run and in its undo where no two names can be exchanged.
pub fn plain(context: &Context, scene: Scene) -> Result<Tally, String> {
    let scene = scene.plain();
    let bench = Bench::new(&context.dir(&format!("plain-{}", scene.name)), scene)?;
    let faults = |calls: &[Call]| {
        let calls = calls.iter().filter(|call| call.changes() && call.name != "renameat2").cloned();
        calls::distinct(calls).iter().flat_map(Fault::all).collect::<Vec<_>>()
    };
    let run = faults(&bench.calls).into_iter().map(|fault| vec![(Phase::Run, Some(fault))]);
    let undo = faults(&bench.undo_calls).into_iter();
    let undo = undo.map(|fault| vec![(Phase::Run, None), (Phase::Undo, Some(fault))]);
    // There a link and a removal stand for a rename: the removal may fail when the link is made.
    let removal =
        |point: &Point| point.to_string().contains("@unlinkat:") && point.to_string().ends_with(":EIO");
    let (mut points, others): (Vec<_>, Vec<_>) =
        run.chain(undo).map(|steps| Point { scene, steps }).partition(removal);
    points.extend(if context.full { others } else { spread(others, 100) });
    check_all(context, "fault without exchange", scene, points)
}

/// Faults at calls that only look: the run must end in an error or not mind.
pub fn looks(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("looks-{}", scene.name)), scene)?;
    let mut calls = calls::distinct(bench.calls.iter().filter(|call| !call.changes()).cloned());
    // Threads share the work anew each time: only what is met whoever does it.
    for _ in 0..4 {
        bench.reset();
        let again = bench.traced(scene.command, &["-e".to_owned(), calls::watched()]);
        let again = calls::distinct(calls::parse(&again.log).into_iter());
        calls.retain(|call| again.iter().any(|other| (&other.name, other.nth) == (&call.name, call.nth)));
    }
    // What fails for ever must not be tried for ever.
    let faults = [("EIO", false), ("EIO", true), ("EMFILE", false), ("EINTR", false), ("EACCES", false)];
    let at = |call: &Call| faults.map(|(what, forever)| Fault::new(call, what, forever));
    let points =
        calls.iter().flat_map(at).map(|fault| Point { scene, steps: vec![(Phase::Run, Some(fault))] });
    let points: Vec<_> = points.collect();
    let points = if context.full { points } else { spread(points, 250) };
    check_all_with(context, "fault at a look", scene, points, |bench, point| {
        let not_met = |check: &Check| check.as_ref().is_err_and(|error| error.starts_with(NOT_MET));
        let mut checks = (0..5).map(|_| point.check(bench));
        checks.find(|check| !not_met(check)).unwrap_or_else(|| Err(NOT_MET.to_owned()))
    })
}

/// Of each scene in the full form: of the longer ones all would take an hour each.
const PAIRS: usize = 8_000;

/// Part 2: a fault in the undo of a clean run, and pairs: a kill, then a fault in the undo or in the run after it, or a
/// kill in undo and a fault in the next run.
pub fn recoveries(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("recover-{}", scene.name)), scene)?;
    let changing = |calls: &[Call]| calls::distinct(calls.iter().filter(|call| call.changes()).cloned());
    let (run, undo) = (changing(&bench.calls), changing(&bench.undo_calls));
    let mut points: Vec<Point> = Vec::new();
    for fault in undo.iter().flat_map(Fault::all) {
        points.push(Point { scene, steps: vec![(Phase::Run, None), (Phase::Undo, Some(fault))] });
    }
    let singles = points.len();
    for first in &run {
        let kill = Fault::new(first, "KILL", false);
        for second in [Phase::Undo, Phase::Run] {
            bench.reset();
            bench.traced(scene.command, &kill.options());
            let record = [String::from("-e"), calls::watched()];
            let log = bench.traced(second.args(&scene), &record).log;
            for fault in changing(&calls::parse(&log)).iter().flat_map(second_faults) {
                points.push(Point {
                    scene,
                    steps: vec![(Phase::Run, Some(kill.clone())), (second, Some(fault))],
                });
            }
        }
    }
    for first in &undo {
        let kill = Fault::new(first, "KILL", false);
        bench.reset();
        bench.do_it();
        bench.traced(&["undo"], &kill.options());
        let log = bench.traced(scene.command, &[String::from("-e"), calls::watched()]).log;
        for fault in changing(&calls::parse(&log)).iter().flat_map(second_faults) {
            let steps =
                vec![(Phase::Run, None), (Phase::Undo, Some(kill.clone())), (Phase::Run, Some(fault))];
            points.push(Point { scene, steps });
        }
    }
    let pairs = points.split_off(singles);
    let (singles, pairs) = match context.full {
        true => (points, spread(pairs, PAIRS)),
        false => (spread(points, 100), spread(pairs, 220)),
    };
    let mut tally = check_all(context, "fault in undo", scene, singles)?;
    tally.add(check_all(context, "pair of faults", scene, pairs)?);
    Ok(tally)
}

fn second_faults(call: &Call) -> Vec<Fault> {
    vec![Fault::new(call, "KILL", false), Fault::new(call, "EIO", false), Fault::new(call, "ENOSPC", true)]
}

fn check_all(context: &Context, what: &str, scene: Scene, points: Vec<Point>) -> Result<Tally, String> {
    check_all_with(context, what, scene, points, |bench, point| point.check(bench))
}

fn check_all_with(
    context: &Context,
    what: &str,
    scene: Scene,
    points: Vec<Point>,
    check: impl Fn(&Bench, &Point) -> Check + Sync,
) -> Result<Tally, String> {
    let make = |worker: usize| Bench::new(&context.dir(&format!("worker-{worker}-{}", scene.name)), scene);
    context.each(&format!("{what}, {}", scene.name), &points, make, |bench, point| check(bench, point))
}

/// Replays one point.
pub fn replay(context: &Context, text: &str) -> Result<Tally, String> {
    let point = Point::parse(text).ok_or_else(|| format!("`{text}` is no point"))?;
    check_all(context, "replay", point.scene, vec![point])
}
