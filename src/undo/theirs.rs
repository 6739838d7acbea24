//! Files that a RECORD lists now which the run did not know, with the very content that is there: they may be another
//! release's own, as where it brings upstream what the patch had brought. Nobody can tell, so they are left.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::dist;
use crate::ground::Ground;
use crate::held::Seen;
use crate::pyenv::{Record, describes};

/// Of these changes those with such a file, each with the reason why it stays.
///
/// # Errors
/// When a RECORD or such a file can't be read.
pub fn theirs(ground: &Ground<'_>, members: &BTreeSet<usize>) -> anyhow::Result<BTreeMap<usize, String>> {
    let mut theirs = BTreeMap::new();
    if members.is_empty() {
        return Ok(theirs);
    }
    let changes = &ground.plan.changes;
    let known: HashSet<PathBuf> = changes.iter().map(|change| ground.plan.absolute(&change.at)).collect();
    let lasting = members.iter().filter(|index| !changes[**index].bytecode);
    let wanted: HashMap<PathBuf, usize> =
        lasting.map(|index| (ground.plan.absolute(&changes[*index].at), *index)).collect();
    let mut sites: BTreeSet<&Path> = ground.open_roots().map(PathBuf::as_path).collect();
    sites.insert(ground.journal.site_packages().path());
    for site in sites {
        let records = dist::records(site).with_context(|| format!("can't list `{}`", site.display()))?;
        for path in records.into_iter().filter(|path| !known.contains(path)) {
            let bytes =
                dist::read_record(&path).with_context(|| format!("can't read `{}`", path.display()))?;
            let Some(record) = bytes.as_deref().and_then(Record::new) else { continue };
            for (file, row) in record.rows() {
                let Some(index) = wanted.get(&site.join(OsStr::from_bytes(&file))) else { continue };
                if content(ground, *index)?.is_some_and(|content| describes(row, &content)) {
                    let why = format!("`{}` lists it as it is, and may have brought it", path.display());
                    theirs.insert(*index, why);
                }
            }
        }
    }
    Ok(theirs)
}

/// `None` where no file is.
fn content(ground: &Ground<'_>, index: usize) -> anyhow::Result<Option<Vec<u8>>> {
    let at = &ground.plan.changes[index].at;
    let doing = || format!("can't read `{}`", ground.plan.absolute(at).display());
    // What can't be looked at is judged by the step itself.
    let Ok(Seen::File { .. }) = ground.look(at) else { return Ok(None) };
    let mut content = Vec::new();
    let mut file = ground.dir(at).and_then(|dir| dir.open(at.path.name())).with_context(doing)?;
    file.read_to_end(&mut content).with_context(doing)?;
    Ok(Some(content))
}
