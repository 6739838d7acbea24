//! What version 0.1 wrote, later versions must still read: journals and recipes as files that never change.
//! `BLESS=1` makes the ones that are missing, and never rewrites one.

use std::fs;
use std::path::{Path, PathBuf};

use rocm_fixup::journal::{Ended, Record, parse};
use rocm_fixup::model::{Digest, Entry, FileEntry, Source};
use rocm_fixup::recipe::read;

fn fixture(name: &str, made: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats").join(name);
    if std::env::var_os("BLESS").is_some() && !path.exists() {
        fs::write(&path, made()).unwrap();
    }
    fs::read(&path).unwrap()
}

fn framed(body: &[u8]) -> Vec<u8> {
    let head = format!("rocm-fixup-journal 1 {} {}\n", body.len(), Digest::of(body).to_hex());
    [head.as_bytes(), body, b"\n"].concat()
}

#[test]
fn journals_of_0_1_are_understood() {
    let plan = fixture("journal-1.plan", || from_corpus("plan"));
    let record: Record = parse(&plan).unwrap();
    assert_eq!((record.id.as_str(), record.command.as_str()), ("0001", "dedup"));
    assert_eq!(record.plan.changes.len(), 3);
    for change in &record.plan.changes {
        assert!(matches!(change.after, Entry::Symlink { .. }) && matches!(change.before, Entry::File(_)));
        assert!(change.seen.is_some() && change.keeps.is_some());
    }
    let done = fixture("journal-1.done", || framed(br#""complete""#));
    assert_eq!(parse::<Ended>(&done).unwrap(), Ended::Complete);
}

/// The body of a journal of the fuzzing corpus, with its head.
fn from_corpus(name: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/journal").join(name);
    framed(fs::read(corpus).unwrap().trim_ascii_end())
}

#[test]
fn journals_of_0_1_with_turned_links_device_files_and_patches_are_understood() {
    let merged: Record = parse(&fixture("journal-1-merged.plan", || from_corpus("merged"))).unwrap();
    let of = |entry: &Entry| match entry {
        Entry::Absent => "absent",
        Entry::Symlink { .. } => "symlink",
        Entry::File(FileEntry { source: Source::Bytes, .. }) => "bytes",
        Entry::File(FileEntry { source: Source::CopyOf(_), .. }) => "copy",
        Entry::File(FileEntry { source: Source::LinkTo(_), .. }) => "link",
        Entry::File(FileEntry { source: Source::Refresh, .. }) => "refresh",
    };
    let turns = |record: &Record| -> Vec<_> {
        record.plan.changes.iter().map(|change| (of(&change.before), of(&change.after))).collect()
    };
    let merges = [("link", "symlink"), ("copy", "symlink")];
    let turned = [("symlink", "link"), ("link", "symlink")];
    let device = [("link", "refresh"), ("copy", "link")];
    assert_eq!(turns(&merged), [merges, turned, device].concat());
    let patched: Record = parse(&fixture("journal-1-patched.plan", || from_corpus("patched"))).unwrap();
    assert_eq!(turns(&patched), [("bytes", "bytes"), ("bytes", "absent"), ("absent", "bytes")]);
    let patch = &patched.plan.patches[0];
    assert_eq!((patch.name.as_str(), patch.reverted, patch.files.len()), ("x", false, 3));
}

#[test]
fn recipes_of_0_1_are_understood() {
    let text = fixture("recipe-1.toml", || rocm_fixup::recipe::embedded::RECIPES[0].1.as_bytes().to_vec());
    let recipe = read(&String::from_utf8(text).unwrap()).unwrap();
    assert_eq!(recipe.name, "miles-rocm10");
    assert_eq!((recipe.patch.len(), recipe.require.len(), recipe.smoke.len()), (2, 3, 1));
}

/// Programs that read today's schema must be able to read yesterday's reports.
#[test]
fn reports_of_0_1_are_valid() {
    let report: serde_json::Value = serde_json::from_slice(&fixture("report-1.json", Vec::new)).unwrap();
    let schema = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/report-1.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_slice(&schema).unwrap()).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    for part in ["dedup", "patches", "checks", "journal", "next"] {
        assert!(!report[part].is_null(), "the fixture has no {part}");
    }
}
