//! Part 7: somebody else is at work in the tree. The tool is held at each call that takes a path while a directory or a
//! name is swapped for a link to the outside, or a file is rewritten; a flipper does the same as fast as it can. Nothing
//! outside may ever differ, and nobody's content may be lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal};

use crate::bench::{Bench, Check};
use crate::calls;
use crate::oracle::{Kind, State};
use crate::scene::Scene;
use crate::tally::{Context, Tally, spread};
use crate::tool::{self, Ran};

/// What is done while the tool is held.
const ATTACKS: [&str; 5] = ["parent", "tree", "owner", "name", "rewrite"];
/// The owner's file is removed while its last copy has left its name, but is not removed yet.
const GONE: &str = "held/split/gone/renameat2:2/";
const FORBIDDEN: [&str; 3] = ["", "EPERM", "ENOSYS"];

/// A swap that an attacker prepared: two names that are exchanged in one step.
struct Swap {
    there: PathBuf,
    other: PathBuf,
}

impl Swap {
    /// For each attack: something in the tree, and its double, which leads or lies outside.
    fn prepare(bench: &Bench, attack: &str) -> Self {
        let site = bench.site();
        let changed = |path: &&PathBuf| bench.after.items.get(*path) != bench.before.items.get(*path);
        // Bytecode is anybody's to make and to remove.
        let lasts = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "pyc");
        let is_file =
            |path: &&PathBuf| lasts(path) && matches!(bench.before.items[*path].kind, Kind::File { .. });
        let first = bench.before.items.keys().filter(is_file).find(changed);
        let name =
            first.map_or_else(|| site.join("_rocm_sdk_devel/lib/k/a.co"), |first| bench.top().join(first));
        let parent = name.parent().unwrap().to_path_buf();
        let owner =
            if site.join("_rocm_sdk_core").exists() { "_rocm_sdk_core" } else { "_rocm_sdk_libraries" };
        let there = match attack {
            "tree" if site.join("demo").exists() => site.join("demo"),
            "owner" if site.join("demo").exists() => site.join("demo-1.0.dist-info"),
            "tree" => site.join("_rocm_sdk_devel"),
            "owner" => site.join(owner).join("lib"),
            "name" | "rewrite" => name,
            _ => parent,
        };
        let other = bench.top().join("double");
        if attack == "rewrite" {
            fs::write(&other, "what pip has written meanwhile").unwrap();
        } else {
            // A copy outside, so that whoever follows the link finds all the names that it looks for.
            let outside = bench.top().join("outside/copy");
            if there.is_dir() {
                fs::create_dir_all(&outside).unwrap();
                crate::copy::tree(&there, &outside).unwrap();
            } else {
                fs::create_dir_all(outside.parent().unwrap()).unwrap();
                let _ = fs::copy(&there, &outside);
            }
            symlink(&outside, &other).unwrap();
        }
        Self { there, other }
    }

    fn flip(&self) -> bool {
        renameat_with(CWD, &self.there, CWD, &self.other, RenameFlags::EXCHANGE).is_ok()
    }

    /// The double is where it was made.
    fn is_back(&self) -> bool {
        self.other.symlink_metadata().is_ok_and(|meta| meta.is_symlink() || meta.len() == 30)
    }
}

fn outside(bench: &Bench) -> State {
    State::of(&bench.top().join("outside"))
}

/// Holds the tool at the nth call and attacks meanwhile.
pub fn held(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("held-{}", scene.name)), scene)?;
    let calls = calls::distinct(bench.calls.iter().filter(|call| call.takes_path()).cloned());
    // The looks before the journal is opened are many and harmless; from there on every call is held.
    let started = calls.iter().position(|call| call.name == "mkdirat").unwrap_or(0).saturating_sub(40);
    let mut points = Vec::new();
    for forbidden in FORBIDDEN {
        for call in calls.iter().skip(if context.full { 0 } else { started }) {
            if call.name != "openat2" || forbidden.is_empty() {
                points.extend(ATTACKS.map(|attack| {
                    format!("held/{}/{attack}/{}:{}/{forbidden}", scene.name, call.name, call.nth)
                }));
            }
        }
    }
    let mut points = if context.full { points } else { spread(points, 250) };
    if scene.name == "split" {
        points.push(GONE.to_owned());
    }
    let make = |worker: usize| Bench::new(&context.dir(&format!("held-{worker}-{}", scene.name)), scene);
    context.each(&format!("held, {}", scene.name), &points, make, |bench, point| hold(bench, point))
}

