//! Whether a recipe says of its patch files what they are: which files they change, and as far as that is in them, sizes
//! and hashes. Pure: the bytes are given.

use toml::de::DeTable;

use super::check::Checker;
use super::mistake::Mistake;
use super::{FileHashes, Recipe};
use crate::error::message;
use crate::patch::lint::{Origin, lint};
use crate::patch::parse::{FilePatch, Kind, Strip, parse};
use crate::patch::sha::Sha256;
use crate::patch::whole::{Side, sides};

/// All mistakes about patch files in a recipe that is right by itself. `bytes` gives the content of a patch file.
#[must_use]
pub fn check_patches(
    text: &str,
    recipe: &Recipe,
    bytes: &dyn Fn(&str) -> anyhow::Result<Vec<u8>>,
    origin: Origin,
) -> Vec<Mistake> {
    let (tree, _) = DeTable::parse_recoverable(text);
    let mut checker = Checker::new(text, tree.get_ref());
    for (p, patch) in recipe.patch.iter().enumerate() {
        for (v, variant) in patch.variant.iter().enumerate() {
            let (p, v) = (p.to_string(), v.to_string());
            let own = ["patch", &p, "variant", &v, "file"];
            let (file, place) = match (&variant.file, &patch.file) {
                (Some(file), _) => (file, &own[..]),
                (None, Some(file)) => (file, &["patch", p.as_str(), "file"][..]),
                (None, None) => continue,
            };
            let content = match bytes(file) {
                Ok(content) => content,
                Err(error) => {
                    checker.mistake(place, message(&error));
                    continue;
                }
            };
            let linted = lint(&content, origin);
            let parsed =
                linted.as_ref().map_err(Clone::clone).and_then(|l| parse(l, Strip::Exactly(patch.strip)));
            match parsed {
                Ok(parsed) => files(&mut checker, &own[..4], file, &parsed, &variant.files),
                Err(mistake) => checker.mistake(place, format!("can't use `{file}`: {mistake}")),
            }
        }
    }
    checker.sorted()
}

/// The files of one variant and those of its patch.
fn files(
    checker: &mut Checker<'_>,
    variant: &[&str],
    file: &str,
    parsed: &[FilePatch<'_>],
    named: &[FileHashes],
) {
    let is =
        |patch: &FilePatch<'_>, hashes: &FileHashes| patch.path.as_path().as_os_str() == hashes.path.as_str();
    let list = [variant, &["files"]].concat();
    for patch in parsed.iter().filter(|patch| !named.iter().any(|hashes| is(patch, hashes))) {
        checker.mistake(&list, format!("`{file}` changes `{}` too", patch.path));
    }
    for (n, hashes) in named.iter().enumerate() {
        let n = n.to_string();
        let place = [&list[..], &[n.as_str()]].concat();
        match parsed.iter().find(|patch| is(patch, hashes)) {
            Some(patch) => one(checker, &place, file, patch, hashes),
            None => {
                let place = [&place[..], &["path"]].concat();
                checker.mistake(&place, format!("`{file}` doesn't change `{}`", hashes.path));
            }
        }
    }
}

fn one(checker: &mut Checker<'_>, place: &[&str], file: &str, patch: &FilePatch<'_>, named: &FileHashes) {
    let (before, after) = sides(patch);
    let verb = match patch.kind {
        Kind::Create(_) => "makes",
        Kind::Delete => "deletes",
        Kind::Modify => "changes",
    };
    for (key, side, hash) in [("before", &before, named.before), ("after", &after, named.after)] {
        let at = [place, &[key]].concat();
        match (side, hash) {
            (Side::Absent, Some(_)) => {
                checker.mistake(&at, format!("`{file}` {verb} the file: there is none {key} it"));
            }
            (Side::Whole(_) | Side::Part(_), None) => {
                checker.mistake(place, format!("missing key `{key}`: `{file}` {verb} the file"));
            }
            (Side::Whole(content), Some(hash)) if Sha256::of(content) != hash => {
                checker.mistake(&at, format!("by `{file}` it is {}", Sha256::of(content)));
            }
            _ => {}
        }
    }
    let Some(size) = named.size else { return };
    let at = [place, &["size"]].concat();
    match before {
        Side::Absent => checker.mistake(&at, format!("`{file}` makes the file: there is none before it")),
        Side::Whole(content) if content.len() as u64 != size => {
            checker.mistake(&at, format!("by `{file}` it is {}", content.len()));
        }
        Side::Part(least) if (least as u64) > size => {
            checker.mistake(&at, format!("`{file}` alone holds {least} bytes of the file"));
        }
        _ => {}
    }
}
