//! The probe: a module that runs inside the image's own interpreter and answers one question.
//!
//! It reads the question from one file descriptor and writes lines of JSON into memory that it shares with the binary. It changes nothing on disk,
//! and a panic becomes a Python exception. `wire.rs` is the contract with the binary.

mod area;
mod crash;
mod directories;
mod floor;
mod imports;
mod libraries;
mod linkmap;
mod wire;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, RawFd};
use std::sync::OnceLock;

use area::Area;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use wire::{Line, Question};

/// One question for each process; the crash handler writes there, too.
static ANSWER: OnceLock<Area> = OnceLock::new();

/// Writes one line of the answer. A failure can't be told to anybody: the binary will miss the line and say so.
fn say(line: &Line) {
    if let (Some(answer), Ok(mut text)) = (ANSWER.get(), serde_json::to_vec(line)) {
        text.push(b'\n');
        answer.write(&text);
    }
}

#[pymodule]
#[pyo3(name = "rocm_fixup_probe")]
mod probe {
    use super::*;

    /// Answers the question at descriptor `ask` into the file behind descriptor `answer`; both are closed.
    #[pyfunction]
    fn run(py: Python<'_>, ask: RawFd, answer: RawFd) -> PyResult<()> {
        let area = Area::of_file(answer, wire::ANSWER)
            .map_err(|e| PyOSError::new_err(format!("can't map the file for the answer: {e}")))?;
        let answer = ANSWER.get_or_init(|| area);
        let done = question(ask).and_then(|question| match question {
            Question::Directories { packages } => {
                let found = directories::directories(py, &packages).map_err(|e| e.to_string())?;
                say(&Line::Directories(found));
                Ok(())
            }
            Question::Import { modules } => {
                crash::watch(answer);
                let done = imports::imports(py, &modules).map_err(|e| e.to_string());
                crash::calm();
                done
            }
            Question::OpenLibraries { jobs, parallel, seconds } => {
                libraries::open(&jobs, parallel, seconds);
                Ok(())
            }
        });
        say(&match done {
            Ok(()) => Line::End,
            Err(text) => Line::Failed { text },
        });
        Ok(())
    }

    fn question(fd: RawFd) -> Result<Question, String> {
        let mut bytes = Vec::new();
        // SAFETY: the binary hands this descriptor to this process alone, and it is read once.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.read_to_end(&mut bytes).map_err(|e| format!("can't read the question: {e}"))?;
        serde_json::from_slice(&bytes).map_err(|e| format!("can't read the question: {e}"))
    }
}
