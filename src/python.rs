//! Runs the image's own interpreter with the probe inside, and hands back what it found.
//!
//! The interpreter is started isolated (`-I -B`), from `/`, with a time limit, and everything that it started ends
//! with it. Nothing is written into the image. See docs/how-python-is-embedded.md.

mod answer;
mod files;
mod process;
#[path = "../probe/src/wire.rs"]
pub mod wire;

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

pub use answer::{Answer, Refusal, Unfit};
pub use process::{End, Ended};
use wire::{ANSWER, Line, Markers, Question, Raw};

use crate::error::Hint;
use process::Start;

/// The probe, as build.rs made it. Empty in lint jobs.
static PROBE: &[u8] = include_bytes!(env!("ROCM_FIXUP_PROBE_BUILT"));
const BOOTSTRAP: &str = include_str!("python/bootstrap.py");
const PLAIN: &str = include_str!("python/directories.py");

/// An interpreter that needs longer to start is broken, even on a cold disk.
const START: Duration = Duration::from_secs(60);

/// An interpreter and what it said about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpreter {
    /// What was started, and is to be started again: not resolved, since a venv's `python` is a link that must be
    /// called by its own name.
    pub command: PathBuf,
    pub executable: PathBuf,
    pub prefix: PathBuf,
    pub version: String,
    /// `None` where the C library isn't glibc.
    pub glibc: Option<String>,
    pub machine: String,
    /// Existing directories in the order of `sys.path` as a plain start has it, without the standard library.
    pub paths: Vec<PathBuf>,
    /// Where the packages that were asked for would be imported from.
    pub packages: Vec<(String, PathBuf)>,
    pub markers: Markers,
    /// Why only directories could be had: such an interpreter can't run checks.
    pub limited: Option<Unfit>,
}

/// What one run of the interpreter gave.
#[derive(Debug)]
pub struct Reply {
    pub answer: Answer,
    pub ended: Ended,
}

/// Asks `command` where things lie, and where `packages` would be imported from.
///
/// # Errors
/// If it can't be started or gives no answer; with [`Refusal`] in the chain if it is no CPython or a free-threaded one.
pub fn directories(command: &Path, packages: &[&str]) -> Result<Interpreter> {
    let command = &from_anywhere(command);
    let packages: Vec<String> = packages.iter().map(ToString::to_string).collect();
    let question = Question::Directories { packages: packages.clone() };
    let reply = offer(command, &question, &[], START)?;
    let unfit = match &reply {
        Some(reply) => reply.answer.unfit.clone(),
        None => Some(Unfit::Unloadable("no place takes a temporary file".into())),
    };
    let found = match (&reply, &unfit) {
        (_, Some(Unfit::Old(_) | Unfit::Unloadable(_))) => plainly(command, &packages)?,
        (_, Some(other)) => return Err(other.clone().error(command)),
        (Some(reply), None) => {
            let lines = &reply.answer.lines;
            let found =
                lines.iter().find_map(|l| if let Line::Directories(d) = l { Some(d.clone()) } else { None });
            found.ok_or_else(|| no_answer(command, reply, START))?
        }
        (None, None) => bail!("no place for the probe, and no reason why"),
    };
    Ok(Interpreter {
        command: command.to_path_buf(),
        executable: found.executable.as_ref().map(path).unwrap_or_default(),
        prefix: found.prefix.as_ref().map(path).unwrap_or_default(),
        version: found.version,
        glibc: found.glibc,
        machine: found.machine,
        paths: found.paths.iter().map(path).collect(),
        packages: found.packages.iter().map(|(name, place)| (name.clone(), path(place))).collect(),
        markers: found.markers,
        limited: unfit,
    })
}

/// Starts `command` with the probe and lets it answer `question`. A crash, a hang or a missing answer is a value.
///
/// # Errors
/// If the interpreter can't be started, or no file for it can be made.
pub fn ask(
    command: &Path,
    question: &Question,
    env: &[(OsString, OsString)],
    limit: Duration,
) -> Result<Reply> {
    let reply = offer(command, question, env, limit)?;
    reply
        .context("no place for a temporary file that the interpreter could load")
        .context(Hint::new("set TMPDIR to a directory that is writable and not mounted noexec"))
}

/// Offers the module from one place after the other, until the interpreter can load it; `None` where there is no
/// place at all.
fn offer(
    command: &Path,
    question: &Question,
    env: &[(OsString, OsString)],
    limit: Duration,
) -> Result<Option<Reply>> {
    if PROBE.is_empty() {
        bail!("this build has no probe inside (ROCM_FIXUP_PROBE named an empty file)");
    }
    let question = serde_json::to_vec(question).context("can't write the question")?;
    let mut last = None;
    for place in files::loadable(PROBE, true) {
        let reply = ask_by(command, &question, &place, env, limit)?;
        if !matches!(reply.answer.unfit, Some(Unfit::Unloadable(_))) {
            return Ok(Some(reply));
        }
        last = Some(reply);
    }
    Ok(last)
}

