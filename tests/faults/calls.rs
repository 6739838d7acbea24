//! The recorder: the system calls of a clean run, as points at which something can be made to go wrong.

use std::collections::HashMap;

/// One call of the clean run: the `nth` of its name in its thread (which is how strace counts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub nth: usize,
    pub text: String,
}

/// Names that can change something. `openat` only with `O_CREAT` or `O_TRUNC`.
const CHANGING: [&str; 26] = [
    "write",
    "pwrite64",
    "writev",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "sendfile",
    "mkdir",
    "mkdirat",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "fsync",
    "fdatasync",
    "syncfs",
    "fchmod",
    "fchown",
    "utimensat",
    "fsetxattr",
];
/// Names that take a path, or a directory that was reached by one.
const PATHS: [&str; 12] = [
    "openat2",
    "openat",
    "open",
    "newfstatat",
    "statx",
    "readlinkat",
    "symlinkat",
    "linkat",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
];
/// Calls that change files through a path or a descriptor in a way the product must never use.
pub const FORBIDDEN: [&str; 12] = [
    "chmod",
    "chown",
    "lchown",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "truncate",
    "setxattr",
    "lsetxattr",
    "utime",
    "rename",
    "unlink",
];

/// What is to be recorded.
pub fn watched() -> String {
    let all: Vec<&str> = CHANGING.into_iter().chain(PATHS).chain(FORBIDDEN).chain(READING).collect();
    format!("trace={}", all.iter().map(|name| format!("?{name}")).collect::<Vec<_>>().join(","))
}

/// Calls that only look; a failure of one must end in an error or be harmless.
const READING: [&str; 8] =
    ["read", "pread64", "getdents64", "fstat", "statx", "flock", "flistxattr", "fgetxattr"];

impl Call {
    pub fn changes(&self) -> bool {
        let opens = self.name == "openat" && (self.text.contains("O_CREAT") || self.text.contains("O_TRUNC"));
        opens || CHANGING.contains(&self.name.as_str())
    }

    pub fn takes_path(&self) -> bool {
        PATHS.contains(&self.name.as_str())
    }

    pub fn is_barrier(&self) -> bool {
        ["fsync", "fdatasync", "syncfs"].contains(&self.name.as_str())
    }
}

/// Reads what `strace -f -o` wrote.
pub fn parse(log: &str) -> Vec<Call> {
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let Some((name, _)) = rest.split_once('(') else { continue };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        let nth = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *nth += 1;
        calls.push(Call { name: name.to_owned(), nth: *nth, text: rest.to_owned() });
    }
    calls
}

/// Removes what more than one thread had at the same count: an injection hits them all anyway.
pub fn distinct(calls: impl Iterator<Item = Call>) -> Vec<Call> {
    let mut seen = std::collections::HashSet::new();
    calls.filter(|call| seen.insert((call.name.clone(), call.nth))).collect()
}
