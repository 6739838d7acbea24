//! From patches and what is on disk to a plan: all of a run's changes or none. Looks, never writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::{Builder, Edited};
use super::chain::{self, Link, Outcome};
use super::conflict::Conflict;
use super::parse::{FilePatch, Kind};
use super::read::{self, Found, Seen};
use super::report::PatchReport;
use super::target::Ground;
use super::verdict::Known;
use super::{effects, explain, kept};
use crate::model::{Meta, Place, PlainPatch, Plan, RelPath};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Apply,
    Revert,
}

/// How a run was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub direction: Direction,
    /// Change files whose content the recipe doesn't know, where the patch fits strictly.
    pub allow_drift: bool,
    /// The patches to look at; all if empty.
    pub names: &'a [String],
}

/// What a run would do.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// Empty if anything was refused: all or nothing.
    pub plan: Plan,
    /// What was found, before any change; [`PatchReport::applied`] and [`PatchReport::reverted`] tell of afterwards.
    pub patches: Vec<PatchReport>,
    /// What concerns no single patch.
    pub notes: Vec<String>,
    pub refused: bool,
}

/// A patch with the files that it is about.
pub(super) struct Job<'p> {
    pub report: PatchReport,
    /// Whether the recipe knows the files, so that another content is drift.
    pub knows: bool,
    pub files: Vec<JobFile<'p>>,
    /// What to say of versions beside a conflict, and what to do about it.
    pub advice: String,
    /// What to say where the patch is applied only now.
    pub late: Option<String>,
}

#[derive(Clone)]
pub(super) struct JobFile<'p> {
    pub root: PathBuf,
    pub path: RelPath,
    pub patch: &'p FilePatch<'p>,
    pub known: Option<Known>,
    pub distribution: Option<String>,
}

/// Files, each read once.
#[derive(Default)]
pub(super) struct Files(BTreeMap<(PathBuf, RelPath), Found>);

impl Files {
    pub(super) fn get(&mut self, root: &Path, path: &RelPath) -> Result<&Found> {
        let key = (root.to_path_buf(), path.clone());
        Ok(match self.0.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(read::read(root, path)?),
        })
    }
}

/// Judges all jobs and, if none is refused, plans their changes in one group.
///
/// # Errors
/// A file that is the journal's, I/O errors.
pub(super) fn run(
    mut jobs: Vec<Job<'_>>,
    mut files: Files,
    ground: &Ground<'_>,
    options: &Options<'_>,
) -> Result<Planned> {
    for file in jobs.iter().flat_map(|job| &job.files) {
        kept::of_the_journal(file, ground)?;
    }
    // Links of one file in the order of the jobs: (job, index in the job).
    let mut by_file: BTreeMap<(PathBuf, RelPath), Vec<(usize, usize)>> = BTreeMap::new();
    for (j, job) in jobs.iter().enumerate() {
        for (f, file) in job.files.iter().enumerate() {
            by_file.entry((file.root.clone(), file.path.clone())).or_default().push((j, f));
        }
    }
    let mut outcomes: Vec<Vec<Option<Outcome>>> =
        jobs.iter().map(|job| vec![None; job.files.len()]).collect();
    let mut edited = Vec::new();
    let mut shared = Vec::new();
    for ((root, path), places) in &by_file {
        let file_of = |&(j, f): &(usize, usize)| jobs[j].files.get(f);
        let links: Vec<Link<'_>> =
            places.iter().filter_map(file_of).map(|f| Link { patch: f.patch, known: f.known }).collect();
        let found = files.get(root, path)?;
        let (seen, chained) = match judged(found, &links, options.direction) {
            Ok(judged) => judged,
            Err(unfit) => {
                places.iter().for_each(|&(j, f)| outcomes[j][f] = Some(Outcome::Conflict(unfit.clone())));
                continue;
            }
        };
        if let Some(seen) =
            seen.filter(|seen| seen.links > 1 && Some(&seen.bytes) != chained.content.as_ref())
        {
            let name = root.join(path.as_path());
            let text =
                format!("`{}` was shared with {} other names (hard links)", name.display(), seen.links - 1);
            shared.extend(places.iter().map(|&(j, _)| (j, text.clone())));
        }
        if seen.map(|s| &s.bytes) != chained.content.as_ref() {
            let was = ground.past.was(root, path, chained.content.as_deref())?;
            edited.push(Edited {
                root: root.clone(),
                path: path.clone(),
                distribution: places.first().and_then(file_of).and_then(|f| f.distribution.clone()),
                before: seen.cloned(),
                after: chained.content,
                was,
            });
        }
        for (&(j, f), outcome) in places.iter().zip(chained.outcomes) {
            outcomes[j][f] = Some(outcome);
        }
    }
    for (j, text) in shared {
        jobs[j].report.notes.push(text);
    }
    for (job, outcomes) in jobs.iter_mut().zip(outcomes) {
        explain::outcomes(job, outcomes, options);
    }
    let plain: Vec<(String, Vec<(PathBuf, RelPath)>)> =
        jobs.iter().filter(|job| !job.knows).map(|job| (job.report.name.clone(), changed(job))).collect();
    let (new_meta, defaults) = new_metas(&jobs, &mut files, &edited)?;
    let patches: Vec<PatchReport> = jobs.into_iter().map(|job| job.report).collect();
    let mut planned = Planned { refused: patches.iter().any(|p| p.refused), patches, ..Planned::default() };
    if !planned.refused {
        let mut builder = Builder {
            plan: Plan::default(),
            notes: defaults,
            stuck: Vec::new(),
            new_meta: Meta::default_file(0, 0),
        };
        for (file, meta) in edited.iter().zip(new_meta) {
            builder.new_meta = meta;
            builder.change(&file.root, &file.path, file.before.clone(), file.after.clone());
        }
        effects::add(&mut builder, &edited, ground)?;
        for (name, files) in plain.into_iter().filter(|(_, files)| !files.is_empty()) {
            let place = |(root, path): (PathBuf, RelPath)| Place { root: builder.plan.root(&root), path };
            let files = files.into_iter().map(place).collect();
            let reverted = options.direction == Direction::Revert;
            builder.plan.patches.push(PlainPatch { name, reverted, files });
        }
        for (path, why) in &builder.stuck {
            planned.patches.iter_mut().for_each(|patch| patch.refuse(path, why));
        }
        planned.refused = !builder.stuck.is_empty();
        if !planned.refused {
            planned.plan = builder.plan;
        }
        planned.notes = builder.notes;
        planned.notes.sort();
        planned.notes.dedup();
    }
    Ok(planned)
}

