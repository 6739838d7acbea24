//! What changes besides the patched files: rows of RECORD, compiled bytecode. Looks, never writes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Result;

use super::build::{Builder, Edited};
use super::read::{self, Found, Seen};
use super::target::Ground;
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
    path: RelPath,
    seen: Option<Option<Seen>>,
    /// What the patches themselves make of it.
    patched: Option<&'a Edited>,
    edits: Vec<(&'a [u8], Edit<'a>)>,
}

fn records(builder: &mut Builder, edited: &[Edited], ground: &Ground<'_>) -> Result<()> {
    for site in ground.site_packages {
        let mut installed: Vec<Installed<'_>> = ground
            .facts
            .distributions
            .iter()
            .filter(|d| d.site_packages == *site)
            .filter_map(|distribution| {
                let path = RelPath::new(distribution.dist_info.strip_prefix(site).ok()?.join("RECORD"))?;
                let patched = edited.iter().find(|f| f.root == *site && f.path == path);
                Some(Installed { distribution, path, seen: None, patched, edits: Vec::new() })
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
                    let edit = file.edit(&owner.path);
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
        if self.seen.is_none() {
            self.seen = Some(match read::read(site, &self.path)? {
                Found::File(seen) => Some(seen),
                Found::Unfit(why) => {
                    builder.notes.push(format!("`{}` is left alone: {why}", self.path));
                    None
                }
                Found::Absent { .. } | Found::NoDirectory => None,
            });
        }
        let Some(Some(seen)) = &self.seen else { return Ok(false) };
        if file.old_record(&self.path).is_some() {
            return Ok(true);
        }
        let path = file.path.as_path().as_os_str().as_bytes();
        let parent = file.path.parent().as_os_str().as_bytes();
        let hint = if file.is_new() { parent } else { path };
        if memchr::memmem::find(&seen.bytes, hint).is_none() {
            return Ok(false);
        }
        let Some(record) = Record::new(&seen.bytes) else { return Ok(false) };
        Ok(record.has(path) || file.is_new() && !parent.is_empty() && record.has_below(parent))
    }

    fn add(self, builder: &mut Builder, site: &Path) {
        let Some(Some(seen)) = self.seen else { return };
        if self.edits.is_empty() {
            return;
        }
        if let Some(patched) = self.patched {
            return compare_patched(builder, patched, &self.edits);
        }
        let Some(content) = Record::new(&seen.bytes).map(|record| record.edited(&self.edits)) else { return };
        if content != seen.bytes {
            builder.change(site, &self.path, Some(seen), Some(content));
        }
    }
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
