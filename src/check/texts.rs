//! What loaders, runtimes and compilers say when something is wrong, and what it means. Pure: text in, values out.

use std::path::Path;

use crate::python::{End, signal_name};

/// What the loader missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A library that isn't there; glibc doesn't say who wants it.
    Library {
        library: String,
    },
    Symbol {
        symbol: String,
        wanted_by: String,
    },
    Version {
        version: String,
        library: String,
        wanted_by: String,
    },
}

impl Missing {
    /// In a sentence; `wanted_by` is used where the loader itself doesn't tell.
    #[must_use]
    pub fn explained(&self, wanted_by: Option<&Path>) -> String {
        match self {
            Self::Library { library } => match wanted_by {
                Some(by) => format!("missing library `{library}`, wanted by `{}`", by.display()),
                None => format!("missing library `{library}`"),
            },
            Self::Symbol { symbol, wanted_by } => {
                format!("missing symbol `{symbol}`, wanted by `{wanted_by}`")
            }
            Self::Version { version, library, wanted_by } => {
                format!("`{library}` is too old: `{wanted_by}` wants {version}")
            }
        }
    }
}

/// The first loader's complaint in `text`, wherever it stands.
#[must_use]
pub fn loader(text: &str) -> Option<Missing> {
    text.lines().find_map(|line| {
        missing_version(line).or_else(|| missing_symbol(line)).or_else(|| missing_library(line))
    })
}

/// `libx.so.1: cannot open shared object file: No such file or directory`
fn missing_library(line: &str) -> Option<Missing> {
    let (before, _) = line.split_once(": cannot open shared object file")?;
    Some(Missing::Library { library: last_word(before, ": ")?.to_owned() })
}

/// `/a/b.so: undefined symbol: f, version V`, also behind `python3: symbol lookup error: `
fn missing_symbol(line: &str) -> Option<Missing> {
    let (before, symbol) = line.split_once(": undefined symbol: ")?;
    let symbol = symbol.split([',', ' ', ')']).next().filter(|symbol| !symbol.is_empty())?;
    Some(Missing::Symbol { symbol: symbol.to_owned(), wanted_by: last_word(before, ": ")?.to_owned() })
}

/// ``/lib/libc.so.6: version `GLIBC_2.39' not found (required by /a/b.so)``
fn missing_version(line: &str) -> Option<Missing> {
    let (library, rest) = line.split_once(": version `")?;
    let (version, rest) = rest.split_once("' not found (required by ")?;
    let (wanted_by, _) = rest.rsplit_once(')')?;
    Some(Missing::Version {
        version: version.to_owned(),
        library: last_word(library, ": ")?.to_owned(),
        wanted_by: wanted_by.to_owned(),
    })
}

/// What follows the last `separator`; never empty.
fn last_word<'a>(text: &'a str, separator: &str) -> Option<&'a str> {
    let word = text.rsplit(separator).next()?.trim_matches(['\'', '"', '(', '[']);
    (!word.is_empty()).then_some(word)
}

/// The line that says that there is no GPU, if `text` has one. What is said in a warning stopped nothing.
#[must_use]
pub fn needs_gpu(text: &str) -> Option<&str> {
    let says = |line: &str| says_no_gpu(line) && !line.contains("warning") && !line.starts_with("[w");
    text.lines().find(|line| says(&line.to_ascii_lowercase())).map(str::trim)
}

/// The line by which a process says that it ended for want of a GPU: the runtimes abort then, or end with an error. It stands
/// last; a runtime grumbles long before something else goes wrong, too.
#[must_use]
pub fn ended_without_gpu(stderr: &str, end: End) -> Option<String> {
    let fits = match end {
        End::Signal(number) => signal_name(number) == "SIGABRT",
        End::Exit(code) => code != 0,
        End::Timeout => false,
    };
    if !fits || twice(stderr).is_some() {
        return None;
    }
    needs_gpu(&tail(stderr, 3, 600)).map(str::to_owned)
}

