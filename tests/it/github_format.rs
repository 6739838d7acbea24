//! `--format github` against an image that wants to give orders to the runner: file names, link targets and modules that
//! print workflow commands. The reader here does what the runner does: trims a line, and obeys `::name …::` at its start
//! and `##[name]` anywhere.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::python_support::{python, venv};
use crate::sdk_tree::{Builder, Form, SdkTree};

/// What a runner would obey in a log.
fn orders(log: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let line = line.trim_start();
        let command = line.starts_with("::") && line[2..].contains("::");
        (command || line.contains("##[")).then(|| line.to_owned())
    };
    log.split(['\n', '\r']).filter_map(of_line).collect()
}

/// A conflict in a file whose name is an order, beside enough sound ones.
fn hostile() -> (TempDir, SdkTree) {
    let dir = TempDir::new().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Split);
    for name in
        ["::stop-commands::x.so.1", "a\n::error::b.so.1", "##[error]c.so.1", "d\r::set-env name=X::.so"]
    {
        for (seed, owner) in [("1", "core"), ("2", "devel")] {
            tree.make(&format!("{owner}/lib/plain.so.1 library plain.so.1 {seed}"));
            let lib = tree.path(&format!("{owner}/lib"));
            std::fs::rename(lib.join("plain.so.1"), lib.join(name)).unwrap();
        }
    }
    (dir, tree)
}

fn said(site: &Path, arguments: &[&str], summary: Option<&Path>) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    command.args(arguments).arg("--site-packages").arg(site).env_remove("GITHUB_STEP_SUMMARY");
    summary.inspect(|file| {
        command.env("GITHUB_STEP_SUMMARY", file);
    });
    let done = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code())
}

#[test]
fn no_format_carries_an_order_of_the_image() {
    let (_dir, tree) = hostile();
    for format in ["human", "json"] {
        for more in [&["-v", "--no-truncate"][..], &["--log-format", "json"]] {
            let arguments = [&["dedup", "--dry-run", "--format", format], more].concat();
            let (stdout, stderr, code) = said(&tree.site_packages, &arguments, None);
            assert_eq!(code, Some(3), "{stderr}");
            assert_eq!(orders(&stdout), Vec::<String>::new(), "{format}");
            assert_eq!(orders(&stderr), Vec::<String>::new(), "{format}");
            assert!(stdout.contains("stop-commands"), "{stdout}");
        }
    }
    let missing = "/no/##[error]such\n::error::place";
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    let done = command.args(["status", "--python", missing]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr, code) = (text(done.stdout), text(done.stderr), done.status.code());
    assert_eq!((code, orders(&stdout), orders(&stderr)), (Some(1), vec![], vec![]), "{stderr}");
}

#[test]
fn the_only_orders_are_ours() {
    let (dir, tree) = hostile();
    let summary = dir.path().join("summary.md");
    std::fs::write(&summary, "before\n").unwrap();
    let (stdout, stderr, code) = said(&tree.site_packages, &["status", "--format", "github"], Some(&summary));
    assert_eq!(code, Some(3));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(lines[0].starts_with("::error title=rocm-fixup status%3A content::"), "{stdout}");
    assert!(lines[0].ends_with("%0Aand 3 more, in the step summary"), "{stdout}");
    assert!(
        lines[1].starts_with("::warning title=rocm-fixup status%3A pending::12 library names"),
        "{stdout}"
    );
    assert!(!stdout.contains("##["));
    assert_eq!(orders(&stderr), Vec::<String>::new());
    let table = std::fs::read_to_string(&summary).unwrap();
    assert!(table.starts_with("before\n"), "the summary is added to: {table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("| error | content | ")).count(), 4, "{table}");
    assert_eq!(orders(&table), Vec::<String>::new());
}

#[test]
fn a_module_that_prints_orders_is_only_quoted() {
    let dir = TempDir::new().unwrap();
    let (python, site) = venv(&python(), &dir.path().canonicalize().unwrap().join("venv"));
    let text = "::error::x\\n  ::stop-commands::token\\n##[error]y\\r::set-env name=PATH::/tmp\\n";
    let prints =
        format!("import sys\nfor f in (sys.stdout, sys.stderr):\n    f.write('{text}'); f.flush()\n");
    std::fs::write(site.join("raises.py"), format!("{prints}raise ImportError('{text}')\n")).unwrap();
    std::fs::write(site.join("dies.py"), format!("{prints}import os\nos.abort()\n")).unwrap();
    std::fs::write(site.join("works.py"), &prints).unwrap();
    let summary = dir.path().join("summary.md");
    for format in ["human", "json", "github"] {
        for log in ["text", "json"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
            command.args(["smoke", "works", "raises", "dies", "-v", "--no-truncate", "--format", format]);
            command.args(["--log-format", log, "--python"]).arg(&python).env("GITHUB_STEP_SUMMARY", &summary);
            let done = command.output().unwrap();
            assert_eq!(done.status.code(), Some(4));
            let stdout = String::from_utf8(done.stdout).unwrap();
            let stderr = String::from_utf8(done.stderr).unwrap();
            let ours =
                |line: &String| format == "github" && line.starts_with("::error title=rocm-fixup smoke%3A ");
            let foreign: Vec<String> = orders(&stdout).into_iter().filter(|line| !ours(line)).collect();
            assert_eq!((foreign, orders(&stderr)), (vec![], vec![]), "{format}");
            assert!(stdout.contains("stop-commands"), "it is told all the same: {stdout}");
            if format == "github" {
                assert_eq!(stdout.lines().count(), 2, "{stdout}");
            }
        }
    }
    assert_eq!(orders(&std::fs::read_to_string(summary).unwrap()), Vec::<String>::new());
}

#[test]
fn a_sound_image_has_no_annotation_and_a_missing_summary_is_said_once() {
    let dir = TempDir::new().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Symlinks);
    let arguments = ["status", "--format", "github"];
    let (stdout, stderr, code) = said(&tree.site_packages, &arguments, None);
    assert_eq!((&*stdout, code), ("", Some(0)));
    assert_eq!(stderr.matches("GITHUB_STEP_SUMMARY").count(), 1, "{stderr}");
}
