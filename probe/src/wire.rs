//! What the binary asks and the probe answers; compiled into both. Plain values, no I/O.
//!
//! An answer is a row of JSON lines, each written at once: after a crash the lines so far tell how far it came.

use serde::{Deserialize, Serialize};

/// The longest answer, bytes; it ends at the first NUL.
pub const ANSWER: u64 = 64 * 1024 * 1024;

/// A path as the system has it: text where it is UTF-8, else its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Raw {
    Text(String),
    Bytes(Vec<u8>),
}

impl Raw {
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Where things lie; `packages` are top-level modules to look for without importing them.
    Directories { packages: Vec<String> },
    /// Import these in this order, each only if the one before succeeded.
    Import { modules: Vec<String> },
    /// Open the libraries of each job, in a forked child of its own, `parallel` at a time.
    OpenLibraries { jobs: Vec<Vec<Raw>>, parallel: usize, seconds: f64 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    Directories(Directories),
    /// Written before each import, so that a crash has a name.
    Importing {
        module: String,
    },
    /// An import failed; the exception and those behind it, outermost first.
    Raised {
        module: String,
        /// The module's file, if it can be found all the same.
        found: Option<Raw>,
        exceptions: Vec<Raised>,
    },
    /// What was mapped when all imports were through, in load order.
    Loaded {
        objects: Vec<Object>,
    },
    Opened {
        job: usize,
        outcome: Opened,
    },
    /// The answer is complete; what follows is the interpreter's shutdown.
    End,
    /// The probe itself failed.
    Failed {
        text: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directories {
    pub executable: Option<Raw>,
    pub prefix: Option<Raw>,
    /// `3.11.7`, with `rc1` and the like where it has one.
    pub version: String,
    /// `gnu_get_libc_version()` of this very process.
    pub glibc: Option<String>,
    pub machine: String,
    /// Directories of `sys.path` in order, as the plain interpreter would see them, without the standard library.
    pub paths: Vec<Raw>,
    /// Where each of the packages asked for would be imported from.
    pub packages: Vec<(String, Raw)>,
    /// What `packaging.markers` would read; for `requires-met`.
    pub markers: Markers,
}

/// The values behind PEP 508's markers that only the interpreter knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Markers {
    pub implementation_name: String,
    pub implementation_version: String,
    pub platform_release: String,
    pub platform_version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raised {
    /// `ImportError`, `apex.SomeError`.
    pub kind: String,
    pub text: String,
    /// `name` and `path` of an ImportError.
    pub name: Option<String>,
    pub path: Option<Raw>,
    /// Whether it is a ModuleNotFoundError or a subclass of it, or of ImportError.
    pub not_found: bool,
    pub import_error: bool,
}

/// One loaded object, by the loader's own list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    pub path: Raw,
    pub dev: u64,
    pub ino: u64,
    pub soname: Option<String>,
    /// Python imported it as an extension module.
    pub module: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opened {
    Ok,
    /// The loader's own words, and the library of the job that they are about.
    Error {
        path: Raw,
        text: String,
    },
    /// All opened, yet two files of one SONAME are mapped.
    TwoCopies {
        clashes: Vec<Clash>,
    },
    Signal {
        number: i32,
        stderr: String,
    },
    Exit {
        code: i32,
        stderr: String,
    },
    Timeout,
}

/// Several files that answer to one SONAME in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clash {
    pub soname: String,
    pub paths: Vec<Raw>,
}

/// The SONAMEs under which more than one file is loaded.
///
/// Only libraries count (`lib….so`): extension modules of two packages may well share a name such as `_C.so`, since
/// Python tells them apart by path. So does a group in which every file is one that Python imported.
#[must_use]
pub fn clashes(objects: &[Object]) -> Vec<Clash> {
    let mut found: Vec<Clash> = Vec::new();
    for (at, first) in objects.iter().enumerate() {
        let Some(soname) = first.soname.as_deref().filter(|name| is_library(name)) else { continue };
        if found.iter().any(|clash| clash.soname == soname) {
            continue;
        }
        let mut group = vec![first];
        for other in &objects[at + 1..] {
            let same_file = group.iter().any(|o| (o.dev, o.ino) == (other.dev, other.ino));
            if other.soname.as_deref() == Some(soname) && !same_file {
                group.push(other);
            }
        }
        if group.len() > 1 && !group.iter().all(|object| object.module) {
            let paths = group.iter().map(|object| object.path.clone()).collect();
            found.push(Clash { soname: soname.to_owned(), paths });
        }
    }
    found
}

fn is_library(soname: &str) -> bool {
    soname.starts_with("lib") && (soname.ends_with(".so") || soname.contains(".so."))
}
