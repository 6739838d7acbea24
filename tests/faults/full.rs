//! Part 6: the disk fills up, block by block and inode by inode; writes fall short; the files lie in a lower layer.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::process::Command;

use crate::bench::{Bench, Check};
use crate::calls;
use crate::fault::Fault;
use crate::scene::Scene;
use crate::sweep::{Phase, judge};
use crate::tally::{Context, Tally};
use crate::tool::{self, Ran};
use crate::volume::command;

/// How little is left.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Blocks of 4 KiB besides those of the tree.
    Blocks(u64),
    Inodes(u64),
}

struct Point {
    scene: Scene,
    room: Room,
    /// It is the undo that finds the disk full.
    undo: bool,
}

impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "full/{}/{:?}/{}", self.scene.name, self.room, if self.undo { "undo" } else { "run" })
    }
}

struct Mount(PathBuf);

impl Mount {
    fn tmpfs(at: PathBuf) -> Result<Self, String> {
        std::fs::create_dir_all(&at).unwrap();
        command("mount", &["-t", "tmpfs", "-o", "size=64m,nr_inodes=10000", "tmpfs", at.to_str().unwrap()])?;
        Ok(Self(at))
    }

    fn leave(&self, room: Option<Room>) -> Result<(), String> {
        let stat = rustix::fs::statvfs(&self.0).unwrap();
        let options = match room {
            None => "remount,size=64m,nr_inodes=10000".to_owned(),
            Some(Room::Blocks(n)) => {
                let used = stat.f_blocks - stat.f_bfree;
                format!("remount,size={}k", (used + n).max(1) * stat.f_frsize / 1024)
            }
            Some(Room::Inodes(n)) => format!("remount,nr_inodes={}", stat.f_files - stat.f_ffree + n),
        };
        command("mount", &["-o", &options, self.0.to_str().unwrap()]).map(drop)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = command("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// tmpfs, from nothing left to more than enough.
pub fn disk(context: &Context, scene: Scene) -> Result<Tally, String> {
    let steps = if context.full { 40 } else { 20 };
    let rooms = (0..steps).map(Room::Blocks).chain((0..12).map(Room::Inodes));
    let points: Vec<Point> =
        rooms.flat_map(|room| [false, true].map(|undo| Point { scene, room, undo })).collect();
    if let Err(why) = Mount::tmpfs(context.dir("full-probe")) {
        return Ok(Tally::not_run(format!("full disk, {}: {why}", scene.name)));
    }
    let make = |worker: usize| {
        let dir = context.dir(&format!("full-{worker}-{}", scene.name));
        let mount = Mount::tmpfs(dir.join("mount"))?;
        Ok((Bench::new_with_log(&mount.0, &dir.join("log"), scene)?, mount))
    };
    context.each(&format!("full disk, {}", scene.name), &points, make, |(bench, mount), point| {
        mount.leave(None)?;
        bench.reset();
        if point.undo {
            bench.done(&bench.do_it())?;
        }
        mount.leave(Some(point.room))?;
        let ran = if point.undo { bench.run(&["undo"]) } else { bench.do_it() };
        let now = bench.state();
        let (goal, phase) =
            if point.undo { (&bench.before, Phase::Undo) } else { (&bench.after, Phase::Run) };
        judge(bench, &ran, &now, goal, phase).map_err(|e| format!("{e} [{}]", ran.told()))?;
        mount.leave(None)?;
        bench.undo_restores()
    })
}

/// Files may grow to a number of bytes only, by a limit that gives short writes; also where the signal is not ignored.
pub fn short_writes(context: &Context, scene: Scene) -> Result<Tally, String> {
    let limits = (0..24).map(|n| n * 256).chain((6..24).map(|n| n * 1024));
    let points: Vec<String> = limits
        .flat_map(|limit| ["run", "undo"].map(|phase| (limit, phase)))
        .flat_map(|(limit, phase)| {
            ["ignored", "deadly"].map(|signal| format!("fsize/{limit}/{phase}/{signal}"))
        })
        .collect();
    let make = |worker: usize| Bench::new(&context.dir(&format!("short-{worker}-{}", scene.name)), scene);
    context.each(&format!("short write, {}", scene.name), &points, make, |bench, point| {
        let parts: Vec<&str> = point.split('/').collect();
        let undo = parts[2] == "undo";
        bench.reset();
        if undo {
            bench.done(&bench.do_it())?;
        }
        let args = if undo { &["undo"][..] } else { scene.command };
        let ran = limited(bench, args, parts[1], parts[3] == "ignored");
        let now = bench.state();
        let (goal, phase) = if undo { (&bench.before, Phase::Undo) } else { (&bench.after, Phase::Run) };
        judge(bench, &ran, &now, goal, phase).map_err(|e| format!("{e} [{}]", ran.told()))?;
        bench.undo_restores()
    })
}

fn limited(bench: &Bench, args: &[&str], limit: &str, ignored: bool) -> Ran {
    let trap = if ignored { "trap '' XFSZ; " } else { "" };
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{trap}exec prlimit --core=0 --fsize={limit} \"$@\""))
        .arg("sh")
        .arg(tool::binary());
    tool::finish(&mut shell, &bench.site(), args);
    tool::run(shell, None)
}

/// The tree lies in the lower layer of an overlay, plain and `volatile`: a kill or an error at every change.
pub fn overlay(context: &Context, scene: Scene) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for options in ["", ",volatile"] {
        tally.add(on_overlay(context, scene, options)?);
    }
    Ok(tally)
}

