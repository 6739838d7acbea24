//! `patch --dry-run` says what the run then does: the same report, but for `dry_run`, where it is recorded, and that
//! `pending` is `applied` afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli::tool;
use crate::patch_cli::{Site, row};
use crate::patch_packages::fixtures;
use crate::snapshot::{assert_same, snapshot};

/// The report of a call, without what differs by design.
fn report(site: &Site, arguments: &[&str], dry: bool) -> Value {
    let mut command = tool(&["patch", "--format", "json"]);
    command.args(arguments).args(dry.then_some("--dry-run")).arg("--site-packages").arg(site.at(""));
    let output = command.output().unwrap();
    let mut json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["dry_run"] = Value::Null;
    json["journal"] = Value::Null;
    let made = json["exit_code"] == 0;
    let revert = arguments.contains(&"--revert");
    for patch in json["patches"].as_array_mut().unwrap() {
        if dry && made && !patch["files"].as_array().unwrap().is_empty() {
            done(&mut patch["state"], revert);
            patch["files"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|file| done(&mut file["state"], revert));
        }
    }
    json
}

fn done(state: &mut Value, revert: bool) {
    match (state.as_str().unwrap(), revert) {
        ("pending" | "partial", false) => *state = "applied".into(),
        ("applied" | "partial", true) => *state = "reverted".into(),
        _ => {}
    }
}

/// Applies twice, reverts twice, each time looking first. Gives the exit codes.
fn agree(site: &Site, arguments: &[&str]) -> Vec<u64> {
    let mut codes = Vec::new();
    for more in [&[][..], &[], &["--revert"], &["--revert"]] {
        let arguments = [arguments, more].concat();
        let before = snapshot(&site.at(""));
        let dry = report(site, &arguments, true);
        assert_same(&before, &snapshot(&site.at("")));
        let real = report(site, &arguments, false);
        assert_eq!(dry, real, "{arguments:?}");
        codes.push(real["exit_code"].as_u64().unwrap());
    }
    codes
}

/// Edits the installed files in a copy and makes one patch of all that came of it.
fn from_folder(site: &Site, edit: impl Fn(&Path)) -> PathBuf {
    let (a, b, folder) = (site.top().join("a"), site.top().join("b"), site.top().join("patches"));
    for copy in [&a, &b] {
        assert!(Command::new("cp").arg("-a").args([&site.at(""), copy]).status().unwrap().success());
    }
    fs::remove_dir_all(b.join("demo/__pycache__")).unwrap();
    fs::remove_dir_all(a.join("demo/__pycache__")).unwrap();
    edit(&b);
    fs::create_dir(&folder).unwrap();
    let diff = Command::new("diff").args(["-ruN", "a", "b"]).current_dir(site.top()).output().unwrap();
    fs::write(folder.join("p.patch"), diff.stdout).unwrap();
    folder
}

fn put(path: PathBuf, old: &str, new: &str) {
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(old));
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

const RECORD: &str = "demo-1.0.dist-info/RECORD";

#[test]
fn a_file_of_record_and_record_itself() {
    let other = row(b"other");
    type Edit<'a> = (&'a str, &'a dyn Fn(&Path));
    let edits: [Edit<'_>; 6] = [
        ("a file", &|b| put(b.join("demo/a.py"), "five", "FIVE")),
        ("a file made", &|b| fs::write(b.join("demo/new.py"), "new\n").unwrap()),
        ("a file deleted", &|b| fs::remove_file(b.join("demo/a.py")).unwrap()),
        ("METADATA", &|b| {
            put(b.join("demo-1.0.dist-info/METADATA"), "Metadata-Version: 2.1", "Metadata-Version: 2.2")
        }),
        ("RECORD, another row", &|b| {
            put(b.join("demo/b.py"), "five", "FIVE");
            put(b.join(RECORD), "METADATA,,", &format!("METADATA,{other}"));
        }),
        ("RECORD, the same row", &|b| {
            put(b.join("demo/a.py"), "five", "FIVE");
            let new = row(&fs::read(b.join("demo/a.py")).unwrap());
            let old = fs::read_to_string(b.join(RECORD)).unwrap().lines().next().unwrap().to_owned();
            put(b.join(RECORD), &old, &format!("demo/a.py,{new}"));
        }),
    ];
    for (name, edit) in edits {
        let site = Site::new();
        let before = fs::read_to_string(site.at(RECORD)).unwrap();
        let folder = from_folder(&site, edit);
        assert_eq!(agree(&site, &["--from", folder.to_str().unwrap()]), [0; 4], "{name}");
        assert_eq!(fs::read_to_string(site.at(RECORD)).unwrap(), before, "{name}");
    }
}

#[test]
fn a_row_that_the_patch_gets_wrong_stays_so_and_is_told() {
    let site = Site::new();
    let folder = from_folder(&site, |b| {
        put(b.join("demo/a.py"), "five", "FIVE");
        let old = fs::read_to_string(b.join(RECORD)).unwrap().lines().next().unwrap().to_owned();
        put(b.join(RECORD), &old, "demo/a.py,sha256=wrong,1");
    });
    let from = ["--from", folder.to_str().unwrap()];
    let dry = report(&site, &from, true);
    assert!(dry["notes"][0].as_str().unwrap().contains("which is not what the files are"), "{dry}");
    assert_eq!(agree(&site, &from), [0; 4]);
}

#[test]
fn what_is_refused() {
    let site = Site::new();
    let folder = from_folder(&site, |b| put(b.join("demo/a.py"), "five", "FIVE"));
    put(site.at("demo/a.py"), "four", "4");
    assert_eq!(agree(&site, &["--from", folder.to_str().unwrap()]), [3; 4]);
}

#[test]
fn the_recipes_patches_on_their_packages() {
    let packages = fixtures().join("packages");
    for version in ["0.1.7.post3", "0.1.8", "0.1.9", "0.1.12", "0.1.15"] {
        let site = Site::new();
        for (name, version, file, from) in [
            ("tile_kernels", "1.0.0", "tile_kernels", packages.join("tile_kernels")),
            (
                "tilelang",
                version,
                "tilelang/src/tl_templates/hip/hip_fp8.h",
                packages.join(format!("tilelang-{version}/hip_fp8.h")),
            ),
        ] {
            let info = site.at(&format!("{name}-{version}.dist-info"));
            fs::create_dir(&info).unwrap();
            fs::write(info.join("METADATA"), format!("Name: {name}\nVersion: {version}\n")).unwrap();
            fs::create_dir_all(site.at(file).parent().unwrap()).unwrap();
            assert!(Command::new("cp").arg("-r").args([&from, &site.at(file)]).status().unwrap().success());
            let rows: String = ["", "/__init__.py", "/mhc/post_kernel.py", "/modeling/__init__.py"]
                .map(|below| format!("{file}{below}"))
                .iter()
                .filter_map(|path| Some(format!("{path},{}\n", row(&fs::read(site.at(path)).ok()?))))
                .collect();
            fs::write(info.join("RECORD"), format!("{rows}{name}-{version}.dist-info/RECORD,,\n")).unwrap();
        }
        let before = snapshot(&site.at("tile_kernels"));
        assert_eq!(agree(&site, &[]), [0; 4], "{version}");
        assert_same(&before, &snapshot(&site.at("tile_kernels")));
    }
}
