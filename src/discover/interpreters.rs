//! Which interpreter is the image's. Decides by who has an SDK; never guesses between two that have different ones.

use std::collections::BTreeSet;
use std::env::split_paths;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::{Environment, Options, Surroundings, physical_directory, push_new};
use crate::error::{Hint, message};
use crate::python::{self, Interpreter};

/// Packages to look for beside what the site directories list: an editable install can lie anywhere.
const PACKAGES: [&str; 4] = ["_rocm_sdk_core", "_rocm_sdk_libraries", "_rocm_sdk_devel", "_rocm_profiler"];

/// # Errors
/// If the interpreter can't be started, or gives no answer.
pub fn ask(command: &Path) -> Result<Interpreter> {
    python::directories(command, &PACKAGES)
}

/// The environment of the interpreter that counts.
///
/// # Errors
/// If there is none, the named one doesn't answer, or two others have different SDKs.
pub fn choose(options: &Options, around: &Surroundings) -> Result<Environment> {
    if let Some(named) = &options.python {
        return environment(named);
    }
    let mut candidates = first_ones(around);
    let mut notes = Vec::new();
    let mut first: Option<Environment> = None;
    let mut first_error = None;
    for command in &candidates {
        match environment(command) {
            Ok(found) if found.has_sdk() && first.is_none() => return Ok(warned(found, around, notes)),
            Ok(found) => first = first.or(Some(found)),
            Err(error) => {
                notes.push(format!("passed over {}", message(&error)));
                first_error = first_error.or(Some(error));
            }
        }
        if first.is_some() {
            break;
        }
    }
    let asked = first.as_ref().and_then(|env| Some(env.interpreter.as_ref()?.command.clone()));
    candidates.extend(around.well_known.iter().filter(|python| runnable(python)).cloned());
    let mut with_sdk: Vec<Environment> = Vec::new();
    let mut seen = BTreeSet::new();
    for command in candidates {
        let named = named_physically(&command);
        if Some(&command) == asked.as_ref() || !seen.insert(named) {
            continue;
        }
        match environment(&command) {
            Ok(found) if found.has_sdk() => with_sdk.push(found),
            Ok(found) => first = first.or(Some(found)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    refuse_two(&with_sdk)?;
    let chosen = with_sdk.into_iter().next().or(first);
    let mut chosen = chosen.ok_or_else(|| first_error.unwrap_or_else(no_python))?;
    chosen.notes.splice(0..0, notes);
    Ok(chosen)
}

fn no_python() -> anyhow::Error {
    anyhow!("there is no python3 on PATH, nor in any of the usual places")
        .context(Hint::new("name the interpreter by --python, or the directory by --site-packages"))
}

fn environment(command: &Path) -> Result<Environment> {
    let interpreter = ask(command)?;
    let mut sites: Vec<PathBuf> = Vec::new();
    for dir in &interpreter.paths {
        if let Ok(physical) = physical_directory(dir) {
            push_new(&mut sites, physical);
        }
    }
    Environment::of(Some(interpreter), sites)
}

/// The interpreters that a shell in this image would use.
fn first_ones(around: &Surroundings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(env) = &around.virtual_env {
        found.extend(
            ["bin/python3", "bin/python"].map(|name| env.join(name)).into_iter().find(|p| runnable(p)),
        );
    }
    let path = around.path.clone().unwrap_or_default();
    let on_path = |name: &str| split_paths(&path).map(|dir| dir.join(name)).find(|python| runnable(python));
    if let Some(python) = on_path("python3").or_else(|| on_path("python")) {
        push_new(&mut found, python);
    }
    found
}

fn runnable(path: &Path) -> bool {
    path.is_absolute()
        && std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A name under which each interpreter is asked once. The last component stays as it is: a venv's `python3` is a link
/// to another interpreter.
fn named_physically(command: &Path) -> PathBuf {
    let parent = command.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, command.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => command.to_path_buf(),
    }
}

/// # Errors
/// If two of the environments have different SDKs.
fn refuse_two(found: &[Environment]) -> Result<()> {
    let sdk = |env: &Environment| env.trees.iter().map(|tree| tree.path.clone()).collect::<BTreeSet<_>>();
    let Some((first, others)) = found.split_first() else { return Ok(()) };
    let Some(other) = others.iter().find(|other| sdk(other) != sdk(first)) else { return Ok(()) };
    let name = |env: &Environment| {
        let command = env.interpreter.as_ref().map(|i| i.command.display().to_string()).unwrap_or_default();
        let place =
            env.trees.first().map(|tree| tree.site_packages.display().to_string()).unwrap_or_default();
        format!("`{command}` (in `{place}`)")
    };
    let hint = found.iter().filter_map(|env| env.interpreter.as_ref());
    let hint: Vec<String> = hint.map(|i| format!("--python {}", i.command.display())).collect();
    Err(anyhow!("two interpreters have an SDK of their own: {} and {}", name(first), name(other))
        .context(Hint::new(format!("say which one: {}", hint.join(" or ")))))
}

/// With a note about an SDK that lies in a well-known place, but isn't the one that was found. No interpreter is
/// started for it.
fn warned(mut env: Environment, around: &Surroundings, notes: Vec<String>) -> Environment {
    env.notes.splice(0..0, notes);
    for python in around.well_known.iter().filter(|python| runnable(python)) {
        let Some(prefix) = python.parent().and_then(Path::parent) else { continue };
        for tree in super::trees::below_prefix(prefix) {
            if env.trees.iter().all(|known| known.path != tree) {
                env.notes.push(format!(
                    "another SDK lies in `{}`; it is left alone (--python {} takes that one)",
                    tree.display(),
                    python.display()
                ));
                break;
            }
        }
    }
    env
}
