//! Part 7, the same tool twice: the second waits for the lock, goes on where its holder was killed, or gives up as told.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::bench::{Bench, Check};
use crate::races::{resume, signal, wait_until_held};
use crate::scene::Scene;
use crate::tally::{Context, Tally};
use crate::tool;

/// Two tools at once; the holder of the lock killed.
pub fn together(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("together-{}", scene.name)), scene)?;
    let mut tally = Tally::default();
    let mut count = |what: &str, check: Check| {
        tally.points += 1;
        if let Err(error) = check {
            tally.failed.push(format!("{what}, {}: {error}", scene.name));
        }
    };
    count("a second tool waits", second(&bench, false));
    count("a second tool goes on after the first is killed", second(&bench, true));
    count("a second tool that may not wait", impatient(&bench));
    println!("two tools, {}: {} cases, {} failed", scene.name, tally.points, tally.failed.len());
    Ok(tally)
}

/// Starts the tool and holds it in the middle of its work, with the lock.
fn start_and_hold(bench: &Bench) -> Result<(std::process::Child, Pid), String> {
    bench.reset();
    let _ = fs::remove_file(bench.log_file());
    let strace = ["-e", "trace=renameat2", "-e", "inject=renameat2:signal=SIGSTOP:when=1"].map(str::to_owned);
    let log = bench.log_file();
    let mut child = tool::traced(&bench.site(), bench.scene.command, &strace, &log).spawn().unwrap();
    let held = wait_until_held(&log, &mut child).ok_or("it could not be held")?;
    Ok((child, held))
}

fn second(bench: &Bench, kill: bool) -> Check {
    let (mut first, held) = start_and_hold(bench)?;
    let waiting = tool::command(&bench.site(), bench.scene.command).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let sent = if kill { signal(held, Signal::KILL) } else { Ok(()) };
    if !kill {
        resume(held, &mut first);
    }
    let (ended, waited) = (tool::finished(first, None), tool::finished(waiting, None));
    sent?;
    if kill != ended.killed {
        return Err(format!("the first one {}", ended.told()));
    }
    bench.done(&waited)?;
    bench.undo_restores()
}

fn impatient(bench: &Bench) -> Check {
    let (mut first, held) = start_and_hold(bench)?;
    let mut second = tool::command(&bench.site(), bench.scene.command);
    second.args(["--lock-timeout", "0"]);
    let ran = tool::run(second, None);
    resume(held, &mut first);
    bench.done(&tool::finished(first, None))?;
    if ran.code == Some(1) && ran.stderr.contains("another rocm-fixup") {
        return bench.undo_restores();
    }
    Err(format!("the second one: {}", ran.told()))
}
