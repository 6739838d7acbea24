//! One command's dealings with one image: where everything is, the lock, the journals, and the way from a plan to
//! recorded changes. Verbs decide; this carries out what they decided, in the only safe order.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::apply::{Outcome, apply};
use crate::cli::Global;
use crate::console::{self, Console};
use crate::discover::{self, Environment};
use crate::error::{Exit, Hint, hinted};
use crate::fsops::{Lock, lock};
use crate::journal::{Ended, Journal, Run, in_order};
use crate::model::{Entry, Plan, Role};
use crate::report::{JournalRef, PathText, Report, RunRef, Tree};
use crate::undo::tidy;

/// An image, as one command sees it.
pub struct Session<'a> {
    pub console: &'a Console,
    pub global: &'a Global,
    pub env: Environment,
    /// Directories outside of site-packages and SDK trees that a recipe's patches may reach.
    pub extra_roots: Vec<PathBuf>,
    locks: Vec<Lock>,
    /// Read once, and again when the locks are held.
    runs: OnceCell<Vec<(usize, Run)>>,
}

impl<'a> Session<'a> {
    /// Finds the image's Python and SDK, and says so in the report.
    ///
    /// # Errors
    /// See [`discover::locate`].
    pub fn open(console: &'a Console, global: &'a Global, report: &mut Report) -> anyhow::Result<Self> {
        let options =
            discover::Options { python: global.python.clone(), site_packages: named(&global.site_packages) };
        let env = discover::locate(&options)?;
        report.environment = Some(describe(&env));
        report.notes.extend(env.notes.iter().cloned());
        let (extra_roots, locks, runs) = (Vec::new(), Vec::new(), OnceCell::new());
        Ok(Self { console, global, env, extra_roots, locks, runs })
    }

    /// The same image as it is now, for a second look: nothing that was found or read before counts, and nothing is locked.
    ///
    /// # Errors
    /// See [`Environment::again`].
    pub fn again(&self) -> anyhow::Result<Self> {
        let (env, extra_roots) = (self.env.again()?, self.extra_roots.clone());
        let (locks, runs) = (Vec::new(), OnceCell::new());
        Ok(Self { console: self.console, global: self.global, env, extra_roots, locks, runs })
    }

    /// Whether there is anything of the SDK; if not, says so, and refuses with `--require-sdk`.
    ///
    /// # Errors
    /// Exit 3, with `--require-sdk`.
    pub fn has_sdk(&self, report: &mut Report) -> anyhow::Result<bool> {
        if !self.env.trees.is_empty() || self.env.devel != discover::DevelState::None {
            return Ok(true);
        }
        let shown: Vec<String> = self.env.site_packages.iter().map(|p| console::path(p)).collect();
        let text = format!("no ROCm wheel SDK in {}", shown.join(", "));
        if self.global.require_sdk {
            let hint = Hint::new("install it first, or name another interpreter with --python");
            return Err(anyhow::anyhow!(text).context(hint).context(Exit::Refused));
        }
        report.notes.push(format!("{text}: no library to merge"));
        Ok(false)
    }

