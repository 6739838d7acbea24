//! Where reports go: through links, to open files, and what is said where they can't go.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use rocm_fixup::fsops::write_report;

use crate::cli::{can_become_another, tool};
use crate::sdk_tree::{Builder, Form};
use crate::snapshot::{assert_same, snapshot};

#[test]
fn what_a_link_leads_to_is_written_and_the_link_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("1.json"), dir.path().join("newest.json"));
    fs::write(&file, "old").unwrap();
    symlink("1.json", &link).unwrap();
    write_report(&link, b"new").unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&file).unwrap(), b"new");
}

/// As `/dev/stdout` is one: replacing the link, or the file behind it, would leave its reader with nothing.
#[test]
fn a_link_to_an_open_file_is_written_to_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let open = fs::File::create(dir.path().join("redirected")).unwrap();
    let link = dir.path().join("stdout");
    symlink(format!("/proc/self/fd/{}", open.as_raw_fd()), &link).unwrap();
    symlink("stdout", dir.path().join("log")).unwrap();
    write_report(&link, b"one").unwrap();
    write_report(&dir.path().join("log"), b"two").unwrap();
    assert!(link.is_symlink());
    assert_eq!(open.metadata().unwrap().len(), 6);
    assert_eq!(fs::read(dir.path().join("redirected")).unwrap(), b"onetwo");
}

#[test]
fn a_step_summary_never_lands_in_the_sdk() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    let before = snapshot(dir.path());
    for file in ["_rocm_sdk_core/lib/libamd_comgr.so.3", ".rocm-fixup", "x-1.dist-info/RECORD"] {
        let mut command = tool(&["status", "--format", "github", "--site-packages"]);
        command.arg(&tree.site_packages).env("GITHUB_STEP_SUMMARY", tree.site_packages.join(file));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        assert_same(&before, &snapshot(dir.path()));
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_whatever_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Split);
    let status = |more: &[&str]| {
        tool(&["status", "--site-packages"])
            .arg(&tree.site_packages)
            .args(more)
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(status(&[]), Some(4));
    assert_eq!(status(&["--output", "json=/no/such/directory/x"]), Some(1));
}

#[test]
fn stdout_takes_one_report() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    let call = |more: &[&str]| {
        tool(&["dedup", "--dry-run", "--site-packages"]).arg(&tree.site_packages).args(more).output().unwrap()
    };
    assert_eq!(call(&["--output", "json", "--output", "human"]).status.code(), Some(2));
    let dashed = call(&["--output", "json=-"]);
    assert_eq!(crate::cli::json(&dashed)["command"], "dedup");
    assert_eq!(call(&["--output", "github", "--output", "human"]).status.code(), Some(0));
}

/// What was done and then can't be told anywhere is worse than nothing done.
#[test]
fn nothing_is_changed_where_the_report_could_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Split);
    fs::write(dir.path().join("file"), "x").unwrap();
    fs::create_dir(dir.path().join("directory")).unwrap();
    symlink("nowhere/x", dir.path().join("astray")).unwrap();
    let before = snapshot(dir.path());
    let call = |verb: &str, more: &[&str], summary: Option<&str>| {
        let mut command = tool(&[verb, "--site-packages"]);
        command.arg(&tree.site_packages).args(more).current_dir(dir.path());
        summary.map(|file| command.env("GITHUB_STEP_SUMMARY", file));
        command.output().unwrap()
    };
    for place in ["no/x", "file/x", "directory", "astray", "/dev/no-such-device", "/proc/x"] {
        for output in [format!("json={place}"), format!("github={place}")] {
            let done = call("run", &["--output", &output], None);
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(1), "{output}: {stderr}");
            assert!(
                stderr.contains(place) && stderr.contains("hint: nothing was done"),
                "{output}: {stderr}"
            );
            assert_eq!(stderr.matches("can't deliver").count(), 1, "{stderr}");
            assert_same(&before, &snapshot(dir.path()));
        }
    }
    for summary in ["no/x", "directory"] {
        let done = call("dedup", &["--format", "github"], Some(summary));
        assert_eq!(done.status.code(), Some(1), "{summary}: {done:?}");
        assert_same(&before, &snapshot(dir.path()));
    }
    // A report that can be delivered tells it.
    let done = call("dedup", &["--output", "json", "--output", "human=no/x"], None);
    let report = crate::cli::json(&done);
    assert_eq!((done.status.code(), &report["exit_code"]), (Some(1), &1.into()));
    assert!(report["error"]["message"].as_str().unwrap().contains("no/x"), "{report}");
    assert_same(&before, &snapshot(dir.path()));
}

