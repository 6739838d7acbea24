//! Journals that somebody else wrote: they may make the tool refuse, never make it write where it would not anyway.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use rocm_fixup::journal::{Ended, Record};
use rocm_fixup::model::{Change, Digest, Entry, FileEntry, Meta, Plan, RelPath, Source};

use crate::apply::{Site, place, split_pair};
use crate::cli::tool;
use crate::snapshot::{Snapshot, assert_same, snapshot};

/// A site with a finished run, and a file beside it that nobody may touch.
fn site() -> (Site, Snapshot) {
    let (site, plan) = split_pair();
    fs::write(site.path.parent().unwrap().join("secret"), "not yours").unwrap();
    let before = snapshot(site.path.parent().unwrap());
    site.run(plan);
    (site, before)
}

/// Writes a record with a right checksum, as a stranger would.
pub fn plant(path: &Path, body: &[u8]) {
    let head = format!("rocm-fixup-journal 1 {} {}\n", body.len(), Digest::of(body).to_hex());
    fs::write(path, [head.as_bytes(), body, b"\n"].concat()).unwrap();
}

fn call(site: &Site, args: &[&str]) -> Output {
    tool(args).arg("--site-packages").arg(&site.path).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn record(site: &Site, plan: Plan) -> Record {
    let run = site.journal().runs().unwrap().pop().unwrap();
    Record { plan, ..run.record }
}

/// A file's `before` of given bytes, kept in the journal as an object would be.
fn evil(bytes: &[u8]) -> Entry {
    let meta = Meta { mode: 0o4777, uid: 0, gid: 0, xattrs: Vec::new() };
    let digest = Some(Digest::of(bytes));
    Entry::File(FileEntry { size: bytes.len() as u64, digest, meta, source: Source::Bytes })
}

fn change(at: &str, before: Entry, after: Entry) -> Change {
    Change { at: place(at), before, after, seen: None, keeps: None, group: 0, bytecode: false }
}

#[test]
fn a_planted_record_never_reaches_outside_the_tree() {
    for root in ["/etc", "/", "..", "dots", "relative"] {
        let (site, _) = site();
        let outside = site.path.parent().unwrap().to_path_buf();
        let root = match root {
            ".." => outside.clone(),
            // By its components it lies below site-packages.
            "dots" => site.at(".."),
            other => PathBuf::from(other),
        };
        let plan = Plan {
            roots: vec![root],
            changes: vec![change("secret", evil(b"evil"), Entry::Absent)],
            ..Plan::default()
        };
        let body = serde_json::to_vec(&record(&site, plan)).unwrap();
        plant(&site.at(".rocm-fixup/0001.plan"), &body);
        let before = snapshot(&outside);
        for verb in ["undo", "dedup"] {
            let output = call(&site, &[verb]);
            assert!(matches!(code(&output), Some(0 | 1 | 3)), "{output:?}");
            assert_eq!(fs::read(outside.join("secret")).unwrap(), b"not yours");
        }
        assert_ne!(code(&call(&site, &["undo"])), Some(0));
        assert_same(&before, &snapshot(&outside));
    }
}

#[test]
fn paths_with_dots_or_roots_in_them_are_no_record() {
    let (site, _) = site();
    let record = record(&site, Plan { roots: vec![site.path.clone()], ..Plan::default() });
    let json = serde_json::to_string(&record).unwrap();
    for path in ["../secret", "/etc/passwd", "a/../../secret", "", ".", "a//b", "a/"] {
        let change =
            format!(r#"{{"at":{{"root":0,"path":"{path}"}},"before":"absent","after":"absent","group":0}}"#);
        let body = json.replace(r#""changes":[]"#, &format!(r#""changes":[{change}]"#));
        assert_ne!(body, json);
        plant(&site.at(".rocm-fixup/0001.plan"), body.as_bytes());
        let output = call(&site, &["undo"]);
        assert_eq!(code(&output), Some(3), "{path}: {output:?}");
        assert_eq!(RelPath::new(path), None);
    }
}

#[test]
fn a_path_that_is_not_as_recorded_is_left_alone() {
    let (site, _) = site();
    let bytes = b"evil";
    // The record says that the run removed a file; there is one now, which nobody may overwrite.
    let plan = Plan {
        roots: vec![site.path.clone()],
        changes: vec![change("core/x", evil(bytes), Entry::Absent)],
        ..Plan::default()
    };
    let body = serde_json::to_vec(&record(&site, plan)).unwrap();
    fs::create_dir_all(site.at(".rocm-fixup/objects")).unwrap();
    fs::write(site.at(".rocm-fixup/objects").join(Digest::of(bytes).to_hex()), bytes).unwrap();
    plant(&site.at(".rocm-fixup/0001.plan"), &body);
    let output = call(&site, &["undo"]);
    assert_eq!(code(&output), Some(3), "{output:?}");
    assert_eq!(fs::read(site.at("core/x")).unwrap(), b"library");
}

#[test]
fn a_journal_that_others_could_have_written_is_not_believed() {
    let (site, _) = site();
    let after = snapshot(&site.path);
    for (mode, owner) in [(0o777, None), (0o775, None), (0o755, Some(4242))] {
        let journal = site.at(".rocm-fixup");
        fs::set_permissions(&journal, fs::Permissions::from_mode(mode)).unwrap();
        if let Some(owner) = owner
            && std::os::unix::fs::chown(&journal, Some(owner), None).is_err()
        {
            continue;
        }
        for verb in ["undo", "status"] {
            let output = call(&site, &[verb]);
            assert_eq!(code(&output), Some(3), "{mode:o} {owner:?} {verb}: {output:?}");
        }
        fs::set_permissions(&journal, fs::Permissions::from_mode(0o755)).unwrap();
    }
    drop(std::os::unix::fs::chown(site.at(".rocm-fixup"), Some(0), None));
    assert_same(&after, &snapshot(&site.path));
}

/// In a directory that only root can write to, a file can be somebody else's all the same.
#[test]
fn a_record_that_others_could_have_written_is_not_believed() {
    let (site, _) = site();
    let us = rustix::process::geteuid().as_raw();
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mut after = snapshot(&site.path);
    for name in ["0001.plan", "0001.done"] {
        let file = site.at(".rocm-fixup").join(name);
        for (mode, owner) in [(0o666, us), (0o664, us), (0o646, us), (0o644, 4242)] {
            permit(&file, mode);
            if std::os::unix::fs::chown(&file, Some(owner), None).is_err() {
                continue;
            }
            for verb in ["undo", "status"] {
                let output = call(&site, &[verb]);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(code(&output), Some(3), "{name} {mode:o} {owner} {verb}: {output:?}");
                assert!(said.contains(&format!("{name}` could have been written by others")), "{said}");
            }
            std::os::unix::fs::chown(&file, Some(us), None).unwrap();
        }
        permit(&file, 0o644);
    }
    assert_same(&after, &snapshot(&site.path));
    // Who may write the whole tree may write its journal: `chmod -R g+w`, and `COPY --chown`.
    let all = |tool: &str, what: &str| {
        std::process::Command::new(tool).args(["-R", what]).arg(&site.path).status().unwrap().success()
    };
    assert!(all("chmod", "g+w"));
    assert_eq!(code(&call(&site, &["status"])), Some(0));
    assert!(all("chmod", "g-w"));
    if all("chown", "4242") {
        after = snapshot(&site.path);
        assert_eq!(code(&call(&site, &["status"])), Some(0));
        assert_same(&after, &snapshot(&site.path));
    }
}

/// Whatever is at a path of bytecode is removed or replaced: a record must not call other files so.
#[test]
fn only_what_lies_where_interpreters_put_it_is_bytecode() {
    let (site, _) = site();
    let bytes = b"evil";
    fs::create_dir_all(site.at(".rocm-fixup/objects")).unwrap();
    fs::write(site.at(".rocm-fixup/objects").join(Digest::of(bytes).to_hex()), bytes).unwrap();
    let (after, core) = (snapshot(&site.at("d")), snapshot(&site.at("core")));
    let pyc = "core/__pycache__/x.cpython-311.pyc";
    let others =
        ["core/x", "core/x.pyc", "core/__pycache__/x.py", "__pycache__/core/x.pyc", "core/__pycache__"];
    let mut wrong: Vec<Change> = others.iter().map(|at| change(at, evil(bytes), Entry::Absent)).collect();
    wrong.push(change(pyc, Entry::Absent, evil(bytes)));
    let ours = record(&site, Plan::default());
    let planted = |change: Change| {
        let changes = vec![Change { bytecode: true, ..change }];
        let plan = Plan { roots: vec![site.path.clone()], changes, ..Plan::default() };
        plant(
            &site.at(".rocm-fixup/0001.plan"),
            &serde_json::to_vec(&Record { plan, ..ours.clone() }).unwrap(),
        );
    };
    for change in wrong {
        let at = change.at.path.clone();
        planted(change);
        for verb in ["undo", "status"] {
            let output = call(&site, &[verb]);
            assert_eq!(code(&output), Some(3), "{at} {verb}: {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("compiled bytecode"), "{output:?}");
        }
        assert_same(&core, &snapshot(&site.at("core")));
    }
    planted(change(pyc, evil(bytes), Entry::Absent));
    assert_eq!(site.journal().runs().unwrap().len(), 1);
    assert_same(&after, &snapshot(&site.at("d")));
}

#[test]
fn a_journal_that_is_a_link_a_file_or_a_pipe_is_refused() {
    let (site, _) = site();
    let elsewhere = site.path.parent().unwrap().join("elsewhere");
    fs::rename(site.at(".rocm-fixup"), &elsewhere).unwrap();
    let kept = snapshot(&elsewhere);
    symlink(&elsewhere, site.at(".rocm-fixup")).unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(3));
    fs::remove_file(site.at(".rocm-fixup")).unwrap();
    fs::write(site.at(".rocm-fixup"), "a file").unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(3));
    fs::remove_file(site.at(".rocm-fixup")).unwrap();
    // The plan itself: a link, and a pipe that nobody writes to.
    fs::create_dir(site.at(".rocm-fixup")).unwrap();
    symlink(elsewhere.join("0001.plan"), site.at(".rocm-fixup/0001.plan")).unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(3));
    fs::remove_file(site.at(".rocm-fixup/0001.plan")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let pipe = site.at(".rocm-fixup/0001.plan");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(3));
    assert_same(&kept, &snapshot(&elsewhere));
}

#[test]
fn huge_deep_and_senseless_records_are_refused_without_a_panic() {
    let (site, _) = site();
    let after = snapshot(&site.at("d"));
    let plan = site.at(".rocm-fixup/0001.plan");
    let deep = "[".repeat(200_000);
    let numbers = r#"{"id":"0001","command":"x","started":"x","version":"x","site_packages":"/","plan":{"roots":[],"changes":[{"at":{"root":18446744073709551615,"path":"x"},"before":"absent","after":"absent","group":4294967295}]}}"#;
    for body in [&b""[..], b"null", b"{}", b"[]", deep.as_bytes(), numbers.as_bytes(), b"\xff\xfe"] {
        plant(&plan, body);
        for verb in ["undo", "status"] {
            assert_eq!(code(&call(&site, &[verb])), Some(3), "{verb}");
        }
    }
    // Larger than any record may be; sparse, so that only the length is there.
    fs::File::create(&plan).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(3));
    assert_same(&after, &snapshot(&site.at("d")));
}

#[test]
fn every_flip_and_cut_of_a_journals_files_is_noticed() {
    let (site, _) = site();
    for name in ["0001.plan", "0001.done"] {
        let path = site.at(".rocm-fixup").join(name);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(&path, &bytes).unwrap();
            assert!(site.journal().runs().is_err(), "{name}, byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(site.journal().runs().is_err(), "{name}, cut at {at}");
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(site.journal().runs().unwrap()[0].ended, Some(Ended::Complete));
}

#[test]
fn a_damaged_object_gives_no_content() {
    let site = Site::new(&[("p/a.py", "one\n")]);
    let mut plan = site.plan(vec![]);
    crate::apply::edit(&site, &mut plan, "p/a.py", "ONE\n");
    site.run(plan);
    let object = site.at(".rocm-fixup/objects").join(Digest::of(b"one\n").to_hex());
    fs::write(&object, "0ne\n").unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(1));
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"ONE\n");
    fs::write(&object, "one\n").unwrap();
    assert_eq!(code(&call(&site, &["undo"])), Some(0));
    assert_eq!(fs::read(site.at("p/a.py")).unwrap(), b"one\n");
}
