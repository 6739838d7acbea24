//! One outcome, one exit code: in each format, to stdout or to a file, loud or quiet. The code in the JSON document is
//! the process's, and stdout is never empty where JSON was asked for.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::python_support::{python, venv};
use crate::sdk_tree::{Builder, Form, SdkTree};

const FORMATS: [&[&str]; 7] = [
    &[],
    &["--format", "human"],
    &["--format", "json"],
    &["--format", "github"],
    &["--output", "human", "--output", "json=report.json"],
    &["--output", "github=summary.md"],
    &["--log-format", "json", "--format", "json"],
];

pub fn run(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    command.args(arguments).current_dir(at).env_remove("GITHUB_STEP_SUMMARY");
    command.output().unwrap()
}

/// The same command in each format and loudness, against a tree that it doesn't change.
fn always(code: i32, at: &Path, command: &[&str]) {
    for format in FORMATS {
        for quiet in [&[][..], &["-q"]] {
            let arguments = [command, format, quiet].concat();
            let done = run(at, &arguments);
            let (stdout, stderr) =
                (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            assert_eq!(done.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
            let file = at.join("report.json");
            let documents = [
                format.ends_with(&["json"]).then(|| stdout.to_string()),
                format.contains(&"json=report.json").then(|| std::fs::read_to_string(&file).unwrap()),
            ];
            for document in documents.into_iter().flatten() {
                let report: serde_json::Value = serde_json::from_str(&document).unwrap();
                assert_eq!(report["exit_code"], code, "{arguments:?}");
                assert_eq!(report["error"].is_object(), stderr.contains("error"), "{arguments:?}: {stderr}");
            }
            if format.contains(&"--log-format") {
                for line in stderr.lines() {
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
                }
            }
            if !quiet.is_empty() && code == 0 {
                assert_eq!(stderr, "", "{arguments:?}");
                assert!(!stdout.contains(": ok"), "{arguments:?}");
            }
            let _ = std::fs::remove_file(file);
            let _ = std::fs::remove_file(at.join("summary.md"));
        }
    }
}

fn tree(builder: Builder, form: Form) -> (TempDir, SdkTree) {
    let dir = TempDir::new().unwrap();
    let tree = builder.build(dir.path());
    tree.reshape(form);
    (dir, tree)
}

#[test]
fn done_and_nothing_to_do_are_0_and_pending_is_4() {
    let (dir, tree) = tree(Builder::standard(), Form::Split);
    let site = ["--site-packages", tree.site_packages.to_str().unwrap()];
    let with = |words: &[&'static str]| [words, &site[..]].concat();
    always(4, dir.path(), &with(&["status"]));
    always(0, dir.path(), &with(&["dedup", "--dry-run"]));
    always(0, dir.path(), &with(&["locate"]));
    always(0, dir.path(), &with(&["undo"]));
    assert_eq!(run(dir.path(), &with(&["dedup"])).status.code(), Some(0));
    always(0, dir.path(), &with(&["status"]));
    always(0, dir.path(), &with(&["dedup"]));
    always(0, dir.path(), &with(&["undo", "--dry-run"]));
}

#[test]
fn a_refusal_is_3() {
    let builder = Builder::standard()
        .line("core/lib/libX.so.1 library libX.so.1 1")
        .line("devel/lib/libX.so.1 library libX.so.1 2");
    let (dir, tree) = tree(builder, Form::Split);
    let site = ["--site-packages", tree.site_packages.to_str().unwrap()];
    always(3, dir.path(), &[&["dedup"], &site[..]].concat());
    always(3, dir.path(), &[&["status"], &site[..]].concat());
    let (dir, tree) = self::tree(SdkTree::builder().line("torch/__init__.py text x"), Form::Split);
    let site = ["--site-packages", tree.site_packages.to_str().unwrap()];
    always(0, dir.path(), &[&["dedup"], &site[..]].concat());
    always(3, dir.path(), &[&["dedup", "--require-sdk"], &site[..]].concat());
}

/// A virtual environment in which checks can run.
fn environment() -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let (command, site) = venv(&python(), &dir.path().canonicalize().unwrap().join("venv"));
    std::fs::write(site.join("works.py"), "").unwrap();
    std::fs::write(site.join("fails.py"), "import nothing_of_that_name").unwrap();
    (dir, command.to_str().unwrap().to_owned())
}

#[test]
fn a_failed_check_is_4_and_a_name_without_anything_behind_it_is_no_success() {
    let (dir, python) = environment();
    let with = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    for (code, words) in [
        (0, with(&["smoke", "works"])),
        (4, with(&["smoke", "works", "fails"])),
        (4, with(&["smoke", "no_such_module"])),
        (4, with(&["require", "installed torch"])),
        (4, with(&["require", "glibc>=99"])),
        (0, with(&["require", "glibc>=2.1"])),
        (0, with(&["run"])),
        (0, with(&["status"])),
        (0, with(&["patch"])),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        always(code, dir.path(), &[&words[..], &["--python", &python]].concat());
    }
    let done = run(dir.path(), &["patch", "no-such-patch", "--python", &python]);
    assert!(![Some(0), None].contains(&done.status.code()), "{done:?}");
}

#[test]
fn a_recipe_that_cannot_be_read_is_2_and_one_that_is_not_there_is_no_success() {
    let (dir, python) = environment();
    std::fs::write(dir.path().join("bad.toml"), "name = 'x'\ndescription = 'y'\n[[smok]]\n").unwrap();
    for verb in ["run", "status", "smoke", "require", "patch"] {
        always(2, dir.path(), &[verb, "--recipe", "bad.toml", "--python", &python]);
        let done = run(dir.path(), &[verb, "--recipe", "no-such-recipe", "--python", &python]);
        assert!(![Some(0), None].contains(&done.status.code()), "{done:?}");
    }
}

#[test]
fn a_patch_that_does_not_fit_is_3() {
    let (dir, python) = environment();
    std::fs::create_dir(dir.path().join("patches")).unwrap();
    let patch = "--- a/works.py\n+++ b/works.py\n@@ -1 +1 @@\n-other\n+text\n";
    std::fs::write(dir.path().join("patches/one.patch"), patch).unwrap();
    always(3, dir.path(), &["patch", "--from", "patches", "--python", &python]);
    always(3, dir.path(), &["patch", "--from", "patches", "--dry-run", "--python", &python]);
}

#[test]
fn what_the_job_needs_and_has_not_is_1() {
    let dir = TempDir::new().unwrap();
    always(1, dir.path(), &["status", "--site-packages", "/no/such/directory"]);
    always(1, dir.path(), &["status", "--python", "/bin/true"]);
    always(1, dir.path(), &["undo", "--site-packages", ".", "no-such-run"]);
}

#[test]
fn a_report_that_cannot_be_delivered_is_never_success() {
    let (dir, tree) = tree(Builder::standard(), Form::HardLinks);
    let site = ["locate", "--site-packages", tree.site_packages.to_str().unwrap()];
    let done = run(dir.path(), &[&site[..], &["--output", "json=/no/such/directory/x"]].concat());
    assert_eq!(done.status.code(), Some(1));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    assert_eq!(command.args(site).stdout(full).output().unwrap().status.code(), Some(1));
}

/// Those that docs/json.md names, and no other.
#[test]
fn each_command_with_a_report_gives_it_as_json() {
    use clap::CommandFactory as _;
    let (dir, python) = environment();
    let text = std::fs::read_to_string("docs/json.md").unwrap();
    let sentence = text.split("It is the report of ").nth(1).unwrap().split('.').next().unwrap();
    let documented: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    for command in rocm_fixup::cli::Cli::command().get_subcommands() {
        let name = command.get_name();
        let others: &[&str] = match name {
            "recipe" => &["list"],
            "completions" => &["bash"],
            _ => &[],
        };
        let words = [&[name], others, &["--format", "json", "--python", &python]].concat();
        let done = run(dir.path(), &words);
        let report = serde_json::from_slice::<serde_json::Value>(&done.stdout);
        let told = report.is_ok_and(|report| report["command"] == name);
        assert_eq!(told, documented.contains(&name), "{name}: {done:?}");
    }
}

#[test]
fn usage_is_2_and_says_what_was_meant() {
    let dir = TempDir::new().unwrap();
    for arguments in [
        &["dedupe"][..],
        &[],
        &["dedup", "--dry"],
        &["dedup", "--output", "yaml"],
        &["dedup", "--output", "json="],
        &["dedup", "--format", "json", "--output", "json"],
        &["undo", "--all", "1"],
        &["smoke", "json", "--timeout", "0"],
        &["smoke", "json", "--timeout", "86401"],
        &["smoke", "--preload", "json"],
        &["smoke", "--libraries", "--preload", "json"],
    ] {
        let done = run(dir.path(), arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
    let done = run(dir.path(), &["dedupe"]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("a similar subcommand exists: 'dedup'"));
    let done = run(dir.path(), &["smoke", "json", "--timeout", "0"]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("0 is not in 1..=86400"));
}
