//! What can go wrong at a call, as an option of strace, and how it is written in a replay line.

use crate::calls::Call;

/// The faults of the sweep.
pub const ALL: [&str; 8] = ["KILL", "EIO", "ENOSPC", "EINTR", "EPERM", "EXDEV", "EMFILE", "EROFS"];

/// One fault at one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: String,
    pub nth: usize,
    pub what: String,
    /// From this call on, every one of the same name.
    pub forever: bool,
}

impl Fault {
    pub fn new(call: &Call, what: &str, forever: bool) -> Self {
        Self { call: call.name.clone(), nth: call.nth, what: what.to_owned(), forever }
    }

    /// Every fault at `call`, once and from then on; a kill is both.
    pub fn all(call: &Call) -> Vec<Self> {
        let both = |what: &&str| [false, true].map(|forever| Self::new(call, what, forever));
        ALL.iter().flat_map(both).filter(|fault| !(fault.forever && fault.what == "KILL")).collect()
    }

    /// A signal came while a file was read or written: no reason to fail (signal(7)).
    pub fn is_to_be_tried_again(&self) -> bool {
        self.what == "EINTR" && ["read", "pread64", "write"].contains(&self.call.as_str())
    }

    /// The options for strace.
    pub fn options(&self) -> Vec<String> {
        Self::together(&[self])
    }

    /// The options for several faults at once, at calls of different names.
    pub fn together(faults: &[&Self]) -> Vec<String> {
        let names: Vec<&str> = faults.iter().map(|fault| fault.call.as_str()).collect();
        let mut options = vec!["-e".to_owned(), format!("trace={}", names.join(","))];
        // Faster; but strace 6.1 delivers no injected signal then.
        if faults.iter().all(|fault| fault.what != "KILL") {
            options.push("--seccomp-bpf".to_owned());
        }
        for fault in faults {
            options.extend(["-e".to_owned(), fault.injection()]);
        }
        options
    }

    /// A signal that interrupts for ever would be a hang of any program: thrice must do.
    fn injection(&self) -> String {
        let when = match (self.forever, self.what.as_str()) {
            (true, "EINTR") => format!("{}..{}", self.nth, self.nth + 2),
            (true, _) => format!("{}+", self.nth),
            (false, _) => self.nth.to_string(),
        };
        let what = match self.what.as_str() {
            "KILL" => "signal=SIGKILL".to_owned(),
            "SKIP" => "retval=0".to_owned(),
            error => format!("error={error}"),
        };
        format!("inject={}:{what}:when={when}", self.call)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (call, nth, what) = (parts.next()?, parts.next()?, parts.next()?);
        let forever = nth.ends_with('+');
        let nth = nth.trim_end_matches('+').parse().ok()?;
        Some(Self { call: call.to_owned(), nth, what: what.to_owned(), forever })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}{}:{}", self.call, self.nth, if self.forever { "+" } else { "" }, self.what)
    }
}