fn ask_by(
    command: &Path,
    question: &[u8],
    place: &files::Loadable,
    env: &[(OsString, OsString)],
    limit: Duration,
) -> Result<Reply> {
    let mut answer = files::unnamed(b"")?;
    let mut descriptors = vec![process::high(files::unnamed(question)?)?, process::high(&answer)?];
    let numbers: Vec<OsString> = descriptors.iter().map(|file| file.as_raw_fd().to_string().into()).collect();
    let module = match place {
        files::Loadable::OnDisk(file) => file.path().as_os_str().to_owned(),
        files::Loadable::Memory(file) => {
            descriptors.push(process::high(file)?);
            format!("/proc/self/fd/{}", descriptors[2].as_raw_fd()).into()
        }
    };
    let mut args = isolated(BOOTSTRAP);
    args.push(module);
    args.extend(numbers);
    let sweep = !question.starts_with(b"{\"directories\"");
    let start = Start { program: command, args, files: descriptors, env: environment(env), limit, sweep };
    let ended = process::run(start)?;
    Ok(Reply { answer: answer::parse(&files::text(&mut answer, ANSWER)?), ended })
}

/// Directories by the plain script, for what can't load the module.
fn plainly(command: &Path, packages: &[String]) -> Result<wire::Directories> {
    let mut answer = files::unnamed(b"")?;
    let descriptor = process::high(&answer)?;
    let mut args = isolated(PLAIN);
    args.push(descriptor.as_raw_fd().to_string().into());
    args.extend(packages.iter().map(OsString::from));
    let files = vec![descriptor];
    let ended = process::run(Start {
        program: command,
        args,
        files,
        env: environment(&[]),
        limit: START,
        sweep: false,
    })?;
    let found = answer::parse_plain(&files::contents(&mut answer, ANSWER)?);
    found.ok_or_else(|| no_answer(command, &Reply { answer: Answer::default(), ended }, START))
}

/// Interpreters are started in `/`: a relative path would mean another file there. A bare name is for PATH.
fn from_anywhere(command: &Path) -> PathBuf {
    let bare = !command.as_os_str().as_bytes().contains(&b'/');
    let absolute = if bare { None } else { std::path::absolute(command).ok() };
    absolute.unwrap_or_else(|| command.to_path_buf())
}

fn isolated(script: &str) -> Vec<OsString> {
    ["-I", "-B", "-c", script].map(OsString::from).to_vec()
}

/// PYTHONPATH is the image's own way to add directories; relative ones would mean something else from `/`.
fn environment(given: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut env = vec![("PYTHONDONTWRITEBYTECODE".into(), "1".into())];
    let named = given.iter().find(|(name, _)| name == "PYTHONPATH").map(|(_, value)| value.clone());
    if let Some(value) = named.or_else(|| std::env::var_os("PYTHONPATH")) {
        let dirs = std::env::split_paths(&value).filter(|dir| !dir.as_os_str().is_empty());
        let dirs = dirs.filter_map(|dir| std::path::absolute(dir).ok());
        env.extend(std::env::join_paths(dirs).ok().map(|joined| ("PYTHONPATH".into(), joined)));
    }
    env.extend(given.iter().filter(|(name, _)| name != "PYTHONPATH").cloned());
    env
}

/// A path out of an answer.
#[must_use]
pub fn path(raw: &Raw) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(raw.bytes()))
}

/// A path for a question.
#[must_use]
pub fn raw(path: &Path) -> Raw {
    Raw::new(path.as_os_str().as_bytes())
}

/// Why there is no answer within `limit`, as well as can be told from outside.
#[must_use]
pub fn no_answer(command: &Path, reply: &Reply, limit: Duration) -> anyhow::Error {
    let how = match reply.ended.end {
        End::Exit(code) => format!("it ended with code {code}"),
        End::Signal(number) => format!("it was killed by {}", signal_name(number)),
        End::Timeout => format!("it was stopped after {} s", limit.as_secs_f64()),
    };
    let stderr = String::from_utf8_lossy(&reply.ended.stderr);
    let said =
        reply.answer.failure().or_else(|| stderr.lines().map(str::trim).rfind(|line| !line.is_empty()));
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let error = anyhow!("`{}` gave no answer: {how}{said}", command.display());
    error.context(Hint::new("name a working interpreter by --python, or the directory by --site-packages"))
}

/// `SIGSEGV` for 11.
#[must_use]
pub fn signal_name(number: i32) -> String {
    const NAMES: [&str; 32] = [
        "",
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    let name = usize::try_from(number).ok().and_then(|at| NAMES.get(at)).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("signal {number}"), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_serves_where_memory_cannot_be_named_and_is_gone_afterwards() {
        let question = serde_json::to_vec(&Question::Directories { packages: Vec::new() }).unwrap();
        let place = files::loadable(PROBE, false).next().unwrap();
        let files::Loadable::OnDisk(file) = &place else { panic!("in memory") };
        let path = file.path().to_path_buf();
        assert!(path.exists());
        let reply = ask_by(Path::new("python3"), &question, &place, &[], START).unwrap();
        assert!(reply.answer.complete(), "{reply:?}");
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(6), "SIGABRT");
        assert_eq!(signal_name(64), "signal 64");
    }
}