fn hold(bench: &Bench, point: &str) -> Check {
    let parts: Vec<&str> = point.split('/').collect();
    let &[_, _, attack, at, forbidden] = &parts[..] else { return Err("no such point".to_owned()) };
    let (name, nth) = at.split_once(':').unwrap();
    bench.reset();
    if point == GONE {
        return gone(bench);
    }
    let swap = Swap::prepare(bench, attack);
    let before = outside(bench);
    let mut strace = vec!["-e".to_owned(), format!("trace={name},openat2")];
    strace.extend(["-e".to_owned(), format!("inject={name}:signal=SIGSTOP:when={nth}")]);
    if !forbidden.is_empty() {
        strace.extend(["-e".to_owned(), format!("inject=openat2:error={forbidden}")]);
    }
    let log = bench.log_file();
    let _ = fs::remove_file(&log);
    let mut child = tool::traced(&bench.site(), bench.scene.command, &strace, &log).spawn().unwrap();
    let held = wait_until_held(&log, &mut child);
    let swapped = held.is_some() && swap.flip();
    if let Some(pid) = held {
        resume(pid, &mut child);
    }
    let ran = tool::finished(child, Some(&log));
    if held.is_none() {
        return Err(format!("the moment was not met: {}", ran.told()));
    }
    if led_outside(&ran) {
        return Ok(());
    }
    if !matches!(ran.code, Some(0 | 1 | 3)) {
        return Err(format!("ended with {}", ran.told()));
    }
    let after = outside(bench);
    after.is(&before).map_err(|e| format!("outside differs:{e} [{}]", ran.told()))?;
    if !after.journal.is_empty() {
        return Err("a journal was written outside".to_owned());
    }
    if attack == "rewrite" && swapped {
        return kept_somewhere(bench, "what pip has written meanwhile")
            .map_err(|e| format!("{e} [{} {}]", ran.told(), ran.log));
    }
    // Back to where all was; then the tool's own means must do.
    if swapped && !swap.is_back() {
        let _ = swap.flip() || fs::rename(&swap.other, &swap.there).is_ok();
    }
    let _ = fs::remove_file(&swap.other);
    let ran = bench.run(&["undo", "--all"]);
    let site = |state: &State| {
        let mut state = state.clone();
        state.items.retain(|path, _| path.starts_with("sdk"));
        // A name that was away while the tree was looked at can't be linked again to those that stayed.
        state.same_as.clear();
        state
    };
    if ran.code == Some(0) {
        let now = site(&bench.state());
        return now.is(&site(&bench.before)).map_err(|e| format!("after undo:{e}"));
    }
    if ran.code == Some(3) { Ok(()) } else { Err(format!("undo: {}", ran.told())) }
}

/// The copy is the last one now, and must come back to its name.
fn gone(bench: &Bench) -> Check {
    let owner = bench.site().join("_rocm_sdk_core/lib/libX.so.3");
    let copies = ["libX.so", "libX.so.3"].map(|name| bench.site().join("_rocm_sdk_devel/lib").join(name));
    let bytes = fs::read(&owner).unwrap();
    let strace = ["-e", "trace=renameat2", "-e", "inject=renameat2:signal=SIGSTOP:when=2"].map(str::to_owned);
    let log = bench.log_file();
    let _ = fs::remove_file(&log);
    let mut child = tool::traced(&bench.site(), bench.scene.command, &strace, &log).spawn().unwrap();
    let pid = wait_until_held(&log, &mut child).ok_or("the moment was not met")?;
    fs::remove_file(&owner).unwrap();
    resume(pid, &mut child);
    let ran = tool::finished(child, Some(&log));
    let back = copies.iter().all(|copy| {
        copy.symlink_metadata().is_ok_and(|meta| meta.is_file())
            && fs::read(copy).is_ok_and(|now| now == bytes)
    });
    match ran.code {
        Some(3) if back && bench.state().strays.is_empty() => Ok(()),
        _ => Err(format!("the last copy is not back: {}", ran.told())),
    }
}

/// While the tree was looked for, its name led elsewhere: then that is where it is, as some SDKs really are.
fn led_outside(ran: &Ran) -> bool {
    let trees =
        ran.report.as_ref().map_or_else(String::new, |report| report["environment"]["trees"].to_string());
    trees.contains("/outside/copy")
}

