//! Opens libraries in forked children of this interpreter, so that one start serves hundreds of checks. A child never
//! returns into Python: it opens, reports and ends.

use std::ffi::{CStr, CString, c_int};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::time::{Duration, Instant};

use crate::area::Area;
use crate::wire::{Line, Opened, Raw, clashes};
use crate::{linkmap, say};

/// Room for a child's report.
const REPORT: usize = 256 * 1024;

/// How much of a crashed child's stderr is kept.
const STDERR: u64 = 8 * 1024;

/// Longer limits are none; the sum with the clock's time must not overflow.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

struct Child {
    job: usize,
    pid: libc::pid_t,
    report: Area,
    /// Its other end closes when the child has ended.
    end: File,
    stderr: Option<File>,
    until: Instant,
}

/// Runs all jobs, at most `parallel` at a time and each for at most `seconds`; writes one line for each.
pub fn open(jobs: &[Vec<Raw>], parallel: usize, seconds: f64) {
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(FOREVER).min(FOREVER);
    let mut waiting = jobs.iter().enumerate();
    let mut running: Vec<Child> = Vec::new();
    loop {
        while running.len() < parallel.max(1) {
            let Some((job, paths)) = waiting.next() else { break };
            match start(job, paths, limit) {
                Ok(child) => running.push(child),
                Err(text) => {
                    let path = paths.first().cloned().unwrap_or(Raw::Text(String::new()));
                    say(&Line::Opened { job, outcome: Opened::Error { path, text } });
                }
            }
        }
        if running.is_empty() {
            return;
        }
        wait_for_one(&running);
        running.retain_mut(|child| match ended(child) {
            Some(outcome) => {
                say(&Line::Opened { job: child.job, outcome });
                false
            }
            None => true,
        });
    }
}

/// # Errors
/// The system's words, where no child could be made.
fn start(job: usize, paths: &[Raw], limit: Duration) -> Result<Child, String> {
    let error = || std::io::Error::last_os_error().to_string();
    let report = Area::anonymous(REPORT).map_err(|e| e.to_string())?;
    let mut pipe: [c_int; 2] = [-1; 2];
    // SAFETY: `pipe` has room for two descriptors; each is owned by exactly one File from here on.
    let (end, held) = unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(error());
        }
        (File::from_raw_fd(pipe[0]), File::from_raw_fd(pipe[1]))
    };
    let stderr = memory();
    // SAFETY: this process has one thread here, so the child is a whole copy of it.
    match unsafe { libc::fork() } {
        -1 => Err(error()),
        0 => {
            drop(end);
            child(paths, &report, held, stderr.as_ref())
        }
        pid => Ok(Child { job, pid, report, end, stderr, until: Instant::now() + limit }),
    }
}

fn memory() -> Option<File> {
    // SAFETY: the name is a C string; a descriptor that comes back is new and owned by the File.
    unsafe {
        let fd = libc::syscall(libc::SYS_memfd_create, c"stderr".as_ptr(), 1u32) as c_int;
        (fd >= 0).then(|| File::from_raw_fd(fd))
    }
}

/// Keeps `held` open until its end.
fn child(paths: &[Raw], report: &Area, held: File, stderr: Option<&File>) -> ! {
    report.belongs_to_this_process();
    // SAFETY: plain calls on descriptors that are open.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if let Some(stderr) = stderr {
            libc::dup2(stderr.as_raw_fd(), 1);
            libc::dup2(stderr.as_raw_fd(), 2);
        }
    }
    let outcome = open_all(paths);
    let _ = serde_json::to_vec(&outcome).map(|text| report.write(&text));
    std::mem::forget(held);
    // SAFETY: ends the child without the interpreter's shutdown, which belongs to the parent.
    unsafe { libc::_exit(0) }
}

fn open_all(paths: &[Raw]) -> Opened {
    for path in paths {
        let text = match CString::new(path.bytes()) {
            Err(_) => Some("a path with a NUL byte".to_owned()),
            // SAFETY: the path is a C string; what a constructor does can hurt this child only.
            Ok(name) => unsafe {
                libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL).is_null().then(loader_error)
            },
        };
        if let Some(text) = text {
            return Opened::Error { path: path.clone(), text };
        }
    }
    match clashes(&linkmap::objects()) {
        clashes if clashes.is_empty() => Opened::Ok,
        clashes => Opened::TwoCopies { clashes },
    }
}

fn loader_error() -> String {
    // SAFETY: dlerror gives null or a C string that stays valid until the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the loader gave no reason".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// Sleeps until a child has ended, or a short while: a grandchild may hold its end open.
fn wait_for_one(running: &[Child]) {
    let mut polls: Vec<libc::pollfd> = running
        .iter()
        .map(|child| libc::pollfd { fd: child.end.as_raw_fd(), events: 0, revents: 0 })
        .collect();
    // SAFETY: the pointer and the count describe the vector.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 20) };
}

fn ended(child: &mut Child) -> Option<Opened> {
    let mut status = 0;
    // SAFETY: waits for our own child, which nobody else waits for.
    let mut done = unsafe { libc::waitpid(child.pid, &raw mut status, libc::WNOHANG) };
    let late = done == 0 && Instant::now() >= child.until;
    if late {
        // SAFETY: as above; the child is still ours, so its number can't have been given away.
        done = unsafe {
            libc::kill(child.pid, libc::SIGKILL);
            libc::waitpid(child.pid, &raw mut status, 0)
        };
    }
    if done == 0 {
        return None;
    }
    if late {
        return Some(Opened::Timeout);
    }
    if libc::WIFSIGNALED(status) {
        return Some(Opened::Signal { number: libc::WTERMSIG(status), stderr: tail(child.stderr.as_mut()) });
    }
    Some(serde_json::from_slice(&child.report.text()).unwrap_or_else(|_| Opened::Exit {
        code: libc::WEXITSTATUS(status),
        stderr: tail(child.stderr.as_mut()),
    }))
}

fn tail(stderr: Option<&mut File>) -> String {
    let mut bytes = Vec::new();
    if let Some(file) = stderr
        && let Ok(size) = file.seek(SeekFrom::End(0))
    {
        let _ = file.seek(SeekFrom::Start(size.saturating_sub(STDERR)));
        let _ = file.take(STDERR).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
