//! `patch` as people call it: plain patches on an installed package, its RECORD and bytecode, two calls at once, full
//! disks. Cases 15, 17, 21, 22 and 48 to 51 of patching.md, where the applier must show them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use sha2::Digest as _;

use crate::cli::tool;
use crate::snapshot::{assert_same, snapshot};

const SOURCE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

/// A site-packages directory with `demo` 1.0 installed, and folders of patches beside it.
pub struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(site.at("demo/__pycache__")).unwrap();
        fs::create_dir_all(site.at("demo-1.0.dist-info")).unwrap();
        fs::write(site.at("demo/a.py"), SOURCE).unwrap();
        fs::write(site.at("demo/b.py"), SOURCE).unwrap();
        fs::write(site.at("demo/__pycache__/a.cpython-311.pyc"), "compiled").unwrap();
        fs::write(
            site.at("demo-1.0.dist-info/METADATA"),
            "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        )
        .unwrap();
        let rows = ["demo/a.py", "demo/b.py"].map(|path| format!("{path},{}\r\n", row(SOURCE.as_bytes())));
        let record = rows.concat() + "demo-1.0.dist-info/METADATA,,\r\ndemo-1.0.dist-info/RECORD,,\r\n";
        fs::write(site.at("demo-1.0.dist-info/RECORD"), record).unwrap();
        site
    }

    pub fn top(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.top().join("site-packages").join(path)
    }

    /// A folder with one patch that puts `new` for `old` in `file`.
    pub fn patch(&self, name: &str, file: &str, old: &str, new: &str) -> PathBuf {
        self.patch_to(name, file, &SOURCE.replace(old, new))
    }

    /// A folder with one patch that makes `after` of `file`.
    pub fn patch_to(&self, name: &str, file: &str, after: &str) -> PathBuf {
        let folder = self.top().join(name);
        fs::create_dir_all(&folder).unwrap();
        let (a, b) = (self.top().join("a"), self.top().join("b"));
        fs::write(&a, fs::read_to_string(self.at(file)).unwrap()).unwrap();
        fs::write(&b, after).unwrap();
        let labels = [format!("--label=a/{file}"), format!("--label=b/{file}")];
        let diff = Command::new("diff").arg("-u").args(&labels).args([&a, &b]).output().unwrap();
        fs::write(folder.join(format!("{name}.patch")), diff.stdout).unwrap();
        folder
    }

    pub fn call(&self, folder: &Path, more: &[&str]) -> Command {
        let mut command = tool(&["patch", "--format", "json", "--from"]);
        command.arg(folder).args(more).arg("--site-packages").arg(self.at(""));
        command
    }

    pub fn run(&self, folder: &Path, more: &[&str]) -> Output {
        self.call(folder, more).output().unwrap()
    }
}

