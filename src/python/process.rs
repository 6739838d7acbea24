//! Starts one process and stays its master: a time limit, bounded output, and an end for everything that it started.
//! The only file that spawns. Never goes through a shell, never waits without a limit.

#![expect(clippy::disallowed_methods, reason = "the one module that spawns")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group,
    pidfd_open, pidfd_send_signal, set_parent_process_death_signal, setrlimit, waitid,
};

/// So much of each output is kept, counted from its end.
pub const KEPT: usize = 128 * 1024;

/// Everything that a process started by a check inherits this variable, by which stragglers are found.
const MARK: &str = "ROCM_FIXUP_CHECK";

/// What to start, and what it gets.
pub struct Start<'a> {
    pub program: &'a Path,
    pub args: Vec<OsString>,
    /// Descriptors that the process gets under the very numbers that they have here; see [`high`].
    pub files: Vec<OwnedFd>,
    pub env: Vec<(OsString, OsString)>,
    pub limit: Duration,
    /// Search the whole system for descendants that left the process group, and end them too.
    pub sweep: bool,
}

/// A duplicate with a number that shells and interpreters leave alone, closed on exec except where it is handed over.
/// Where no number is as high (`ulimit -n`), one from the upper half.
///
/// # Errors
/// If there are too many open files.
pub fn high(file: impl AsFd) -> Result<OwnedFd> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let lowest = (most / 2).min(90) as RawFd;
    rustix::io::fcntl_dupfd_cloexec(file, lowest).context("can't duplicate a file descriptor")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
    Timeout,
}

/// How it ended, and the last of what it said.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub seconds: f64,
}

/// Runs the process to its end, or to the limit. When this returns, its process group is gone.
///
/// # Errors
/// If it can't be started; the path is in the message.
pub fn run(start: Start<'_>) -> Result<Ended> {
    let began = Instant::now();
    let mark = mark();
    let (mut out, mut err, mut child) =
        spawn(&start, &mark).with_context(|| format!("can't start `{}`", start.program.display()))?;
    drop(start.files);
    let id = child.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("a process has a positive number")?;
    // A limit beyond what the clock can name is none.
    let until =
        began.checked_add(start.limit).unwrap_or_else(|| began + Duration::from_secs(u32::MAX.into()));
    let timed_out = !wait(pid, &mut [&mut out, &mut err], until)?;
    // The leader is not reaped yet, so the group's number can't have been given to somebody else.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait().with_context(|| format!("can't wait for `{}`", start.program.display()))?;
    if start.sweep {
        end_stragglers(&mark);
    }
    out.drain();
    err.drain();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let end = match (timed_out, signal) {
        (true, _) => End::Timeout,
        (false, Some(number)) => End::Signal(number),
        (false, None) => End::Exit(status.code().unwrap_or(-1)),
    };
    Ok(Ended {
        end,
        stdout: out.kept.into(),
        stderr: err.kept.into(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn spawn(start: &Start<'_>, mark: &str) -> io::Result<(Tail, Tail, std::process::Child)> {
    let (nothing, _) = io::pipe()?;
    let (out, out_end) = io::pipe()?;
    let (err, err_end) = io::pipe()?;
    let mut command = Command::new(start.program);
    command.args(&start.args).current_dir("/").process_group(0);
    command.stdin(nothing).stdout(Stdio::from(out_end)).stderr(Stdio::from(err_end));
    command.envs(start.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
    let files: Vec<RawFd> = start.files.iter().map(|file| file.as_raw_fd()).collect();
    let cores = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A crash is what some checks are about: it need not fill the disk.
        setrlimit(Resource::Core, cores)?;
        for &file in &files {
            // SAFETY: the parent holds `files` open until after the spawn.
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(file) }, FdFlags::empty())?;
        }
        Ok(())
    };
    // Where our parent ignored the signal, the kernel would throw away how the child ended.
    // SAFETY: a plain call; nothing here handles that signal.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: between fork and exec only system calls are made, and nothing allocates.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn()?;
    Ok((Tail::new(out)?, Tail::new(err)?, child))
}

/// Reads both outputs until the process has ended (but isn't reaped); `false` if `until` came first.
fn wait(pid: Pid, outputs: &mut [&mut Tail; 2], until: Instant) -> Result<bool> {
    // Before Linux 5.3 there is no pidfd; then the end is looked for every few milliseconds.
    let end = pidfd_open(pid, PidfdFlags::empty()).ok();
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(pid), options).context("can't wait for a child")?.is_some() {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let nap = if end.is_some() { left } else { left.min(Duration::from_millis(3)) };
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
        let mut polls: Vec<PollFd<'_>> = Vec::with_capacity(3);
        polls.extend(outputs.iter().filter(|o| o.open).map(|o| PollFd::new(&o.pipe, PollFlags::IN)));
        polls.extend(end.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        match poll(&mut polls, Some(&nap)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("can't wait for a child"),
        }
        for output in outputs.iter_mut() {
            output.read(64 * 1024);
        }
    }
}

/// The last bytes of an output.
struct Tail {
    pipe: PipeReader,
    kept: VecDeque<u8>,
    open: bool,
}

impl Tail {
    fn new(pipe: PipeReader) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self { pipe, kept: VecDeque::new(), open: true })
    }

    /// Takes what is there, at most about `most` bytes.
    fn read(&mut self, most: usize) {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while self.open && taken < most {
            match self.pipe.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    taken += n;
                    self.kept.extend(&buffer[..n]);
                    let excess = self.kept.len().saturating_sub(KEPT);
                    self.kept.drain(..excess);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.open = false,
            }
        }
    }

    /// What the pipe still holds after the end; bounded, should somebody else still write.
    fn drain(&mut self) {
        self.read(4 * 1024 * 1024);
    }
}

fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed), now.as_nanos())
}

/// Ends what left the process group but still carries the mark. Several rounds, since they may fork meanwhile.
fn end_stragglers(mark: &str) {
    let needle = format!("{MARK}={mark}");
    for _ in 0..8 {
        let Ok(entries) = std::fs::read_dir("/proc") else { return };
        let mut dying = Vec::new();
        for entry in entries.flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let Some(pid) = pid else { continue };
            // The handle is taken before the look, so that it is the looked-at process that gets the signal.
            let handle = pidfd_open(pid, PidfdFlags::empty());
            if has_mark(&entry.path().join("environ"), needle.as_bytes()) {
                let _ = match &handle {
                    Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
                    Err(_) => rustix::process::kill_process(pid, Signal::KILL),
                };
                dying.push(handle);
            }
        }
        if dying.is_empty() {
            return;
        }
        // A process in the kernel may take a while to go.
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        for handle in dying.iter().flatten() {
            let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&second));
        }
    }
}

fn has_mark(environ: &Path, needle: &[u8]) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(environ).and_then(|file| file.take(2 * 1024 * 1024).read_to_end(&mut bytes));
    read.is_ok() && bytes.split(|&b| b == 0).any(|variable| variable == needle)
}
