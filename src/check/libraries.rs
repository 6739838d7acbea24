//! Opens every shared library of the SDK's trees, each in a forked child of one interpreter, and each of devel together
//! with the one that it doubles, in both orders. Plans and judges here; the opening itself is the probe's. Changes nothing.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use walkdir::WalkDir;

use super::{CheckResult, Kind, Verdict, opened};
use crate::elf;
use crate::model::{Role, Tree};
use crate::python::wire::{Line, Opened, Question};
use crate::python::{self, Interpreter};
use crate::scan::is_library_name;

/// The limit for one library, or one pair, where none is given: there are hundreds of them, and one that hangs shouldn't hold
/// up a build for as long as an import may take.
pub const LIBRARY_TIMEOUT: Duration = Duration::from_secs(30);

/// How libraries are opened.
pub struct LibraryOptions<'a> {
    /// Why a library isn't opened, by its path below its tree (`lib/llvm/lib/libclang_rt.asan.so`).
    pub exception: &'a dyn Fn(&str) -> Option<String>,
    /// The limit for one library, or one pair.
    pub timeout: Duration,
    /// A library that wants a GPU doesn't fail the check.
    pub gpu_optional: bool,
}

/// One library of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Library {
    /// `_rocm_sdk_core/lib/libX.so.3`
    name: String,
    path: PathBuf,
}

#[derive(Debug, Default)]
struct Work {
    singles: Vec<Library>,
    /// A library of core, libraries or profiler, and what lies at the same place in devel.
    twins: Vec<(Library, Library)>,
    skipped: Vec<CheckResult>,
}

/// One row that sums up, then one for each library that doesn't open as it should or isn't opened at all.
///
/// # Errors
/// If a tree can't be walked, or the interpreter gives no answer.
pub fn libraries(
    interpreter: &Interpreter,
    trees: &[Tree],
    options: &LibraryOptions<'_>,
) -> Result<Vec<CheckResult>> {
    let work = plan(trees, options.exception)?;
    if work.singles.is_empty() {
        return Ok(vec![CheckResult::skipped(
            "libraries",
            Kind::Smoke,
            "there is no library of an SDK here",
        )]);
    }
    let began = std::time::Instant::now();
    let jobs = work.singles.iter().map(|one| vec![one.path.as_path()]).collect();
    let mut broken = HashSet::new();
    let mut rows = Vec::new();
    for (library, outcome) in work.singles.iter().zip(open(interpreter, jobs, options)?) {
        if let Some(row) = opened::judge(&library.name, None, &outcome, options.gpu_optional) {
            broken.insert(library.path.as_path());
            rows.push(row);
        }
    }
    // What doesn't open alone says nothing new in a pair.
    let twins = work.twins.iter().filter(|(own, _)| !broken.contains(own.path.as_path()));
    let orders: Vec<(&Library, &Library)> =
        twins.flat_map(|(own, devel)| [(own, devel), (devel, own)]).collect();
    let jobs = orders.iter().map(|(first, then)| vec![first.path.as_path(), then.path.as_path()]).collect();
    for ((first, then), outcome) in orders.iter().zip(open(interpreter, jobs, options)?) {
        rows.extend(opened::judge(&then.name, Some(&first.path), &outcome, options.gpu_optional));
    }
    let failed = rows.iter().filter(|row| row.failed()).count();
    let libraries = several(work.singles.len(), "library", "libraries");
    let counted = format!("{libraries}, and {} in both orders", several(orders.len() / 2, "pair", "pairs"));
    let mut sum = if failed == 0 {
        CheckResult::new("libraries", Kind::Smoke, Verdict::Ok, format!("opened {counted}"))
    } else {
        let detail = format!("{} among {counted}", several(failed, "failure", "failures"));
        CheckResult::new("libraries", Kind::Smoke, Verdict::Fail, detail)
    };
    sum.seconds = began.elapsed().as_secs_f64();
    Ok([vec![sum], rows, work.skipped].concat())
}

fn several(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What is to be opened: each file once, and what devel has in the place of another tree's library.
fn plan(trees: &[Tree], exception: &dyn Fn(&str) -> Option<String>) -> Result<Work> {
    let mut work = Work::default();
    let mut seen = HashSet::new();
    let mut owned: HashMap<PathBuf, (Library, What)> = HashMap::new();
    let mut ordered: Vec<&Tree> = trees.iter().collect();
    ordered.sort_by_key(|tree| tree.role);
    for tree in ordered {
        for below in names(tree, trees)? {
            let name = format!("{}/{}", tree.name.to_string_lossy(), below.to_string_lossy());
            let library = Library { name, path: tree.path.join(&below) };
            let Some(what) = what(&library.path) else { continue };
            let twin = if tree.role == Role::Devel { twin(&owned, &below, &what) } else { None };
            let new = what.id.is_none_or(|id| seen.insert(id));
            if !new && twin.is_none() {
                continue;
            }
            if let Some(reason) = exception(&below.to_string_lossy()) {
                let row = CheckResult::skipped(&library.name, Kind::Smoke, reason);
                work.skipped.extend(new.then_some(row));
                continue;
            }
            work.twins.extend(twin.map(|own| (own.clone(), library.clone())));
            if tree.role != Role::Devel {
                owned.insert(below, (library.clone(), what));
            }
            work.singles.extend(new.then_some(library));
        }
    }
    Ok(work)
}

/// The library that the devel file `below` doubles: the one at the same place, or a separate file under another name
/// of it (`libX.so` beside `libX.so.3`).
fn twin<'a>(owned: &'a HashMap<PathBuf, (Library, What)>, below: &Path, what: &What) -> Option<&'a Library> {
    if let Some((own, _)) = owned.get(below) {
        return Some(own);
    }
    let named = below.with_file_name(OsStr::from_bytes(what.soname.as_deref()?));
    owned.get(&named).filter(|(_, theirs)| theirs.id != what.id).map(|(own, _)| own)
}

