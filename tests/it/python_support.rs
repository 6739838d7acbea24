//! What tests of the interpreter need: real Pythons, virtual environments, compiled objects. Mocks nothing.

#![expect(clippy::disallowed_macros, reason = "a skip is said")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Every `python3` of the machine that checks can run in, newest last, each by the name that starts it.
pub fn pythons() -> Vec<PathBuf> {
    all_pythons().into_iter().filter(|python| version(python) >= (3, 8)).collect()
}

/// Pythons that are too old for the probe.
pub fn old_pythons() -> Vec<PathBuf> {
    all_pythons().into_iter().filter(|python| version(python) < (3, 8)).collect()
}

fn all_pythons() -> Vec<PathBuf> {
    static ALL: OnceLock<Vec<PathBuf>> = OnceLock::new();
    ALL.get_or_init(look_for_pythons).clone()
}

fn look_for_pythons() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/bin/python3")];
    if let Some(home) = std::env::var_os("HOME")
        && let Ok(entries) = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"))
    {
        found.extend(entries.flatten().map(|entry| entry.path().join("bin/python3")));
    }
    found.retain(|python| python.exists());
    found.sort_by_cached_key(|python| version(python));
    assert!(!found.is_empty(), "these tests need a python3");
    found
}

pub fn version(python: &Path) -> (u32, u32) {
    static KNOWN: Mutex<BTreeMap<PathBuf, (u32, u32)>> = Mutex::new(BTreeMap::new());
    *KNOWN.lock().unwrap().entry(python.to_path_buf()).or_insert_with(|| ask_version(python))
}

fn ask_version(python: &Path) -> (u32, u32) {
    let text = output(python, ["-c", "import sys; print(*sys.version_info[:2])"]);
    let mut parts = text.split_whitespace().map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap())
}

/// The interpreter that tests use where one is enough.
pub fn python() -> PathBuf {
    let all = pythons();
    all.iter().find(|python| version(python) == (3, 11)).unwrap_or(&all[0]).clone()
}

/// stdout of a program that must succeed.
pub fn output<S: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = S>) -> String {
    let done = Command::new(program).args(args).output().unwrap();
    assert!(done.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A virtual environment without pip: its interpreter and its site-packages directory. Made by hand, since `venv`
/// itself can't take a path that isn't UTF-8.
pub fn venv(python: &Path, at: &Path) -> (PathBuf, PathBuf) {
    let (major, minor) = version(python);
    let site = at.join(format!("lib/python{major}.{minor}/site-packages"));
    std::fs::create_dir_all(at.join("bin")).unwrap();
    std::fs::create_dir_all(&site).unwrap();
    let real = python.canonicalize().unwrap();
    let home = real.parent().unwrap().to_str().unwrap();
    let config = format!("home = {home}\ninclude-system-site-packages = false\nversion = {major}.{minor}\n");
    std::fs::write(at.join("pyvenv.cfg"), config).unwrap();
    let command = at.join("bin/python3");
    std::os::unix::fs::symlink(real, &command).unwrap();
    (command, site)
}

/// Compiles a shared object from C source with further arguments for `cc`.
pub fn cc<S: AsRef<OsStr>>(source: &str, out: &Path, args: impl IntoIterator<Item = S>) {
    let file = out.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O0", "-o"]).arg(out).arg(&file).args(args);
    let done = command.output().unwrap();
    assert!(done.status.success(), "cc: {}", String::from_utf8_lossy(&done.stderr));
    std::fs::remove_file(file).unwrap();
}

/// A `*.dist-info` with these headers added to its METADATA.
pub fn distribution(site: &Path, name: &str, version: &str, headers: &str) -> PathBuf {
    let dir = site.join(format!("{}-{version}.dist-info", name.replace('-', "_")));
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{headers}\n");
    std::fs::write(dir.join("METADATA"), text).unwrap();
    dir
}

/// Where the headers of this very interpreter are.
pub fn include_dir(python: &Path) -> String {
    output(python, ["-c", "import sysconfig; print(sysconfig.get_path('include'))"])
}

/// A CPython 3.11 (for which AMD's wheels exist) with pip that reaches an index; `None`, with a word on stderr, where
/// there is none. `ROCM_FIXUP_TEST_WHEELS=1` makes that a failure.
pub fn pip_python() -> Option<PathBuf> {
    let works = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "download", "--quiet", "--no-deps", "pybind11==3.1.0", "--dest"]);
        version(python) >= (3, 11) && command.arg(wheels()).output().is_ok_and(|done| done.status.success())
    };
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| pythons().into_iter().find(works)).clone();
    let must = std::env::var_os("ROCM_FIXUP_TEST_WHEELS").is_some_and(|value| value == "1");
    assert!(found.is_some() || !must, "no python3 of 3.11 or later with a pip that reaches an index");
    if found.is_none() {
        eprintln!("skipped: no python3 of 3.11 or later with a pip that reaches an index");
    }
    found
}

/// Where wheels are kept between runs.
fn wheels() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheels")
}

/// Installs one package into `site` by pip, as an image would.
pub fn pip_install(python: &Path, site: &Path, what: &str) {
    let (site, wheels) = (site.to_str().unwrap(), wheels());
    if !what.contains("://") {
        output(python, ["-m", "pip", "download", "-q", "--no-deps", "-d", wheels.to_str().unwrap(), what]);
    }
    let links = wheels.to_str().unwrap();
    let mut args = vec!["-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", site];
    if !what.contains("://") {
        args.extend(["--no-index", "--find-links", links]);
    }
    args.push(what);
    output(python, args);
}
