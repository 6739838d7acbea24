//! stdout and stderr: the one module that prints. Bars on a terminal; elsewhere one plain line at start and end of what
//! takes long. With `--log-format json`, each line of stderr is an object: `level`, `message`, and `name` or `hint`.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::{Color, Global, LogFormat};
use crate::error::{Hint, message};

mod text;

pub use text::{harmless, harmless_json, path, plain};

/// What takes longer than this gets a line at its start and its end where no bar can be drawn.
const LONG: Duration = Duration::from_secs(2);

/// A line to stderr. That nobody can read it must not stop the job, let alone by a panic between two changes.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(anstream::stderr(), $($text)*);
    }};
}

/// The log's form. One for the process, since errors are said where no [`Console`] is at hand.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// One line of the log.
#[derive(Clone, Copy, Default, Serialize)]
struct Line<'a> {
    level: &'static str,
    message: &'a str,
    /// The stable name of a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// What to type next, of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Line<'_> {
    fn print(&self) {
        if AS_JSON.load(Ordering::Relaxed) {
            if let Ok(json) = serde_json::to_string(self) {
                say!("{}", harmless_json(&json));
            }
            return;
        }
        let message = harmless(self.message);
        match (self.level, self.name) {
            ("error", _) => say!("{RED}error{RESET}: {message}"),
            ("warning", Some(name)) => say!("{YELLOW}warning[{name}]{RESET}: {message}"),
            _ => say!("{message}"),
        }
        if let Some(hint) = self.hint {
            say!("hint: {}", harmless(hint));
        }
    }
}

/// How much is said, and where.
#[derive(Debug)]
pub struct Console {
    quiet: bool,
    pub verbose: u8,
    bars: bool,
}

impl Console {
    #[must_use]
    pub fn new(global: &Global) -> Self {
        match global.color {
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
            Color::Auto => {}
        }
        let json = global.log_format == LogFormat::Json;
        AS_JSON.store(json, Ordering::Relaxed);
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wanted = !global.no_progress && !global.quiet && global.verbose == 0 && !json && !dumb;
        Self { quiet: global.quiet, verbose: global.verbose, bars: wanted && std::io::stderr().is_terminal() }
    }

    /// The result, to stdout, whole. A closed pipe ends the output, not the job.
    ///
    /// # Errors
    /// When stdout can't be written (a full disk, say): the caller's exit code must tell.
    pub fn result(text: &str) -> std::io::Result<()> {
        let mut out = anstream::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// The columns of the terminal that stdout is. None for pipes and files, where lines are as long as they are.
    #[must_use]
    pub fn width() -> Option<usize> {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    /// Something worth knowing, to stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            Line { level: "info", message: text, ..Line::default() }.print();
        }
    }

    /// Detail that `-v` asks for.
    pub fn detail(&self, text: &str) {
        if self.verbose > 0 && !self.quiet {
            Line { level: "debug", message: text, ..Line::default() }.print();
        }
    }

    /// What the reader can act on; `name` is stable.
    pub fn warn(&self, name: &str, text: &str) {
        if !self.quiet {
            Line { level: "warning", message: text, name: Some(name), hint: None }.print();
        }
    }

    /// Why the job ended, and what to type next.
    pub fn error(error: &anyhow::Error) {
        let hint = error.downcast_ref::<Hint>().map(|hint| hint.0.as_str());
        Line { level: "error", message: &message(error), name: None, hint }.print();
    }

    /// The same from a report.
    pub fn trouble(&self, message: &str, hint: Option<&str>) {
        Line { level: "error", message, name: None, hint }.print();
    }

    /// Progress over `total` bytes or things; dropped when done.
    #[must_use]
    pub fn progress(&self, what: &str, total: u64, bytes: bool) -> Progress {
        let bar = self.bars.then(|| {
            let template = if bytes {
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}"
            } else {
                "{msg} {wide_bar} {pos}/{len}"
            };
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.with_message(what.to_owned())
        });
        Progress {
            bar,
            what: what.to_owned(),
            lines: !self.quiet && !self.bars,
            started: Instant::now(),
            said: AtomicBool::new(false),
        }
    }
}

pub const RED: &str = "\x1b[1;31m";
pub const YELLOW: &str = "\x1b[33m";
pub const GREEN: &str = "\x1b[32m";
pub const BOLD: &str = "\x1b[1m";
pub const RESET: &str = "\x1b[0m";

/// Progress of one long job.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    lines: bool,
    started: Instant,
    said: AtomicBool,
}

impl Progress {
    /// There is more to do than was known.
    pub fn grow(&self, n: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(n);
        }
    }

    pub fn add(&self, n: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(n);
        } else if self.lines && self.started.elapsed() > LONG && !self.said.swap(true, Ordering::Relaxed) {
            let message = &format!("{} …", self.what);
            Line { level: "info", message, ..Line::default() }.print();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        } else if self.said.load(Ordering::Relaxed) {
            let message = &format!("{}: {:.1} s", self.what, self.started.elapsed().as_secs_f64());
            Line { level: "info", message, ..Line::default() }.print();
        }
    }
}
