//! The probe: a module that runs inside the image's own interpreter and answers one question.
//!
//! It reads the question from one file descriptor and writes lines of JSON to another. It changes nothing on disk,
//! and a panic becomes a Python exception. `wire.rs` is the contract with the binary.

mod crash;
mod directories;
mod floor;
mod imports;
mod libraries;
mod linkmap;
mod wire;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd as _, RawFd};

use pyo3::prelude::*;
use wire::{Line, Question};

/// Where the lines of the answer go.
pub struct Answer {
    /// Not owned: it stays open until the process has ended, for the crash handler.
    file: ManuallyDrop<File>,
}

impl Answer {
    fn new(fd: RawFd) -> Self {
        // SAFETY: the binary hands this descriptor to this process alone; it is never closed (ManuallyDrop).
        Self { file: ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }) }
    }

    /// Writes one line. A failure can't be told to anybody: the binary will miss the line and say so.
    fn write(&mut self, line: &Line) {
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            let _ = self.file.write_all(&text);
        }
    }
}

/// Programs that the image's code starts shall not inherit these.
fn keep_from_programs(fds: [RawFd; 2]) {
    for fd in fds {
        // SAFETY: sets a flag on a descriptor that was handed to this process.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

#[pymodule]
#[pyo3(name = "rocm_fixup_probe")]
mod probe {
    use super::*;

    /// Answers the question at descriptor `ask` into descriptor `answer`.
    #[pyfunction]
    fn run(py: Python<'_>, ask: RawFd, answer: RawFd) {
        keep_from_programs([ask, answer]);
        let mut out = Answer::new(answer);
        let done = question(ask).and_then(|question| match question {
            Question::Directories { packages } => {
                let found = directories::directories(py, &packages).map_err(|e| e.to_string())?;
                out.write(&Line::Directories(found));
                Ok(())
            }
            Question::Import { modules } => {
                crash::watch(answer);
                let done = imports::imports(py, &modules, &mut out).map_err(|e| e.to_string());
                crash::calm();
                done
            }
            Question::OpenLibraries { jobs, parallel, seconds } => {
                libraries::open(&jobs, parallel, seconds, &mut out);
                Ok(())
            }
        });
        out.write(&match done {
            Ok(()) => Line::End,
            Err(text) => Line::Failed { text },
        });
    }

    fn question(fd: RawFd) -> Result<Question, String> {
        let mut bytes = Vec::new();
        // SAFETY: as for the answer: handed to this process alone, and read once.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.read_to_end(&mut bytes).map_err(|e| format!("can't read the question: {e}"))?;
        serde_json::from_slice(&bytes).map_err(|e| format!("can't read the question: {e}"))
    }
}
