//! Finds what the other verbs work on: the image's interpreter, its site-packages, the SDK's trees in them, and the
//! C library. Reads only; starts no more interpreters than it needs.

mod interpreters;
mod libc;
mod trees;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::dist;
use crate::error::Hint;
use crate::model::{Distribution, Role, Tree};
use crate::python::Interpreter;

pub use trees::role_of;

/// What the user said about where to look.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub python: Option<PathBuf>,
    pub site_packages: Vec<PathBuf>,
}

/// What the process's environment and the file system's customs say.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub virtual_env: Option<PathBuf>,
    pub path: Option<OsString>,
    /// Interpreters to ask when the first one has no SDK.
    pub well_known: Vec<PathBuf>,
}

/// What was found. Every path is physical: absolute, and without a symlink on the way.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `None` where `--site-packages` made one unnecessary.
    pub interpreter: Option<Interpreter>,
    /// Existing directories, each once, in the order of an import.
    pub site_packages: Vec<PathBuf>,
    pub trees: Vec<Tree>,
    /// The image's C library, `2.39`.
    pub glibc: Option<String>,
    pub devel: DevelState,
    /// Facts that the reader should know, one sentence each.
    pub notes: Vec<String>,
}

/// How far the devel package has come (facts.md section 1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DevelState {
    #[default]
    None,
    Expanded,
    /// Only the tarball is there: `rocm-sdk init` has not run.
    Unexpanded {
        tarball: PathBuf,
    },
    /// Tarball and tree: an expansion was interrupted.
    HalfExpanded {
        tarball: PathBuf,
    },
}

/// Finds everything.
///
/// # Errors
/// If there is no interpreter, the named one doesn't answer, or two others have different SDKs.
pub fn locate(options: &Options) -> Result<Environment> {
    locate_in(options, &Surroundings::of_this_process())
}

/// [`locate`] with the surroundings given.
///
/// # Errors
/// As [`locate`].
pub fn locate_in(options: &Options, around: &Surroundings) -> Result<Environment> {
    if options.site_packages.is_empty() {
        return interpreters::choose(options, around);
    }
    let mut sites = Vec::new();
    for given in &options.site_packages {
        let physical = physical_directory(given)
            .with_context(|| format!("can't use `{}` as site-packages", given.display()))
            .context(Hint::new(
                "give an existing directory, such as /opt/venv/lib/python3.12/site-packages",
            ))?;
        push_new(&mut sites, physical);
    }
    let interpreter = options.python.as_deref().map(interpreters::ask).transpose()?;
    Environment::of(interpreter, sites)
}

impl Environment {
    /// What lies in `site_packages`.
    fn of(interpreter: Option<Interpreter>, site_packages: Vec<PathBuf>) -> Result<Self> {
        let (site_packages, again) = one_path_each(site_packages);
        let packages = interpreter.as_ref().map(|i| i.packages.as_slice()).unwrap_or_default();
        let found = trees::find(&site_packages, packages)?;
        let glibc = match &interpreter {
            Some(interpreter) => interpreter.glibc.clone(),
            None => libc::version_of_the_image(),
        };
        let mut notes = again;
        notes.extend(trees::notes(&site_packages, &found));
        notes.extend(interpreter.as_ref().and_then(|i| {
            let why = i.limited.as_ref()?;
            Some(format!("`{}` {why}; it can only name directories", i.command.display()))
        }));
        Ok(Self { interpreter, site_packages, trees: found.trees, glibc, devel: found.devel, notes })
    }

    /// The same places, looked at anew; the interpreter isn't asked again.
    ///
    /// # Errors
    /// When a site-packages can't be listed.
    pub fn again(&self) -> Result<Self> {
        Self::of(self.interpreter.clone(), self.site_packages.clone())
    }

    /// Whether there is anything of the SDK here.
    #[must_use]
    pub fn has_sdk(&self) -> bool {
        !self.trees.is_empty() || self.devel != DevelState::None
    }

    /// The distribution called `name`; `None` where it isn't installed.
    ///
    /// # Errors
    /// A sentence that says why that can't be told; see [`dist::Claims`].
    pub fn distribution(&self, name: &str) -> Result<Option<Distribution>, String> {
        dist::claims(&self.site_packages, name).one(name)
    }

    /// `3.12.3`, where an interpreter was asked.
    #[must_use]
    pub fn python_version(&self) -> Option<&str> {
        self.interpreter.as_ref().map(|interpreter| interpreter.version.as_str())
    }

    /// The interpreter's machine, else that of this binary: `x86_64`.
    #[must_use]
    pub fn arch(&self) -> &str {
        self.interpreter.as_ref().map_or(std::env::consts::ARCH, |interpreter| &interpreter.machine)
    }

    #[must_use]
    pub fn tree(&self, role: Role) -> Option<&Tree> {
        self.trees.iter().find(|tree| tree.role == role)
    }

    /// The interpreter, for what can't do without.
    ///
    /// # Errors
    /// Where none was asked, or it can only name directories.
    pub fn needed_interpreter(&self) -> Result<&Interpreter> {
        let interpreter = self
            .interpreter
            .as_ref()
            .context("import checks need the image's interpreter, and --site-packages was given without one")
            .context(Hint::new("add --python EXE"))?;
        match interpreter.limited.clone() {
            Some(why) => Err(why.error(&interpreter.command)),
            None => Ok(interpreter),
        }
    }
}

impl Surroundings {
    #[must_use]
    pub fn of_this_process() -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut well_known = vec![PathBuf::from("/opt/venv/bin/python3")];
        well_known.extend(var("CONDA_PREFIX").map(|prefix| Path::new(&prefix).join("bin/python3")));
        well_known
            .extend(["/opt/conda", "/usr/local", "/usr"].map(|prefix| Path::new(prefix).join("bin/python3")));
        Self { virtual_env: var("VIRTUAL_ENV").map(PathBuf::from), path: var("PATH"), well_known }
    }
}

/// Whether a directory of this name is one of the SDK's trees.
#[must_use]
pub fn is_tree_name(name: &std::ffi::OsStr) -> bool {
    trees::role_of(name).is_some()
}

fn physical_directory(path: &Path) -> std::io::Result<PathBuf> {
    let physical = path.canonicalize()?;
    if physical.is_dir() { Ok(physical) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
}

/// A directory that is mounted at a second path, too, counts once, by its first path: it has one lock and one journal. With a
/// note on each other path.
fn one_path_each(sites: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let id = |path: &Path| path.metadata().ok().map(|now| (now.dev(), now.ino()));
    let (mut distinct, mut notes): (Vec<PathBuf>, Vec<String>) = (Vec::new(), Vec::new());
    for site in sites {
        let same = |first: &&PathBuf| id(&site).is_some_and(|this| id(first) == Some(this));
        match distinct.iter().find(same) {
            Some(first) => {
                notes.push(format!("`{}` is the same directory as `{}`", site.display(), first.display()))
            }
            None => distinct.push(site),
        }
    }
    (distinct, notes)
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
