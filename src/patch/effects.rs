//! What changes besides the patched files: rows of RECORD, compiled bytecode. Looks, never writes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::{Builder, Edited};
use super::read::{self, Found, Seen};
use super::target::Ground;
use crate::dist;
use crate::model::{Distribution, Entry, RelPath};
use crate::pyenv::{Edit, Record, is_bytecode_of};

/// Adds to the plan what follows from the edited files.
///
/// # Errors
/// I/O errors.
pub fn add(builder: &mut Builder, edited: &[Edited], ground: &Ground<'_>) -> Result<()> {
    records(builder, edited, ground)?;
    for file in edited.iter().filter(|f| f.path.name().as_bytes().ends_with(b".py")) {
        bytecode(builder, file, edited)?;
    }
    let python = edited.iter().any(|f| f.path.name().as_bytes().ends_with(b".py"));
    if let Some(prefix) = (ground.facts.env)("PYTHONPYCACHEPREFIX").filter(|p| python && !p.is_empty()) {
        builder.notes.push(format!("PYTHONPYCACHEPREFIX is set: stale bytecode may lie in `{prefix}`"));
    }
    Ok(())
}

/// A distribution with its RECORD, read when first needed.
struct Installed<'a> {
    distribution: &'a Distribution,
    /// `None`: its metadata lies elsewhere, behind a link.
    path: Option<RelPath>,
    seen: Option<Looked>,
    /// What the patches themselves make of it.
    patched: Option<&'a Edited>,
    edits: Vec<(&'a [u8], Edit<'a>)>,
}

/// What a RECORD turned out to be.
enum Looked {
    File(Seen),
    Nothing,
    /// It is there, but can't be changed; why, in words.
    Unfit(String),
}

fn records(builder: &mut Builder, edited: &[Edited], ground: &Ground<'_>) -> Result<()> {
    for site in ground.site_packages {
        let mut installed: Vec<Installed<'_>> = ground
            .facts
            .distributions
            .iter()
            .filter(|d| d.site_packages == *site)
            .map(|distribution| {
                let below = distribution.dist_info.strip_prefix(site).ok();
                let path = below.and_then(|below| RelPath::new(below.join("RECORD")));
                let patched = edited.iter().find(|f| f.root == *site && Some(&f.path) == path.as_ref());
                Installed { distribution, path, seen: None, patched, edits: Vec::new() }
            })
            .collect();
        for file in edited.iter().filter(|f| f.root == *site && !f.was_unlisted()) {
            // The distribution that the recipe names first, so that seldom another RECORD is read.
            installed.sort_by_key(|d| file.distribution.as_ref() != Some(&d.distribution.name));
            let mut owner = None;
            for (n, candidate) in installed.iter_mut().enumerate() {
                if candidate.owns(builder, site, file)? {
                    owner = Some(n);
                    break;
                }
            }
            match owner.and_then(|n| installed.get_mut(n)) {
                Some(owner) => {
                    let edit = file.edit(owner.path.as_ref());
                    owner.edits.push((file.path.as_path().as_os_str().as_bytes(), edit));
                }
                None => builder.notes.push(format!("no RECORD lists `{}`: none was changed", file.path)),
            }
        }
        for distribution in installed {
            distribution.add(builder, site);
        }
    }
    for file in edited.iter().filter(|f| !ground.site_packages.contains(&f.root)) {
        builder.notes.push(format!(
            "`{}` was not installed by a wheel: there is no RECORD",
            file.absolute().display()
        ));
    }
    Ok(())
}