/// The files of a job that are to be changed.
fn changed(job: &Job<'_>) -> Vec<(PathBuf, RelPath)> {
    let told = job.files.iter().zip(&job.report.files);
    let changed = told.filter(|(_, told)| told.before.is_some() || told.after.is_some());
    changed.map(|(file, _)| (file.root.clone(), file.path.clone())).collect()
}

/// The file as it was seen, and what the links make of it.
fn judged<'f>(
    found: &'f Found,
    links: &[Link<'_>],
    direction: Direction,
) -> Result<(Option<&'f Seen>, chain::Chained), Box<Conflict>> {
    let seen = match found {
        Found::File(seen) => Some(seen),
        Found::Absent { .. } => None,
        Found::NoDirectory => {
            let makes = |link: &Link<'_>| match direction {
                Direction::Apply => matches!(link.patch.kind, Kind::Create(_)),
                Direction::Revert => link.patch.kind == Kind::Delete,
            };
            if links.iter().any(makes) {
                return Err(Box::new(Conflict::Unfit(
                    "there is no directory to make the file in".to_owned(),
                )));
            }
            None
        }
        Found::Unfit(why) => return Err(Box::new(Conflict::Unfit(why.clone()))),
    };
    let bytes = seen.map(|seen| seen.bytes.as_slice());
    let chained = match direction {
        Direction::Apply => chain::apply(bytes, links),
        Direction::Revert => chain::revert(bytes, links),
    };
    match kept::library(bytes, chained.content.as_deref()) {
        Some(why) => Err(Box::new(Conflict::Unfit(why.to_owned()))),
        None => Ok((seen, chained)),
    }
}

/// Mode and owner for each edited file, should it be made anew: those that it had; else the mode that its patch says and
/// the directory's owner; else those of a file beside it. And what is to be said of that.
fn new_metas(jobs: &[Job<'_>], files: &mut Files, edited: &[Edited]) -> Result<(Vec<Meta>, Vec<String>)> {
    let mut metas = Vec::with_capacity(edited.len());
    let mut notes = Vec::new();
    for file in edited {
        let mut meta = Meta::default_file(0, 0);
        if let Found::Absent { uid, gid } = files.get(&file.root, &file.path)? {
            (meta.uid, meta.gid) = (*uid, *gid);
        }
        let links = jobs.iter().flat_map(|job| &job.files);
        let mut deleted = false;
        for link in links.filter(|f| f.root == file.root && f.path == file.path) {
            match link.patch.kind {
                Kind::Create(mode) => meta.mode = mode,
                Kind::Delete => deleted = true,
                Kind::Modify => {}
            }
        }
        if let Some(was) = file.was.as_ref().and_then(|was| was.meta.clone()) {
            meta = was;
        } else if deleted && file.is_new() {
            if let Some(beside) = beside(file)? {
                meta = beside;
            }
            notes.push(format!(
                "`{}` comes back with mode {:04o} and owner {}:{}: no journal knows those that it had",
                file.absolute().display(),
                meta.mode,
                meta.uid,
                meta.gid
            ));
        }
        metas.push(meta);
    }
    Ok((metas, notes))
}

/// Mode and owner of the first file beside it with the same extension.
fn beside(file: &Edited) -> Result<Option<Meta>> {
    let Some(parent) = RelPath::new(file.path.parent()) else { return Ok(None) };
    let extension = file.path.as_path().extension();
    for name in read::names(&file.root, &parent)? {
        let Some(path) = file.path.sibling(&name).filter(|p| p.as_path().extension() == extension) else {
            continue;
        };
        if let Found::File(seen) = read::read(&file.root, &path)? {
            return Ok(Some(Meta { xattrs: Vec::new(), ..seen.meta }));
        }
    }
    Ok(None)
}

impl Meta {
    fn default_file(uid: u32, gid: u32) -> Self {
        Self { mode: 0o644, uid, gid, xattrs: Vec::new() }
    }
}