pub fn row(bytes: &[u8]) -> String {
    format!("sha256={},{}", BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(bytes)), bytes.len())
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub fn state(output: &Output) -> String {
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["patches"][0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn applied_once_already_twice_reverted_to_the_byte() {
    let site = Site::new();
    let folder = site.patch("p", "demo/a.py", "five", "FIVE");
    let before = snapshot(&site.top());
    let first = site.run(&folder, &[]);
    assert_eq!((code(&first), state(&first).as_str()), (0, "applied"));
    let patched = SOURCE.replace("five", "FIVE");
    assert_eq!(fs::read_to_string(site.at("demo/a.py")).unwrap(), patched);
    let record = fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap();
    assert!(record.starts_with(&format!("demo/a.py,{}\r\ndemo/b.py,", row(patched.as_bytes()))), "{record}");
    assert!(!site.at("demo/__pycache__/a.cpython-311.pyc").exists());
    let after = snapshot(&site.top());
    let second = site.run(&folder, &[]);
    assert_eq!((code(&second), state(&second).as_str()), (0, "already"));
    assert_same(&after, &snapshot(&site.top()));
    let reverted = site.run(&folder, &["--revert"]);
    assert_eq!((code(&reverted), state(&reverted).as_str()), (0, "reverted"));
    assert_eq!(fs::read_to_string(site.at("demo/a.py")).unwrap(), SOURCE);
    let record = fs::read_to_string(site.at("demo-1.0.dist-info/RECORD")).unwrap();
    assert!(record.starts_with(&format!("demo/a.py,{}\r\n", row(SOURCE.as_bytes()))), "{record}");
    let undone = tool(&["undo", "--all", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&undone), 0);
    assert_same(&before, &snapshot(&site.top()));
}

#[test]
fn case_17_21_22_shared_read_only_and_odd_modes_are_kept() {
    let site = Site::new();
    fs::hard_link(site.at("demo/a.py"), site.top().join("cache")).unwrap();
    fs::set_permissions(site.at("demo/a.py"), fs::Permissions::from_mode(0o444)).unwrap();
    let set =
        Command::new("setfattr").args(["-n", "user.note", "-v", "kept"]).arg(site.at("demo/a.py")).status();
    let has_attributes = set.is_ok_and(|status| status.success());
    let old = fs::metadata(site.at("demo/a.py")).unwrap().mtime_nsec();
    let output = site.run(&site.patch("p", "demo/a.py", "five", "FIVE"), &[]);
    assert_eq!(code(&output), 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("was shared"));
    assert_eq!(fs::read_to_string(site.top().join("cache")).unwrap(), SOURCE, "uv's cache is untouched");
    let meta = fs::metadata(site.at("demo/a.py")).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o444);
    assert_ne!(meta.mtime_nsec(), old, "a fresh mtime");
    if has_attributes {
        let kept = Command::new("getfattr").args(["-n", "user.note"]).arg(site.at("demo/a.py")).output();
        assert!(kept.unwrap().status.success(), "extended attributes are kept");
    }
}

#[test]
fn record_itself_may_be_a_hard_link() {
    let site = Site::new();
    fs::hard_link(site.at("demo-1.0.dist-info/RECORD"), site.top().join("cached")).unwrap();
    let before = fs::read(site.top().join("cached")).unwrap();
    assert_eq!(code(&site.run(&site.patch("p", "demo/a.py", "five", "FIVE"), &[])), 0);
    assert_eq!(fs::read(site.top().join("cached")).unwrap(), before);
    assert_ne!(fs::read(site.at("demo-1.0.dist-info/RECORD")).unwrap(), before);
}

#[test]
fn a_second_patch_that_does_not_fit_leaves_the_first_unapplied() {
    let site = Site::new();
    let folder = site.patch("p", "demo/a.py", "five", "FIVE");
    let other = site.patch("q", "demo/b.py", "two", "TWO");
    fs::rename(other.join("q.patch"), folder.join("q.patch")).unwrap();
    fs::write(site.at("demo/b.py"), "something else\n").unwrap();
    let before = snapshot(&site.at(""));
    let output = site.run(&folder, &[]);
    assert_eq!(code(&output), 3, "{}", String::from_utf8_lossy(&output.stdout));
    assert_same(&before, &snapshot(&site.at("")));
}

#[test]
fn case_48_two_at_once_lose_nothing_in_200_rounds() {
    let site = Site::new();
    let near = site.patch("near", "demo/a.py", "two", "TWO");
    let far = site.patch("far", "demo/a.py", "nine", "NINE");
    for round in 0..200 {
        let children =
            [&near, &far].map(|folder| site.call(folder, &[]).stdout(Stdio::null()).spawn().unwrap());
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(code(&output), 0, "round {round}");
        }
        let text = fs::read_to_string(site.at("demo/a.py")).unwrap();
        assert_eq!(text, SOURCE.replace("two", "TWO").replace("nine", "NINE"), "round {round}");
        let undone = tool(&["undo", "--all", "-q", "--site-packages"]).arg(site.at("")).output().unwrap();
        assert_eq!(code(&undone), 0, "round {round}: {}", String::from_utf8_lossy(&undone.stderr));
        assert_eq!(fs::read_to_string(site.at("demo/a.py")).unwrap(), SOURCE, "round {round}");
    }
}