fn on_overlay(context: &Context, scene: Scene, options: &str) -> Result<Tally, String> {
    let what = format!("overlay{options}, {}", scene.name);
    let make = |worker: usize| Layers::new(context, scene, options, worker);
    let layers = match make(9) {
        Ok(layers) => layers,
        Err(why) => return Ok(Tally::not_run(format!("{what}: {why}"))),
    };
    let faults = layers.calls.iter().filter(|call| call.changes()).cloned();
    let one = |call: &calls::Call| ["KILL", "EIO", "ENOSPC"].map(|what| Fault::new(call, what, false));
    let points: Vec<Fault> = calls::distinct(faults).iter().flat_map(one).collect();
    drop(layers);
    context.each(&what, &points, make, |layers, fault| layers.check(fault))
}

/// An overlay whose upper layer can be thrown away.
struct Layers {
    dir: PathBuf,
    bench: Bench,
    calls: Vec<calls::Call>,
    options: String,
}

impl Layers {
    fn new(context: &Context, scene: Scene, options: &str, worker: usize) -> Result<Self, String> {
        let name = format!("overlay-{worker}-{}{}", scene.name, options.trim_start_matches(','));
        let dir = context.dir(&name);
        let bench = Bench::new_with_log(&dir, &dir.join("log"), scene)?;
        let mut layers = Self { dir, bench, calls: Vec::new(), options: options.to_owned() };
        layers.fresh()?;
        let bench = &layers.bench;
        let ran = bench.traced(scene.command, &["-e".to_owned(), calls::watched()]);
        bench.done(&ran)?;
        bench.undo_restores()?;
        layers.calls = calls::parse(&ran.log);
        Ok(layers)
    }

    /// `top` becomes a new overlay over the tree.
    fn fresh(&self) -> Result<(), String> {
        let top = self.bench.top();
        let _ = command("umount", &["-l", top.to_str().unwrap()]);
        let _ = std::fs::remove_dir_all(self.dir.join("layers"));
        for name in ["layers/upper", "layers/work"] {
            std::fs::create_dir_all(self.dir.join(name)).unwrap();
        }
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir(&top).unwrap();
        let at = |name: &str| self.dir.join(name).display().to_string();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}{}",
            at("template"),
            at("layers/upper"),
            at("layers/work"),
            self.options
        );
        command("mount", &["-t", "overlay", "overlay", "-o", &options, top.to_str().unwrap()]).map(drop)
    }

    fn check(&self, fault: &Fault) -> Check {
        let bench = &self.bench;
        for rerun in [false, true] {
            self.fresh()?;
            let ran = bench.traced(bench.scene.command, &fault.options());
            if !ran.injected() {
                return Err(format!("the moment was not met: {}", ran.told()));
            }
            let now = bench.state();
            judge(bench, &ran, &now, &bench.after, Phase::Run)
                .map_err(|e| format!("{e} [{}]", ran.told()))?;
            if rerun { bench.rerun_completes(&["undo"])? } else { bench.undo_restores()? }
        }
        Ok(())
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        let _ = command("umount", &["-l", self.bench.top().to_str().unwrap()]);
    }
}
