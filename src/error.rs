//! What people see when something goes wrong, and with which code the process ends. No I/O.
//!
//! Errors are `anyhow` chains: what was being done and the path in backticks at each level that knows them, the
//! cause last. A [`Hint`] in the chain says what to type next; an [`Exit`] says which code of cli.md applies.

use std::fmt;

/// Exit codes, the contract of cli.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// The job failed: I/O, no interpreter, no permission.
    Failed = 1,
    /// Usage, and recipes that can't be read.
    Usage = 2,
    /// Something on disk is not what was expected; it was left untouched and named.
    Refused = 3,
    /// A requirement or an import check failed; `status`: something is pending.
    Unsound = 4,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}", *self as u8)
    }
}

/// What to type next. Attach it with `.context(Hint::new("…"))`; it is printed after the chain.
#[derive(Debug)]
pub struct Hint(pub String);

impl Hint {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error's message, outermost first, joined by `: `; hints and exit codes left out, and nothing said twice: some errors
/// have the text of their cause in their own, and walkdir's the path that is named already.
#[must_use]
pub fn message(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Hint>().map(ToString::to_string);
    let exit = error.downcast_ref::<Exit>().map(ToString::to_string);
    let parts: Vec<String> = error
        .chain()
        .map(ToString::to_string)
        .filter(|part| Some(part) != hint.as_ref() && Some(part) != exit.as_ref())
        .collect();
    let mut said: Vec<&str> = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let cause = parts.get(n + 1).filter(|cause| !cause.is_empty());
        let part = cause.map_or(part.as_str(), |cause| without_end(part, cause));
        let path = part.strip_prefix("IO error for operation on ");
        let known = path.is_some_and(|path| said.iter().any(|s| s.contains(&format!("`{path}`"))));
        if !part.is_empty() && !known {
            said.push(part);
        }
    }
    said.join(": ")
}

/// A part without the cause that it ends with; nothing is left of one that is the cause.
fn without_end<'p>(part: &'p str, cause: &str) -> &'p str {
    match part.strip_suffix(cause) {
        Some("") => "",
        Some(rest) => rest.strip_suffix(": ").unwrap_or(part),
        None => part,
    }
}

/// Adds what to do about the common causes.
#[must_use]
pub fn hinted(error: anyhow::Error) -> anyhow::Error {
    use std::io::{self, ErrorKind as Kind};
    if error.downcast_ref::<Hint>().is_some() {
        return error;
    }
    let kind = error.chain().find_map(|e| e.downcast_ref::<io::Error>()).map(io::Error::kind);
    let hint = match kind {
        // What root may not, an attribute forbids (chattr(1)), a missing capability, or a security module.
        Some(Kind::PermissionDenied) if rustix::process::geteuid().is_root() => {
            "root is kept from it: see `lsattr`, the container's capabilities, and the security module's log"
        }
        Some(Kind::PermissionDenied) => "run it as the owner of these files, or as root",
        Some(Kind::ReadOnlyFilesystem) => {
            "the file system is mounted read-only; run it where the image is built"
        }
        Some(Kind::StorageFull | Kind::QuotaExceeded) => "make room and run it again; nothing was lost",
        Some(Kind::ResourceBusy) => "something is mounted on that path; unmount it and run it again",
        _ => return error,
    };
    error.context(Hint::new(hint))
}

/// The code that an error ends the process with: that of an [`Exit`] in its chain, else 1.
#[must_use]
pub fn exit_of(error: &anyhow::Error) -> Exit {
    error.downcast_ref::<Exit>().copied().unwrap_or(Exit::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    #[test]
    fn a_hint_and_an_exit_code_travel_with_the_error_but_not_in_its_text() {
        let error = anyhow!("permission denied");
        let error = Err::<(), _>(error).context(Hint::new("run as root")).context(Exit::Refused);
        let error = error.context("can't open `x`").unwrap_err();
        assert_eq!(message(&error), "can't open `x`: permission denied");
        assert_eq!(error.downcast_ref::<Hint>().unwrap().0, "run as root");
        assert_eq!(exit_of(&error), Exit::Refused);
    }

    #[test]
    fn nothing_is_said_twice() {
        let of = |parts: &[&str]| {
            let error = parts.iter().rev().map(|part| (*part).to_owned());
            message(
                &error
                    .fold(None, |error: Option<anyhow::Error>, part| {
                        Some(error.map_or_else(|| anyhow!(part.clone()), |error| error.context(part.clone())))
                    })
                    .unwrap(),
            )
        };
        let denied = "Permission denied (os error 13)";
        let walk = format!("IO error for operation on /x/y: {denied}");
        assert_eq!(of(&["can't walk `/x/y`", &walk, denied]), format!("can't walk `/x/y`: {denied}"));
        assert_eq!(of(&["can't walk `/x`", &walk, denied]), format!("can't walk `/x`: {walk}"));
        assert_eq!(of(&["can't walk `/x/y`", &walk]), format!("can't walk `/x/y`: {walk}"));
        assert_eq!(
            of(&["can't do", "can't read: cut", "can't read: cut", "cut"]),
            "can't do: can't read: cut"
        );
        assert_eq!(of(&["a", "b", "a"]), "a: b: a");
        // An end that only looks like the cause.
        assert_eq!(of(&["bad file", "file"]), "bad file: file");
        assert_eq!(of(&["a", ""]), "a");
    }

    #[test]
    fn a_walk_that_may_not_go_on_says_the_path_and_the_cause_once() {
        let walked = walkdir::WalkDir::new("/no/such").into_iter().find_map(Result::err).unwrap();
        let as_io = Err::<(), _>(std::io::Error::from(walked)).context("can't walk `/no/such`").unwrap_err();
        assert_eq!(message(&as_io), "can't walk `/no/such`: No such file or directory (os error 2)");
        let walked = walkdir::WalkDir::new("/no/such").into_iter().find_map(Result::err).unwrap();
        let as_it_is = Err::<(), _>(walked).context("can't walk `/no/such`").unwrap_err();
        assert_eq!(message(&as_it_is), message(&as_io));
    }
}