    /// The site-packages directory that holds the journal of new runs: that of the devel tree, else of the SDK.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        let devel = self.env.trees.iter().find(|tree| tree.role == Role::Devel);
        let tree = devel.or_else(|| self.env.trees.first()).map(|tree| tree.site_packages.as_path());
        tree.or_else(|| self.env.site_packages.first().map(PathBuf::as_path))
    }

    /// What a recorded run may have changed.
    #[must_use]
    pub fn allowed(&self) -> Vec<PathBuf> {
        let trees = self.env.trees.iter().map(|tree| tree.path.clone());
        self.env.site_packages.iter().cloned().chain(trees).chain(self.extra_roots.iter().cloned()).collect()
    }

    /// The journals of all site-packages directories.
    ///
    /// # Errors
    /// When one can't be opened.
    pub fn journals(&self) -> anyhow::Result<Vec<Journal>> {
        self.env.site_packages.iter().map(|dir| Journal::open(dir)).collect()
    }

    /// Recorded runs of all journals, oldest first, each with the index of its journal.
    ///
    /// # Errors
    /// When a journal is damaged or not to be trusted.
    pub fn runs(&self) -> anyhow::Result<&[(usize, Run)]> {
        if let Some(runs) = self.runs.get() {
            return Ok(runs);
        }
        let journals = self.journals()?;
        let runs: Vec<Vec<Run>> = journals.iter().map(Journal::runs).collect::<anyhow::Result<_>>()?;
        Ok(self.runs.get_or_init(|| in_order(runs)))
    }

    /// Takes the locks and tidies up after interrupted runs, unless nothing may be written.
    ///
    /// # Errors
    /// When another process holds a lock, or something of an interrupted run can't be settled.
    pub fn prepare(&mut self) -> anyhow::Result<()> {
        if self.global.dry_run {
            return Ok(());
        }
        let journals = self.journals()?;
        let mut order: Vec<&Journal> = journals.iter().collect();
        order.sort_by(|a, b| a.site_packages().path().cmp(b.site_packages().path()));
        for journal in order {
            let dir = journal.site_packages();
            let waiting = || {
                self.console
                    .note(&format!("waiting for another rocm-fixup on {}", console::path(dir.path())));
            };
            self.locks.push(lock(dir, Duration::from_secs(self.global.lock_timeout), waiting)?);
        }
        // Another process may have changed them until now.
        self.runs = OnceCell::new();
        let allowed = self.allowed();
        let mut tidied = false;
        for (index, run) in self.runs()?.iter().filter(|(_, run)| run.unsettled()) {
            if !run.moved {
                self.console.note(&format!("tidying up after the interrupted run {}", run.record.id));
            }
            tidy(&run.record, &journals[*index], &allowed)
                .with_context(|| format!("can't tidy up after the interrupted run {}", run.record.id))?;
            tidied = true;
        }
        for journal in &journals {
            journal.sweep()?;
        }
        if tidied {
            self.runs = OnceCell::new();
        }
        Ok(())
    }

    /// Records a plan and makes its changes. Nothing is written where there is nothing to change. What goes wrong is
    /// in the report; the outcome tells what was made all the same.
    pub fn commit(&self, report: &mut Report, plan: Plan) -> Outcome {
        let foreign = foreign(&plan);
        if self.global.dry_run {
            if let Some(what) = foreign {
                report.warn("other-owner", format!("{what}: {AS_OWNER}"));
            }
            return Outcome::default();
        }
        if plan.changes.is_empty() {
            return Outcome::default();
        }
        if let Some(what) = foreign {
            report.fail(&anyhow::anyhow!(what).context(Hint::new(AS_OWNER)));
            return Outcome::default();
        }
        self.try_commit(report, plan).unwrap_or_else(|error| {
            report.fail(&hinted(error));
            Outcome::default()
        })
    }

    fn try_commit(&self, report: &mut Report, plan: Plan) -> anyhow::Result<Outcome> {
        let home = self.home().context("there is no site-packages directory for the journal")?;
        let journal = Journal::open(home)?;
        let count = plan.changes.len() as u64;
        let (command, recipe) = (&report.command, report.recipe.as_deref());
        let continues = self.runs()?.last().is_some_and(|(_, run)| {
            let stopped = run.ended == Some(Ended::Stopped) && !run.moved;
            stopped && run.record.is_gone_on_by(command, recipe, &plan)
        });
        let record = journal.begin(command, recipe, continues, plan)?;
        let bar = self.console.progress("changing files", count, false);
        let mut outcome = apply(&record, &journal, |_| bar.add(1))?;
        drop(bar);
        if !outcome.made.is_empty() {
            let path = PathText::from(journal.path_of(&record.id).as_path());
            report.journal = Some(JournalRef { id: record.id.clone(), path });
        }
        if let Some(error) = outcome.failed.take() {
            report.fail(&error);
        }
        Ok(outcome)
    }

    /// The name of the recipe that the newest recorded run used.
    #[must_use]
    pub fn remembered_recipe(&self) -> Option<String> {
        self.runs().ok()?.iter().rev().find_map(|(_, run)| run.record.recipe.clone())
    }
}

const AS_OWNER: &str = "run it as the owner of these files and in their group, or as root";

/// A file that undo, run by this user, could not give back to its owner. Bytecode may come back as anybody's.
fn foreign(plan: &Plan) -> Option<String> {
    let us = rustix::process::geteuid();
    if us.is_root() {
        return None;
    }
    let mut groups = rustix::process::getgroups().unwrap_or_default();
    groups.push(rustix::process::getegid());
    plan.changes.iter().filter(|change| !change.bytecode).find_map(|change| {
        let Entry::File(file) = &change.before else { return None };
        let (uid, gid) = (file.meta.uid, file.meta.gid);
        let mine = uid == us.as_raw() && groups.iter().any(|group| group.as_raw() == gid);
        let path = console::path(&plan.absolute(&change.at));
        (!mine).then(|| {
            format!("Permission denied: `{path}` belongs to {uid}:{gid}, and undo could not give it back")
        })
    })
}

/// A recorded run for the report.
#[must_use]
pub fn run_ref(run: &Run) -> RunRef {
    let record = &run.record;
    let state = match (run.undoing, run.ended) {
        (true, _) => "undo-interrupted",
        (false, None) => "interrupted",
        (false, Some(Ended::Complete)) => "complete",
        (false, Some(Ended::Partial)) => "partial",
        (false, Some(Ended::Stopped)) => "stopped",
    };
    RunRef {
        id: record.id.clone(),
        command: record.command.clone(),
        started: record.started.clone(),
        state: state.to_owned(),
        changes: record.plan.changes.len() as u64,
        gone: 0,
        moved_from: run.moved.then(|| record.site_packages.to_string_lossy().into_owned()),
    }
}

fn describe(env: &Environment) -> crate::report::Environment {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    crate::report::Environment {
        python: env.interpreter.as_ref().map(|i| text(&i.command)),
        python_version: env.interpreter.as_ref().map(|i| i.version.clone()),
        glibc: env.glibc.clone(),
        site_packages: env.site_packages.iter().map(text).collect(),
        trees: env
            .trees
            .iter()
            .map(|tree| Tree {
                role: tree.role,
                path: PathText::from(tree.path.as_path()),
                distribution: tree.distribution.as_ref().map(|d| d.name.clone()),
                version: tree.distribution.as_ref().map(|d| d.version.clone()),
            })
            .collect(),
    }
}

/// The directories that were named: what is there is one, colons or not; else it is a list, as in PATH.
fn named(given: &[PathBuf]) -> Vec<PathBuf> {
    let there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let split = |path: &PathBuf| {
        let parts: Vec<PathBuf> = std::env::split_paths(path).filter(|p| !p.as_os_str().is_empty()).collect();
        if there(path) || !parts.iter().any(there) { vec![path.clone()] } else { parts }
    };
    given.iter().flat_map(split).collect()
}