/// Names of libraries below a tree, sorted. A link to a directory is followed only where it leads out of all trees: else the
/// directory is walked in its own place.
fn names(tree: &Tree, trees: &[Tree]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![tree.path.clone()];
    while let Some(top) = todo.pop() {
        for entry in WalkDir::new(&top).sort_by_file_name() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) => {
                    continue;
                }
                Err(error) => return Err(error).with_context(|| format!("can't walk `{}`", top.display())),
            };
            if entry.depth() > 0 && top == tree.path && leads_out(entry.path(), trees) {
                todo.push(entry.into_path());
            } else if !entry.file_type().is_dir() && is_library_name(entry.file_name().as_bytes()) {
                found.extend(entry.path().strip_prefix(&tree.path).ok().map(Path::to_path_buf));
            }
        }
    }
    Ok(found)
}

fn leads_out(path: &Path, trees: &[Tree]) -> bool {
    let to = if path.is_symlink() { std::fs::canonicalize(path).ok() } else { None };
    to.is_some_and(|to| to.is_dir() && !trees.iter().any(|tree| to.starts_with(&tree.path)))
}

struct What {
    /// Device and inode; `None` for a link to nothing.
    id: Option<(u64, u64)>,
    soname: Option<Vec<u8>>,
}

/// `None` for what no loader is asked to open: programs, linker scripts, directories. What is neither (a library cut
/// short, an empty file, a pointer of Git LFS) is opened all the same, so that the loader says what is wrong with it.
fn what(path: &Path) -> Option<What> {
    let Ok(meta) = std::fs::metadata(path) else { return Some(What { id: None, soname: None }) };
    if !meta.is_file() {
        return None;
    }
    let id = Some((meta.dev(), meta.ino()));
    let Ok(file) = File::open(path) else { return Some(What { id, soname: None }) };
    match elf::read(&file) {
        Ok(facts) => (facts.dynamic && !facts.executable).then_some(What { id, soname: facts.soname }),
        Err(_) if is_script(&file) => None,
        Err(_) => Some(What { id, soname: None }),
    }
}

/// A linker script, such as `INPUT(libc++.so.1)`, perhaps behind a comment. Other text is no library, and should be one.
fn is_script(file: &File) -> bool {
    let mut head = [0; 4096];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    let text = head[..read].iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    text && ["INPUT", "GROUP"]
        .iter()
        .any(|word| memchr::memmem::find(&head[..read], word.as_bytes()).is_some())
}

/// The outcome of each job, in their order.
fn open(
    interpreter: &Interpreter,
    jobs: Vec<Vec<&Path>>,
    options: &LibraryOptions<'_>,
) -> Result<Vec<Opened>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let count = jobs.len();
    let parallel = std::thread::available_parallelism().map_or(1, usize::from);
    let rounds = u32::try_from(count.div_ceil(parallel)).unwrap_or(u32::MAX);
    let limit = options.timeout.saturating_mul(rounds).saturating_add(Duration::from_secs(60));
    let jobs = jobs.iter().map(|paths| paths.iter().map(|path| python::raw(path)).collect()).collect();
    let question = Question::OpenLibraries { jobs, parallel, seconds: options.timeout.as_secs_f64() };
    let reply =
        python::ask(&interpreter.command, &question, &[], limit).context("can't open the SDK's libraries")?;
    if let Some(unfit) = reply.answer.unfit {
        return Err(unfit.error(&interpreter.command));
    }
    if !reply.answer.complete() {
        let error = python::no_answer(&interpreter.command, &reply, limit);
        return Err(error.context("can't open the SDK's libraries"));
    }
    let mut outcomes: Vec<Option<Opened>> = vec![None; count];
    for line in reply.answer.lines {
        if let Line::Opened { job, outcome } = line
            && let Some(slot) = outcomes.get_mut(job)
        {
            *slot = Some(outcome);
        }
    }
    let outcomes: Option<Vec<Opened>> = outcomes.into_iter().collect();
    outcomes.context("the interpreter left out a library")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their fixtures")]
mod tests {
    use super::*;

    #[test]
    fn only_directories_and_linker_scripts_are_no_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let text = |text: &str| {
            std::fs::write(dir.path().join("libx.so"), text).unwrap();
            what(&dir.path().join("libx.so"))
        };
        assert!(
            text(
                "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( libx.so.1 AS_NEEDED ( liby.so ) )"
            )
            .is_none()
        );
        assert!(text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n").is_some());
        assert!(text("").is_some());
        assert!(what(dir.path()).is_none());
        assert!(what(Path::new("/no/such.so")).is_some_and(|what| what.id.is_none()));
    }
}