/// Each place is looked at beforehand; nobody at the other end notices, and nothing that is there is cut or replaced.
#[test]
fn whatever_can_be_written_to_is() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    let at = |name: &str| dir.path().join(name);
    fs::write(at("old.json"), "old").unwrap();
    fs::write(at("summary.md"), "theirs\n").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let pipe = at("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    let mut command = tool(&["locate", "--site-packages"]);
    command.arg(&tree.site_packages).current_dir(dir.path()).env("GITHUB_STEP_SUMMARY", at("summary.md"));
    let places =
        ["json=old.json", "json=new.json", "json=pipe", "json=/dev/null", "human=/dev/stdout", "github"];
    for place in places {
        command.args(["--output", place]);
    }
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("_rocm_sdk_core"), "{done:?}");
    for text in [
        fs::read_to_string(at("old.json")).unwrap(),
        fs::read_to_string(at("new.json")).unwrap(),
        reader.join().unwrap(),
    ] {
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }
    let summary = fs::read_to_string(at("summary.md")).unwrap();
    assert!(summary.starts_with("theirs\n###"), "{summary}");
}

/// As a container gets a single file by `--volume`: nothing can take its place.
#[test]
fn a_mounted_file_is_written_into() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    tree.reshape(Form::Split);
    for file in ["outside", "report"] {
        fs::write(dir.path().join(file), "something that is longer than nothing".repeat(999)).unwrap();
    }
    let before = snapshot(&tree.top);
    let run = |options: &str| {
        let script = format!(
            "mount --bind {options} outside report || exit 77; \
             exec \"$1\" dedup --site-packages \"$2\" --output json=report"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]).current_dir(dir.path());
        unshare.arg(env!("CARGO_BIN_EXE_rocm-fixup")).arg(&tree.site_packages).output().unwrap()
    };
    let done = run("-o ro");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(77) || stderr.contains("unshare") {
        eprintln!("not run: no mount namespace here: {stderr}");
        return;
    }
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("hint: nothing was done"), "{stderr}");
    assert_same(&before, &snapshot(&tree.top));
    let done = run("");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("outside")).unwrap()).unwrap();
    assert_eq!(report["exit_code"], 0);
    let entries = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!entries.into_iter().any(|name| name.to_string_lossy().starts_with(".rocm-fixup")));
}

/// In somebody else's directory a file can be written, and not be replaced; under another name it may be anybody's.
#[test]
fn a_writable_file_in_a_directory_that_is_not_is_written_into_unless_it_has_other_names() {
    if !can_become_another() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = Builder::standard().build(dir.path());
    let binary = dir.path().join("rocm-fixup");
    fs::copy(env!("CARGO_BIN_EXE_rocm-fixup"), &binary).unwrap();
    assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(dir.path()).status().unwrap().success());
    let place = dir.path().join("place");
    fs::create_dir(&place).unwrap();
    for file in ["report", "twice"] {
        fs::write(place.join(file), "before").unwrap();
        fs::set_permissions(place.join(file), fs::Permissions::from_mode(0o666)).unwrap();
    }
    fs::hard_link(place.join("twice"), place.join("other")).unwrap();
    let call = |file: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "4242", "--regid", "4242", "--clear-groups"]).arg(&binary);
        command.args(["dedup", "--dry-run", "--site-packages"]).arg(&tree.site_packages);
        let output = format!("json={}", place.join(file).display());
        command.args(["--output", &output]).output().unwrap()
    };
    let done = call("report");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(place.join("report")).unwrap()).unwrap();
    assert_eq!(report["command"], "dedup");
    for file in ["twice", "new"] {
        assert_eq!(call(file).status.code(), Some(1), "{file}");
    }
    assert_eq!(fs::read(place.join("twice")).unwrap(), b"before");
}
