//! Runs the product, alone or under strace with one fault, and tells what it said.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What `renameat2` answers with flags that a file system does not know. No fault of the sweep is called so.
pub const PLAIN: &str = "EINVAL";

/// The product.
pub fn binary() -> PathBuf {
    std::env::var_os("ROCM_FIXUP_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_rocm-fixup")), PathBuf::from)
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub killed: bool,
    pub report: Option<serde_json::Value>,
    pub stderr: String,
    /// What strace wrote.
    pub log: String,
}

impl Ran {
    /// In one line, for a failing point.
    pub fn told(&self) -> String {
        let end = self.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
        let said = self.stderr.replace('\n', " | ");
        let refused = |r: &serde_json::Value| format!("{} {}", r["dedup"]["conflicts"], r["undo"]["refused"]);
        let conflicts = self.report.as_ref().map_or_else(String::new, refused);
        format!("{end}: {said} {}", if self.code == Some(3) { conflicts } else { String::new() })
    }

    pub fn injected(&self) -> bool {
        let fault = |line: &str| line.contains("(INJECTED)") && !line.contains(PLAIN);
        self.killed || self.log.lines().any(fault)
    }
}

/// `rocm-fixup ARGS --site-packages SITE --format json`.
pub fn command(site: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    finish(&mut command, site, args);
    command
}

/// The same under strace, with these options of strace.
pub fn traced(site: &Path, args: &[&str], strace: &[String], log: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log).args(strace).arg("--").arg(binary());
    finish(&mut command, site, args);
    command
}

/// Arguments and surroundings.
pub fn finish(command: &mut Command, site: &Path, args: &[&str]) {
    let top = site.ancestors().nth(4).unwrap();
    let outside = top.join("outside").display().to_string();
    command.args(args.iter().map(|arg| arg.replacen("@outside", &outside, 1)));
    command.arg("--site-packages").arg(site);
    command.args(["--format", "json"]);
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// Runs to the end, or kills what hangs.
pub fn run(mut command: Command, log: Option<&Path>) -> Ran {
    let child = command.spawn().unwrap_or_else(|error| panic!("can't start {command:?}: {error}"));
    finished(child, log)
}

/// strace's death leaves its tracee alive, and stopped it would be forever.
fn kill_children(parent: u32) {
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    for pid in
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

pub fn finished(mut child: Child, log: Option<&Path>) -> Ran {
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    let reader2 = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = err.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(30) {
            kill_children(child.id());
            let _ = child.kill();
        }
        let wait = if start.elapsed() > Duration::from_millis(50) { 2000 } else { 200 };
        std::thread::sleep(Duration::from_micros(wait));
    };
    let hung = start.elapsed() > Duration::from_secs(30);
    let stdout = reader.join().unwrap();
    let mut stderr = reader2.join().unwrap();
    if hung {
        stderr.push_str("HUNG");
    }
    Ran {
        code: status.code(),
        // A hang is not the kill that was asked for.
        killed: status.signal().is_some() && !hung,
        report: serde_json::from_str(&stdout).ok(),
        stderr,
        log: log.map_or_else(String::new, |log| std::fs::read_to_string(log).unwrap_or_default()),
    }
}
