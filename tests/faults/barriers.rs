//! Parts 4 and 5, from the trace: what must be synced before what; that a run with nothing to do writes nothing; that a
//! failed sync is neither tried again nor passed over.

use std::collections::BTreeMap;

use crate::bench::{Bench, Check};
use crate::calls::{self, Call, FORBIDDEN};
use crate::fault::Fault;
use crate::scene::Scene;
use crate::tally::{Context, Tally};

pub fn check(context: &Context, scene: Scene) -> Result<Tally, String> {
    let bench = Bench::new(&context.dir(&format!("barriers-{}", scene.name)), scene)?;
    let mut tally = Tally::default();
    let mut count = |what: &str, check: Check| {
        tally.points += 1;
        if let Err(error) = check {
            tally.failed.push(format!("{what}, {}: {error}", scene.name));
        }
    };
    for (what, calls) in
        [("order of syncs in the run", &bench.calls), ("order of syncs in undo", &bench.undo_calls)]
    {
        count(what, ordered(calls));
        count(what, only_by_descriptor(calls));
    }
    count("a run with nothing to do", idle(&bench));
    for (what, undo, calls) in [("run", false, &bench.calls), ("undo", true, &bench.undo_calls)] {
        for barrier in calls.iter().filter(|call| call.is_barrier()) {
            for forever in [false, true] {
                let fault = Fault::new(barrier, "EIO", forever);
                let failed = failed_sync(&bench, undo, &fault);
                count(
                    "failed sync",
                    failed.map_err(|e| format!("{e} (replay: {}/{what}@{fault})", scene.name)),
                );
            }
        }
    }
    println!("barriers, {}: {} assertions, {} failed", scene.name, tally.points, tally.failed.len());
    Ok(tally)
}

/// The directory or file that is changed: `fsync(3</a/b>)`, `renameat2(3</a/b>, …`, the second one of `linkat`.
fn first_path(call: &Call) -> Option<&str> {
    let mut paths =
        call.text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(path, _)| path);
    if call.name == "linkat" { paths.nth(1) } else { paths.next() }
}

fn renames(call: &Call) -> bool {
    let names = ["renameat", "renameat2", "symlinkat", "linkat", "unlinkat", "mkdirat"];
    names.contains(&call.name.as_str()) && call.text.contains("= 0")
}

/// Each changed directory is synced after its last change; each new file before it gets its name; the plan before all.
fn ordered(calls: &[Call]) -> Check {
    let mut dirty: BTreeMap<String, String> = BTreeMap::new();
    for call in calls {
        let path = first_path(call).unwrap_or_default().to_owned();
        if call.is_barrier() {
            dirty.remove(&path);
        } else if call.name == "openat" && call.text.contains("O_CREAT") {
            let opened = call.text.rsplit_once('<').map_or("", |(_, rest)| rest.trim_end_matches('>'));
            dirty.insert(opened.to_owned(), call.text.clone());
        } else if renames(call) {
            if call.name.starts_with("rename") {
                let from = call.text.split('"').nth(1).unwrap_or_default();
                if let Some(unsynced) = dirty.get(&format!("{path}/{from}")) {
                    return Err(format!("{} gets its name before it is synced", unsynced));
                }
            }
            let names_journal = path.contains(".rocm-fixup") || call.text.contains("\".rocm-fixup\"");
            if !names_journal
                && let Some((_, text)) = dirty.iter().find(|(path, _)| path.contains(".rocm-fixup"))
            {
                return Err(format!("{} comes before the sync of {text}", call.text));
            }
            if call.text.contains("AT_REMOVEDIR") {
                let name = call.text.split('"').nth(1).unwrap_or_default();
                dirty.remove(&format!("{path}/{name}"));
            }
            let removes = call.name == "unlinkat" && call.text.contains(".part\"");
            if !removes {
                dirty.insert(path, call.text.clone());
            }
        } else if call.name == "write" && call.text.starts_with("write(1<") && !dirty.is_empty() {
            return Err(format!("the result is told before the sync of {dirty:?}"));
        }
    }
    // What unlinking a stage leaves unsynced costs nothing but a stray name; it must have been synced all the same.
    if dirty.is_empty() { Ok(()) } else { Err(format!("never synced: {dirty:?}")) }
}

fn only_by_descriptor(calls: &[Call]) -> Check {
    match calls.iter().find(|call| FORBIDDEN.contains(&call.name.as_str())) {
        Some(call) => Err(format!("changes by path: {}", call.text)),
        None => Ok(()),
    }
}

fn idle(bench: &Bench) -> Check {
    bench.reset();
    bench.done(&bench.do_it())?;
    let ran = bench.traced(bench.scene.command, &[String::from("-e"), calls::watched()]);
    let says = |call: &Call| call.text.starts_with("write(1,") || call.text.starts_with("write(2,");
    match calls::parse(&ran.log).iter().find(|call| call.changes() && !says(call)) {
        Some(call) => Err(format!("it did {}", call.text)),
        None => bench.done(&ran),
    }
}

fn failed_sync(bench: &Bench, undo: bool, fault: &Fault) -> Check {
    bench.reset();
    let mut args = bench.scene.command;
    if undo {
        bench.done(&bench.do_it())?;
        args = &["undo"];
    }
    let trace = "trace=fsync,fdatasync,syncfs,close".to_owned();
    let inject = format!(
        "inject={}:error={}:when={}{}",
        fault.call,
        fault.what,
        fault.nth,
        if fault.forever { "+" } else { "" }
    );
    let ran = bench.traced(args, &["-y".to_owned(), "-e".to_owned(), trace, "-e".to_owned(), inject]);
    if ran.code != Some(1) {
        return Err(format!("ended with {}", ran.told()));
    }
    if !undo && ran.report.as_ref().is_none_or(|report| report["error"].is_null()) {
        return Err("the report names no error".to_owned());
    }
    let mut failed = std::collections::BTreeSet::new();
    for call in calls::parse(&ran.log) {
        let descriptor = call
            .text
            .split('(')
            .nth(1)
            .and_then(|rest| rest.split('>').next())
            .unwrap_or_default()
            .to_owned();
        if call.name == "close" {
            failed.remove(&descriptor);
        } else if call.text.contains("INJECTED") {
            if !failed.insert(descriptor.clone()) {
                return Err(format!("synced again after it failed: {}", call.text));
            }
        } else if failed.contains(&descriptor) {
            return Err(format!("synced again after it failed: {}", call.text));
        }
    }
    let complete = std::fs::read_to_string(bench.site().join(".rocm-fixup/0001.done"));
    let last = ran.log.lines().rev().find(|line| line.contains("INJECTED")).unwrap_or_default();
    if !undo && complete.is_ok_and(|text| text.contains("complete")) && !last.contains("/.rocm-fixup>") {
        return Err("recorded as complete".to_owned());
    }
    bench.undo_restores()
}
