//! Plans plain patches, which know nothing of their targets: a folder of `.patch` files. Looks, never writes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use super::lint::{Linted, Origin, lint};
use super::parse::{FilePatch, Kind, Strip, parse};
use super::plan::{Files, Job, JobFile, Options, Planned, run};
use super::read::Found;
use super::report::{PatchReport, State};
use super::target::Ground;
use crate::error::{Exit, Hint};
use crate::model::{RelPath, normalised};

/// A patch file, with the name to report it under.
#[derive(Clone, Debug)]
pub struct Plain {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Plans plain patches, in the order given. Their names are relative to `directory`, else to the first
/// site-packages directory in which one of their files is.
///
/// # Errors
/// A name that is none of the patches, a patch that the lint refuses, a strip level that can't be told, I/O errors.
pub fn of_files(
    patches: &[Plain],
    strip: Option<usize>,
    directory: Option<&Path>,
    ground: &Ground<'_>,
    options: &Options<'_>,
) -> Result<Planned> {
    for name in options.names {
        if !patches.iter().any(|p| normalised(&p.name) == normalised(name)) {
            return Err(anyhow!("there is no patch `{name}`").context(Exit::Usage));
        }
    }
    let wanted = |p: &&Plain| {
        options.names.is_empty() || options.names.iter().any(|n| normalised(n) == normalised(&p.name))
    };
    let patches: Vec<&Plain> = patches.iter().filter(wanted).collect();
    let strip = strip.map_or(Strip::FromHeader, Strip::Exactly);
    let mut linted: Vec<Linted<'_>> = Vec::new();
    for patch in &patches {
        linted.push(unusable(lint(&patch.bytes, Origin::User), &patch.name)?);
    }
    let mut parsed: Vec<Vec<FilePatch<'_>>> = Vec::new();
    for (patch, linted) in patches.iter().zip(&linted) {
        parsed.push(unusable(parse(linted, strip), &patch.name)?);
    }
    let roots = match directory {
        Some(directory) => vec![
            std::fs::canonicalize(directory)
                .with_context(|| format!("can't use `{}`", directory.display()))?,
        ],
        None => ground.site_packages.to_vec(),
    };
    let mut files = Files::default();
    let mut jobs = Vec::new();
    for ((patch, linted), parsed) in patches.iter().zip(&linted).zip(&parsed) {
        let root = home(parsed, &roots, &mut files)?;
        let mut job = Job {
            report: PatchReport::new(&patch.name, State::Applied),
            knows: false,
            files: Vec::new(),
            advice: elsewhere(linted, parsed, &root, &mut files)?,
            late: None,
        };
        job.report.notes.extend(linted.warnings.iter().map(ToString::to_string));
        for file in parsed {
            let (root, path) = rebased(&root, &file.path, ground);
            job.files.push(JobFile { root, path, patch: file, known: None, distribution: None });
        }
        jobs.push(job);
    }
    run(jobs, files, ground, options)
}

fn unusable<T>(result: Result<T, super::lint::Mistake>, name: &str) -> Result<T> {
    result.map_err(|mistake| {
        let strip = matches!(mistake.rule, "strip" | "two-names");
        let mut error = anyhow::Error::new(mistake);
        if strip {
            error = error.context(Hint::new("give the number of leading components to drop: `--strip N`"));
        }
        error.context(Exit::Usage).context(format!("can't use `{name}`"))
    })
}

/// The first root in which a file of the patch is; the first of all if there is none.
fn home(parsed: &[FilePatch<'_>], roots: &[PathBuf], files: &mut Files) -> Result<PathBuf> {
    for root in roots {
        for file in parsed {
            if !matches!(files.get(root, &file.path)?, Found::Absent { .. } | Found::NoDirectory) {
                return Ok(root.clone());
            }
        }
    }
    roots.first().cloned().ok_or_else(|| anyhow!("there is no site-packages directory to patch in"))
}

/// A file below site-packages is given relative to that, so that its RECORD is found.
fn rebased(root: &Path, path: &RelPath, ground: &Ground<'_>) -> (PathBuf, RelPath) {
    for site in ground.site_packages {
        if let Ok(below) = root.strip_prefix(site)
            && let Some(path) = RelPath::new(below.join(path.as_path()))
        {
            return (site.clone(), path);
        }
    }
    (root.to_path_buf(), path.clone())
}

/// Where no file of a patch is, the strip levels at which they all would be (patching.md, case 9).
fn elsewhere(
    linted: &Linted<'_>,
    parsed: &[FilePatch<'_>],
    root: &Path,
    files: &mut Files,
) -> Result<String> {
    let mut there = |parsed: &[FilePatch<'_>]| -> Result<bool> {
        for file in parsed.iter().filter(|f| !matches!(f.kind, Kind::Create(_))) {
            if !matches!(files.get(root, &file.path)?, Found::File(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if there(parsed)? {
        return Ok(String::new());
    }
    let mut levels = Vec::new();
    for level in 0..8 {
        let Ok(parsed) = parse(linted, Strip::Exactly(level)) else { continue };
        if there(&parsed)? {
            levels.push(level.to_string());
        }
    }
    Ok(match levels.as_slice() {
        [] => String::new(),
        levels => format!("its files are there with `--strip {}`", levels.join("` or `--strip ")),
    })
}