#[test]
fn case_50_on_a_full_disk_the_old_files_stay_whole() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = Site::new();
    let folder = site.patch("p", "demo/a.py", "five", &"FIVE".repeat(20_000));
    let script = r#"cp -a "$2" "$2.copy" && mount -t tmpfs -o size=90k none "$2" && cp -a "$2.copy/." "$2" || exit 97
        "$1" patch --from "$3" --site-packages "$2"; code=$?
        diff -rq "$2" "$2.copy" >&2 || exit 98
        exit $code"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_rocm-fixup")]);
    let output = command.arg(site.top().join("site-packages")).arg(&folder).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(code(&output), 1, "{said}");
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn case_51_a_git_work_tree_around_it_does_not_matter() {
    let site = Site::new();
    assert!(Command::new("git").args(["init", "-q"]).arg(site.top()).status().unwrap().success());
    let folder = site.patch("p", "demo/a.py", "five", "FIVE");
    let output = site.call(&folder, &[]).current_dir(site.at("demo")).output().unwrap();
    assert_eq!((code(&output), state(&output).as_str()), (0, "applied"));
}

#[test]
fn names_usage_and_absence() {
    let site = Site::new();
    let nothing = site.top().join("empty");
    fs::create_dir(&nothing).unwrap();
    assert_eq!(code(&site.run(&nothing, &[])), 2, "a folder without patches");
    let named = tool(&["patch", "tile_kernels", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&named), 3, "named, and not installed");
    let unnamed = tool(&["patch", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&unnamed), 0, "not named, and not installed");
    let unknown = tool(&["patch", "no-such", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&unknown), 2);
}

#[test]
fn two_files_of_one_name_are_refused_and_the_patches_of_a_folder_are_listed() {
    let site = Site::new();
    let folder = site.patch("x", "demo/a.py", "five", "FIVE");
    let other = site.patch("X", "demo/b.py", "two", "TWO");
    fs::rename(other.join("X.patch"), folder.join("x.diff")).unwrap();
    let before = snapshot(&site.at(""));
    for more in [&[][..], &["--list"], &["--revert"], &["x"]] {
        let output = site.run(&folder, more);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), 2, "{more:?}");
        assert!(said.contains("x.diff` and `") && said.contains("--skip x.patch"), "{said}");
    }
    assert_eq!(code(&site.run(&folder, &["--list", "--skip", "x.diff"])), 0);
    // `pkg-a` on the command line would mean both of these.
    fs::rename(folder.join("x.diff"), folder.join("pkg_a.patch")).unwrap();
    fs::rename(folder.join("x.patch"), folder.join("pkg-a.patch")).unwrap();
    assert_eq!(code(&site.run(&folder, &["--list"])), 2);
    fs::rename(folder.join("pkg-a.patch"), folder.join("y.patch")).unwrap();
    let list = site.run(&folder, &["--list"]);
    let json: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let names: Vec<&str> =
        json["patches"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!((code(&list), names), (0, vec!["pkg_a", "y"]));
    assert_eq!(state(&list), "pending");
    assert_same(&before, &snapshot(&site.at("")));
    assert_eq!(code(&site.run(&folder, &["y"])), 0);
    let json: serde_json::Value = serde_json::from_slice(&site.run(&folder, &["--list"]).stdout).unwrap();
    assert_eq!(
        (&json["patches"][0]["state"], &json["patches"][1]["state"]),
        (&"pending".into(), &"applied".into())
    );
}

#[test]
fn a_patch_of_the_journal_or_of_a_stage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().join("site-packages");
    std::fs::create_dir_all(site.join(".rocm-fixup")).unwrap();
    for name in [".rocm-fixup/0009.plan", "pkg/.rocm-fixup-0001-0"] {
        let folder = dir.path().join("patches");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("x.patch"), format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"))
            .unwrap();
        let output =
            tool(&["patch", "--from"]).arg(&folder).arg("--site-packages").arg(&site).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains("journal of this program"), "{said}");
        assert!(!site.join(name).exists());
    }
}
