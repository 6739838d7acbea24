//! From what was seen of an import check to its verdict. Pure: values in, a value out.

use super::opened::two_copies;
use super::smoke::{Seen, SmokeCheck};
use super::texts;
use super::{CheckResult, Kind, Verdict};
use crate::python::wire::{Line, Raised, Raw};
use crate::python::{End, path, signal_name};

/// The first cause counts: what was raised, then how the process ended, then what was mapped.
#[must_use]
pub fn judge(check: &SmokeCheck, seen: &Seen) -> CheckResult {
    let (verdict, detail) = verdict(check, seen);
    let mut result = CheckResult::new(&check.name, Kind::Smoke, verdict, detail);
    result.tolerated = verdict == Verdict::NeedsGpu && check.gpu_optional;
    if result.verdict != Verdict::Ok {
        let said = [&seen.reply.ended.stderr, &seen.reply.ended.stdout];
        let said = said.into_iter().map(|bytes| texts::tail(&String::from_utf8_lossy(bytes), 20, 4096));
        result.output = said.into_iter().find(|text| !text.is_empty());
    }
    result
}

fn verdict(check: &SmokeCheck, seen: &Seen) -> (Verdict, String) {
    let stderr = String::from_utf8_lossy(&seen.reply.ended.stderr);
    let lines = &seen.reply.answer.lines;
    let raised = lines.iter().find_map(|line| match line {
        Line::Raised { module, found, exceptions } => Some((module, found, exceptions)),
        _ => None,
    });
    let (verdict, mut detail) = match raised {
        Some((module, found, exceptions)) => {
            raised_one(check, seen, &stderr, module, found.as_ref(), exceptions)
        }
        None => ended(check, seen, &stderr),
    };
    let mut add = |line: String| {
        if !detail.contains(&line) {
            detail.push('\n');
            detail.push_str(&line);
        }
    };
    if verdict != Verdict::Ok && verdict != Verdict::NeedsGpu && verdict != Verdict::Absent {
        twice(seen, &stderr).into_iter().for_each(&mut add);
    }
    if raised.is_some() {
        // It comes second, and may well be a consequence.
        match seen.reply.ended.end {
            End::Exit(0) => {}
            End::Exit(code) => add(format!("then the interpreter ended with code {code}")),
            End::Signal(number) => {
                add(format!("then {} killed the interpreter at its shutdown", signal_name(number)))
            }
            End::Timeout => add("then the interpreter didn't shut down in time".into()),
        }
    }
    (verdict, detail)
}

/// An import raised something.
fn raised_one(
    check: &SmokeCheck,
    seen: &Seen,
    stderr: &str,
    module: &str,
    found: Option<&Raw>,
    exceptions: &[Raised],
) -> (Verdict, String) {
    let first = exceptions.first();
    let missing = first.filter(|e| e.not_found).and_then(|e| e.name.as_deref());
    let own = missing.is_some_and(|name| module == name || module.starts_with(&format!("{name}.")));
    if own && found.is_none() {
        let name = missing.unwrap_or(module);
        let before = if module == check.module { String::new() } else { ", which is imported first".into() };
        return (Verdict::Absent, format!("there is no module `{name}`{before}"));
    }
    let trouble = exceptions.iter().find_map(|e| texts::loader(&e.text));
    // A runtime grumbles on stderr about a missing GPU also where something else stopped the import.
    let import_error = first.is_some_and(|e| e.import_error);
    let stderr = if import_error { "" } else { stderr };
    let texts = exceptions.iter().map(|e| e.text.as_str()).chain([stderr]);
    if let Some(line) = texts.into_iter().find_map(texts::needs_gpu).filter(|_| trouble.is_none()) {
        return (Verdict::NeedsGpu, format!("`{module}` needs a GPU: {line}"));
    }
    let mut detail = match first {
        Some(e) if e.text.is_empty() => format!("`{module}`: {}", e.kind),
        Some(e) => format!("`{module}`: {}: {}", e.kind, e.text.trim()),
        None => format!("`{module}` can't be imported"),
    };
    for behind in exceptions.iter().skip(1) {
        detail.push_str(&format!("\nbehind it: {}: {}", behind.kind, behind.text.trim()));
    }
    if let Some(file) = found.map(path).filter(|_| missing.is_some()) {
        detail.push_str(&format!("\nits file is there: `{}`", file.display()));
    }
    if let Some(trouble) = trouble {
        detail.push('\n');
        detail.push_str(&trouble.explained(seen.wanted_by.as_deref()));
    }
    (Verdict::ImportError, detail)
}

/// No import raised anything: the end of the process tells.
fn ended(check: &SmokeCheck, seen: &Seen, stderr: &str) -> (Verdict, String) {
    let module = importing(seen).unwrap_or(&check.module);
    let complete = seen.reply.answer.complete();
    let when = if complete {
        "at the interpreter's shutdown, after the imports".to_owned()
    } else {
        format!("while importing `{module}`")
    };
    if seen.reply.ended.end == End::Timeout {
        return (Verdict::Timeout, format!("stopped after {} s {when}", check.timeout.as_secs_f64()));
    }
    if !complete {
        if let Some(trouble) = texts::loader(stderr) {
            let detail = format!("`{module}`: {}", trouble.explained(None));
            return (Verdict::ImportError, detail);
        }
        if let Some(line) = texts::ended_without_gpu(stderr, seen.reply.ended.end) {
            return (Verdict::NeedsGpu, format!("`{module}` needs a GPU: {line}"));
        }
    }
    match seen.reply.ended.end {
        End::Signal(number) => {
            let said = texts::tail(stderr, 3, 600);
            let said = if said.is_empty() { said } else { format!("\n{said}") };
            (Verdict::Signal, format!("killed by {} {when}{said}", signal_name(number)))
        }
        End::Exit(0) if complete && seen.clashes.is_empty() => (Verdict::Ok, imported(check)),
        End::Exit(0) if complete => (Verdict::TwoCopies, two_copies(&seen.clashes).join("\n")),
        End::Exit(code) if texts::twice(stderr).is_some() && !seen.clashes.is_empty() => {
            (Verdict::TwoCopies, format!("the process ended with code {code} {when}"))
        }
        End::Exit(code) => (Verdict::Fail, format!("the process ended with code {code} {when}")),
        End::Timeout => (Verdict::Timeout, when),
    }
}

fn imported(check: &SmokeCheck) -> String {
    let before =
        if check.preload.is_empty() { String::new() } else { format!(" after {}", check.preload.join(", ")) };
    format!("`{}` was imported{before}", check.module)
}

/// The import during which the process ended.
fn importing(seen: &Seen) -> Option<&String> {
    seen.reply.answer.lines.iter().rev().find_map(|line| match line {
        Line::Importing { module } => Some(module),
        _ => None,
    })
}

/// Where the process said that a library is there twice: which files those are.
fn twice(seen: &Seen, stderr: &str) -> Vec<String> {
    let Some(said) = texts::twice(stderr) else { return Vec::new() };
    if !seen.clashes.is_empty() {
        return two_copies(&seen.clashes);
    }
    // Two different libraries that carry the same code inside: name those that could.
    let named = seen.mapped.iter().filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".so") && said.names.iter().any(|part| name.contains(part))
    });
    let named: Vec<String> = named.map(|file| format!("`{}`", file.display())).collect();
    if named.is_empty() { Vec::new() } else { vec![format!("mapped at that moment: {}", named.join(", "))] }
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