fn kept_somewhere(bench: &Bench, text: &str) -> Check {
    let mut files =
        walkdir::WalkDir::new(bench.top()).into_iter().flatten().filter(|e| e.file_type().is_file());
    let found = files.any(|e| fs::read(e.path()).is_ok_and(|bytes| bytes == text.as_bytes()));
    if found {
        Ok(())
    } else {
        Err(format!("what somebody wrote meanwhile is gone: {:?}", bench.state().items.keys()))
    }
}

/// Waits until strace has stopped the tool, and tells its process id; `None` if it ended before.
pub fn wait_until_held(log: &Path, strace: &mut std::process::Child) -> Option<Pid> {
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.lines().any(|line| line.ends_with("--- stopped by SIGSTOP ---")) {
            // The line names a thread, which can't be signalled by that number.
            let children = format!("/proc/{0}/task/{0}/children", strace.id());
            let pid = fs::read_to_string(children).unwrap_or_default();
            return pid.trim().parse().ok().and_then(Pid::from_raw);
        }
        if strace.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Lets the tool go on. A signal that comes while strace is still taking notice of the stop can be lost, so it is sent
/// until the tool has ended.
pub fn resume(pid: Pid, strace: &mut std::process::Child) {
    for _ in 0..5000 {
        let _ = signal(pid, Signal::CONT);
        std::thread::sleep(Duration::from_millis(1));
        if strace.try_wait().unwrap().is_some() {
            return;
        }
    }
}

/// Replays one held point.
pub fn replay(context: &Context, text: &str) -> Result<Tally, String> {
    let scene = text.split('/').nth(1).and_then(Scene::named).ok_or("no such scene")?;
    let bench = Bench::new(&context.dir("held"), scene)?;
    Ok(Tally { points: 1, failed: hold(&bench, text).err().into_iter().collect(), not_run: Vec::new() })
}

/// Sends a signal to the tool itself, not to strace.
pub fn signal(pid: Pid, signal: Signal) -> Check {
    rustix::process::kill_process(pid, signal).map_err(|error| format!("can't signal the tool: {error}"))
}

/// Flips as fast as it can while the tool runs and undoes again and again, half of the flips without `openat2`.
pub fn flips(context: &Context, scene: Scene) -> Result<Tally, String> {
    let goal: u64 = if context.full { 10_000_000 } else { 400_000 };
    let start = Instant::now();
    let mut tally = Tally::default();
    let (total, mut runs) = (AtomicU64::new(0), 0);
    let attacks = ["parent", "tree", "owner", "name"].into_iter().flat_map(|a| [(a, false), (a, true)]);
    for (at, (attack, forbidden)) in attacks.enumerate() {
        let bench = Bench::new(&context.dir(&format!("flips-{}", scene.name)), scene)?;
        let until = goal * (at as u64 + 1) / 8;
        while total.load(Ordering::Relaxed) < until {
            bench.reset();
            let swap = Swap::prepare(&bench, attack);
            let before = outside(&bench);
            let stop = AtomicBool::new(false);
            let followed = AtomicBool::new(false);
            let flipping = || {
                while !stop.load(Ordering::Relaxed) {
                    swap.flip();
                    total.fetch_add(1, Ordering::Relaxed);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(flipping);
                let forbid = ["-e", "trace=openat2", "--seccomp-bpf", "-e", "inject=openat2:error=ENOSYS"];
                for args in [scene.command, &["undo"], scene.command, &["undo", "--all"]] {
                    let ran = if forbidden {
                        bench.traced(args, &forbid.map(str::to_owned))
                    } else {
                        bench.run(args)
                    };
                    runs += 1;
                    if led_outside(&ran) {
                        followed.store(true, Ordering::Relaxed);
                    }
                    if !matches!(ran.code, Some(0 | 1 | 3)) {
                        tally.failed.push(format!("{attack}, {}: ended with {}", scene.name, ran.told()));
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            let after = outside(&bench);
            if let Err(error) = after.is(&before)
                && !followed.load(Ordering::Relaxed)
            {
                tally.failed.push(format!("{attack}, {}: outside differs:{error}", scene.name));
            }
        }
    }
    let total = total.into_inner();
    tally.points = usize::try_from(total).unwrap_or(usize::MAX);
    println!(
        "flips, {}: {total} in {runs} runs, {} failed, {:.1} s",
        scene.name,
        tally.failed.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(tally)
}
