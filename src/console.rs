//! stdout and stderr: the one module that prints. Bars on a terminal; elsewhere one plain line at start and end of what
//! takes long. Text that comes from the image is made harmless here.
#![expect(clippy::disallowed_macros, reason = "this is the module that prints")]

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstream::println;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{Color, Global};
use crate::error::{Hint, message};

/// What takes longer than this gets a line at its start and its end where no bar can be drawn.
const LONG: Duration = Duration::from_secs(2);

/// A line to stderr. That nobody can read it must not stop the job, let alone by a panic between two changes.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(anstream::stderr(), $($text)*);
    }};
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
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let bars = std::io::stderr().is_terminal() && !global.no_progress && !global.quiet && !dumb;
        Self { quiet: global.quiet, verbose: global.verbose, bars: bars && global.verbose == 0 }
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

    /// Something worth knowing, to stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say!("{text}");
        }
    }

    /// Detail that `-v` asks for.
    pub fn detail(&self, text: &str) {
        if self.verbose > 0 && !self.quiet {
            say!("{text}");
        }
    }

    /// What the reader can act on; `name` is stable.
    pub fn warn(&self, name: &str, text: &str) {
        if !self.quiet {
            say!("{}warning[{name}]{}: {text}", YELLOW, RESET);
        }
    }

    /// Why the job ended, and what to type next.
    pub fn error(error: &anyhow::Error) {
        say!("{}error{}: {}", RED, RESET, harmless(&message(error)));
        if let Some(hint) = error.downcast_ref::<Hint>() {
            say!("hint: {}", harmless(&hint.0));
        }
    }

    /// The same from a report.
    #[expect(clippy::unused_self, reason = "errors are said even with -q")]
    pub fn trouble(&self, message: &str, hint: Option<&str>) {
        say!("{RED}error{RESET}: {}", harmless(message));
        if let Some(hint) = hint {
            say!("hint: {}", harmless(hint));
        }
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

pub const RED: anstream_style::Style = anstream_style::RED;
pub const YELLOW: anstream_style::Style = anstream_style::YELLOW;
pub const GREEN: anstream_style::Style = anstream_style::GREEN;
pub const BOLD: anstream_style::Style = anstream_style::BOLD;
pub const RESET: anstream_style::Style = anstream_style::RESET;

/// The few colours, as escape sequences that `anstream` strips where they don't belong.
mod anstream_style {
    pub type Style = &'static str;
    pub const RED: Style = "\x1b[1;31m";
    pub const YELLOW: Style = "\x1b[33m";
    pub const GREEN: Style = "\x1b[32m";
    pub const BOLD: Style = "\x1b[1m";
    pub const RESET: Style = "\x1b[0m";
}

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
            say!("{} …", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        } else if self.said.load(Ordering::Relaxed) {
            say!("{}: {:.1} s", self.what, self.started.elapsed().as_secs_f64());
        }
    }
}

/// Text from the image, fit for a terminal and for a CI runner's log: control characters escaped, and the forms broken
/// in which a runner takes orders (`##[…]` anywhere, `::` at the start of a line).
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let trimmed = line.trim_start();
        let line = if let Some(rest) = trimmed.strip_prefix("::") {
            format!("{}: :{rest}", &line[..line.len() - trimmed.len()])
        } else {
            line.to_owned()
        };
        for c in line.replace("##[", "## [").chars() {
            match c {
                '\t' => out.push(' '),
                c if c.is_control() || is_bidi(c) => out.extend(c.escape_default()),
                c => out.push(c),
            }
        }
    }
    out
}

/// Characters that reorder or hide text.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text without colours, for files.
#[must_use]
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A path for people.
#[must_use]
pub fn path(path: &std::path::Path) -> String {
    harmless(&path.to_string_lossy()).replace('\n', "\\n")
}

/// Prints a line where logging isn't set up.
pub fn line(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_gives_no_orders() {
        assert_eq!(harmless("  ::error::x"), "  : :error::x");
        assert_eq!(harmless("a\n::set-output name=x::y"), "a\n: :set-output name=x::y");
        assert_eq!(harmless("#12 0.3 ##[error]x"), "#12 0.3 ## [error]x");
        assert_eq!(harmless("a\x1b[31mb\rc\td"), "a\\u{1b}[31mb\\rc d");
        assert_eq!(harmless("\u{202e}x"), "\\u{202e}x");
    }
}
