//! Faults on purpose: kills, errors, power cuts, full disks, swapped directories, at every call that changes something.
//! Prints how many points were tried and a line that replays each that failed. See docs/reliability.md.
//!
//! `cargo test --test faults` runs the short form, `ROCM_FIXUP_FAULTS=full` the full one; after `--` come names of
//! parts and of scenes, or `replay POINT`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: makes its own input, spawns, prints, and fails by panicking"
)]

mod barriers;
mod bench;
mod bounds;
mod calls;
mod copy;
mod fault;
mod full;
mod oracle;
mod packages;
mod power;
mod races;
mod recorder;
mod reorder;
mod scene;
#[path = "../it/sdk_tree.rs"]
#[allow(dead_code, reason = "shared with tests/it, which uses more of it")]
mod sdk_tree;
mod sweep;
mod tally;
mod together;
mod tool;
mod volume;

use std::process::ExitCode;
use std::time::Instant;

use tally::{Context, Tally};

type Part = (&'static str, fn(&Context) -> Result<Tally, String>);

const PARTS: [Part; 16] = [
    ("runs", |context| over_scenes(context, sweep::runs)),
    ("looks", |context| over_scenes(context, sweep::looks)),
    ("plain", |context| over_scenes(context, sweep::plain)),
    ("recoveries", |context| over_scenes(context, sweep::recoveries)),
    ("barriers", |context| over_scenes(context, barriers::check)),
    ("cuts", |context| over_scenes(context, power::cuts)),
    ("mutations", |context| over_scenes(context, power::mutations)),
    ("disk", |context| over_scenes(context, full::disk)),
    ("short", |context| over_scenes(context, full::short_writes)),
    ("overlay", |context| over_scenes(context, full::overlay)),
    ("held", |context| over_scenes(context, races::held)),
    ("flips", |context| over_scenes(context, races::flips)),
    ("reorder", |context| over_scenes(context, reorder::states)),
    ("user", bounds::other_user),
    ("bounds", bounds::all),
    ("together", |context| over_scenes(context, together::together)),
];

fn over_scenes(
    context: &Context,
    part: fn(&Context, scene::Scene) -> Result<Tally, String>,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for scene in scene::SCENES
        .into_iter()
        .filter(|scene| context.scenes.is_empty() || context.scenes.contains(scene.name))
    {
        let found = part(context, scene);
        tally.add(found.unwrap_or_else(|error| Tally { failed: vec![error], ..Tally::default() }));
    }
    Ok(tally)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let work = tempfile::Builder::new().prefix("rocm-fixup-faults-").tempdir_in(tally::fast_place()).unwrap();
    let context = Context {
        full: std::env::var("ROCM_FIXUP_FAULTS").is_ok_and(|form| form == "full"),
        named: args.iter().any(|arg| PARTS.iter().any(|(name, _)| name == arg)),
        scenes: args.iter().filter(|arg| scene::Scene::named(arg).is_some()).cloned().collect(),
        work: work.path().canonicalize().unwrap(),
        workers: std::thread::available_parallelism().map_or(1, usize::from).min(4),
    };
    if let [verb, point] = &args[..]
        && verb == "replay"
    {
        let part = match point.split('/').next() {
            Some("cut") => power::replay,
            Some("held") => races::replay,
            _ => sweep::replay,
        };
        return finish(part(&context, point));
    }
    let start = Instant::now();
    let mut tally = Tally::default();
    for (name, part) in PARTS {
        if context.named && !args.iter().any(|arg| arg == name) {
            continue;
        }
        match part(&context) {
            Ok(more) => tally.add(more),
            Err(error) => tally.failed.push(format!("{name}: {error}")),
        }
    }
    println!("all parts: {:.0} s", start.elapsed().as_secs_f64());
    finish(Ok(tally))
}

fn finish(result: Result<Tally, String>) -> ExitCode {
    let tally = result.unwrap_or_else(|error| Tally { failed: vec![error], ..Tally::default() });
    println!("{} points, {} failed", tally.points, tally.failed.len());
    for line in tally.failed.iter().take(50) {
        println!("FAILED {line}");
    }
    for line in &tally.not_run {
        println!("not run, so not shown: {line}");
    }
    ExitCode::from(u8::from(!tally.failed.is_empty()))
}