impl<'a> Installed<'a> {
    fn owns(&mut self, builder: &mut Builder, site: &Path, file: &Edited) -> Result<bool> {
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => look(site, self.path.as_ref())?,
        };
        let owns = match &seen {
            Looked::File(seen) => self.lists(seen, file),
            Looked::Nothing => false,
            Looked::Unfit(why) if files_of(self.distribution)?.iter().any(|path| is_about(path, file)) => {
                let record = dist::record(self.distribution);
                let text = format!("`{}`, which lists it, can't be changed: {why}", record.display());
                builder.stuck.push((file.absolute(), text));
                true
            }
            Looked::Unfit(_) => false,
        };
        self.seen = Some(seen);
        Ok(owns)
    }

    fn lists(&self, seen: &Seen, file: &Edited) -> bool {
        if file.old_record(self.path.as_ref()).is_some() {
            return true;
        }
        let path = file.path.as_path().as_os_str().as_bytes();
        let parent = file.path.parent().as_os_str().as_bytes();
        let hint = if file.is_new() { parent } else { path };
        if memchr::memmem::find(&seen.bytes, hint).is_none() {
            return false;
        }
        let Some(record) = Record::new(&seen.bytes) else { return false };
        record.has(path) || file.is_new() && !parent.is_empty() && record.has_below(parent)
    }

    fn add(self, builder: &mut Builder, site: &Path) {
        let (Some(Looked::File(seen)), Some(path)) = (self.seen, self.path) else { return };
        if self.edits.is_empty() {
            return;
        }
        if let Some(patched) = self.patched {
            return compare_patched(builder, patched, &self.edits);
        }
        let Some(content) = Record::new(&seen.bytes).map(|record| record.edited(&self.edits)) else { return };
        if content != seen.bytes {
            builder.change(site, &path, Some(seen), Some(content));
        }
    }
}

fn look(site: &Path, path: Option<&RelPath>) -> Result<Looked> {
    let Some(path) = path else {
        return Ok(Looked::Unfit("its directory is a symbolic link: replace it by a copy first".to_owned()));
    };
    Ok(match read::read(site, path)? {
        Found::File(seen) => Looked::File(seen),
        Found::Unfit(why) => Looked::Unfit(why),
        Found::Absent { .. } | Found::NoDirectory => Looked::Nothing,
    })
}

/// Through links: only to know whether a RECORD that is not changed would be wrong afterwards.
fn files_of(distribution: &Distribution) -> Result<Vec<PathBuf>> {
    Ok(dist::files(distribution)?.unwrap_or_default())
}

fn is_about(listed: &Path, file: &Edited) -> bool {
    let path = file.absolute();
    listed == path
        || file.is_new() && !file.path.parent().as_os_str().is_empty() && listed.parent() == path.parent()
}

/// A RECORD that is patched itself stays as the patch has it, or the patch would not be found there again. Whether that is
/// what the files are is told.
fn compare_patched(builder: &mut Builder, patched: &Edited, edits: &[(&[u8], Edit<'_>)]) {
    let Some(after) = &patched.after else { return };
    if Record::new(after).is_some_and(|record| record.edited(edits) != *after) {
        let text = "its rows are as the patch has them, which is not what the files are";
        builder.notes.push(format!("`{}`: {text}", patched.path));
    }
}

/// Removes what was compiled from the file: equal size in the same second leaves it in use (patching.md, 4.3).
fn bytecode(builder: &mut Builder, file: &Edited, edited: &[Edited]) -> Result<()> {
    let Some(cache) = RelPath::new(file.path.parent().join("__pycache__")) else { return Ok(()) };
    for name in read::names(&file.root, &cache)? {
        if !is_bytecode_of(name.as_bytes(), file.path.name().as_bytes()) {
            continue;
        }
        let Some(path) = RelPath::new(cache.as_path().join(&name)) else { continue };
        if edited.iter().any(|other| other.root == file.root && other.path == path) {
            continue;
        }
        match read::read(&file.root, &path)? {
            Found::File(seen) => {
                builder.change(&file.root, &path, Some(seen), None);
                if let Some(change) = builder.plan.changes.last_mut() {
                    debug_assert_eq!(change.after, Entry::Absent);
                    change.bytecode = true;
                }
            }
            Found::Unfit(why) => builder.notes.push(format!("stale bytecode `{path}` is left alone: {why}")),
            Found::Absent { .. } | Found::NoDirectory => {}
        }
    }
    Ok(())
}