fn says_no_gpu(line: &str) -> bool {
    // The HIP and HSA runtimes, PyTorch, Triton, vLLM, AITER, rocminfo.
    const TEXTS: [&str; 16] = [
        "no hip gpus are available",
        "no rocm-capable device is detected",
        "no cuda-capable device is detected",
        "hiperrornodevice",
        "hiperrorinsufficientdriver",
        "hip error: invalid device ordinal",
        "hsa_init failed",
        "hsa_status_error_out_of_resources",
        "0 active drivers ([])",
        "failed to infer device type",
        "rock module is not loaded",
        "get gpu arch from rocminfo failed",
        "no amd gpu",
        "no gpu detected",
        "no gpus detected",
        "no supported gpu",
    ];
    const CODES: [&str; 4] = ["hip error 100", "hip error: 100", "hip error code 100", "hiperror_t 100"];
    const TROUBLE: [&str; 5] =
        ["no such file", "permission denied", "not found", "unable to open", "failed to open"];
    let device = line.contains("/dev/kfd") && TROUBLE.iter().any(|trouble| line.contains(trouble));
    let tool = line.contains("rocminfo") && line.contains("non-zero exit status");
    let code = CODES.iter().any(|code| {
        line.split(code).nth(1).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    device || tool || code || TEXTS.iter().any(|text| line.contains(text))
}

/// A sentence by which a library says that it is there twice, and how the names of such libraries look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twice {
    pub sentence: &'static str,
    pub names: &'static [&'static str],
}

/// The first such sentence in `text`.
#[must_use]
pub fn twice(text: &str) -> Option<Twice> {
    const LLVM: &[&str] = &["LLVM", "amd_comgr", "clang", "MLIR", "triton", "lld"];
    const KNOWN: [Twice; 3] = [
        Twice { sentence: "registered more than once", names: LLVM },
        Twice { sentence: "inconsistency in registered CommandLine options", names: LLVM },
        Twice { sentence: "ROCPROFILER_REGISTER_LIBRARY is already set", names: &["rocprofiler"] },
    ];
    KNOWN.into_iter().find(|known| text.contains(known.sentence))
}

/// The last `lines` lines that aren't empty, at most `most` bytes of them.
#[must_use]
pub fn tail(text: &str, lines: usize, most: usize) -> String {
    let mut kept: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(lines).collect();
    kept.reverse();
    let joined = kept.join("\n");
    let start = joined.len().saturating_sub(most);
    let start = (start..=joined.len()).find(|&at| joined.is_char_boundary(at)).unwrap_or(0);
    joined[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_complaints_are_understood_wherever_they_stand() {
        let library = |name: &str| Some(Missing::Library { library: name.into() });
        let line = "libx.so.1: cannot open shared object file: No such file or directory";
        assert_eq!(loader(line), library("libx.so.1"));
        assert_eq!(loader(&format!("apex failed\nOSError: {line}\nmore")), library("libx.so.1"));
        let symbol =
            |name: &str, by: &str| Some(Missing::Symbol { symbol: name.into(), wanted_by: by.into() });
        assert_eq!(loader("/a b/x.so: undefined symbol: _Z1fv"), symbol("_Z1fv", "/a b/x.so"));
        assert_eq!(loader("/a/x.so: undefined symbol: f, version V_1"), symbol("f", "/a/x.so"));
        let lazy = "/opt/python3: symbol lookup error: /a/x.so: undefined symbol: g";
        assert_eq!(loader(lazy), symbol("g", "/a/x.so"));
        let version = "/lib/libc.so.6: version `GLIBC_2.39' not found (required by /a/x.so)";
        let expected = Missing::Version {
            version: "GLIBC_2.39".into(),
            library: "/lib/libc.so.6".into(),
            wanted_by: "/a/x.so".into(),
        };
        assert_eq!(loader(version), Some(expected));
        assert_eq!(loader("No module named 'x'"), None);
        assert_eq!(loader(": undefined symbol: "), None);
    }

    #[test]
    fn a_missing_gpu_is_recognised_but_not_a_missing_anything() {
        for text in [
            "RuntimeError: No HIP GPUs are available",
            "Unable to open /dev/kfd read-write: No such file or directory",
            "RuntimeError: 0 active drivers ([]). There should only be one.",
            "Command '['/opt/rocm/bin/rocminfo']' returned non-zero exit status 1.",
            "HIP error 100",
        ] {
            assert_eq!(needs_gpu(&format!("x\n{text}\ny")), Some(text));
        }
        for text in ["No such file or directory", "HIP error 1000", "/dev/kfd is fine", "GPU"] {
            assert_eq!(needs_gpu(text), None, "{text}");
        }
    }

    #[test]
    fn the_tail_is_the_end_within_bounds() {
        assert_eq!(tail("a\n\nb\nc\n", 2, 100), "b\nc");
        assert_eq!(tail("äöü", 1, 3), "ü");
        assert_eq!(tail("", 3, 3), "");
    }

    #[test]
    fn a_library_that_is_there_twice_says_so() {
        let llvm = ": CommandLine Error: Option 'x' registered more than once!\nLLVM ERROR: inconsistency …";
        assert!(twice(llvm).unwrap().names.contains(&"LLVM"));
        assert!(twice("fine").is_none());
    }
}
