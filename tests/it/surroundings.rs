//! What is around a tree: mounts inside of it, another user's files, and reports that would land in it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::cli::{can_become_another, json, tool};
use crate::python_support::python;
use crate::sdk_tree::SdkTree;
use crate::snapshot::{assert_same, snapshot};

fn standard(dir: &Path) -> SdkTree {
    SdkTree::builder()
        .line("core/lib/libX.so.3 library libX.so.3 1")
        .line("devel/lib/libX.so.3 copy core/lib/libX.so.3")
        .line("devel/lib/libX.so hardlink devel/lib/libX.so.3")
        .build(dir)
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// Nothing is done until the lock is free, and nothing is asked for again.
#[test]
fn a_run_waits_for_the_one_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let held = fs::File::open(&tree.site_packages).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let before = snapshot(&tree.top);
    let mut run = tool(&["dedup", "--site-packages"])
        .arg(&tree.site_packages)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("waiting for another rocm-fixup on")));
    assert_same(&before, &snapshot(&tree.top));
    drop(held);
    assert!(run.wait().unwrap().success());
    assert!(tree.path("devel/lib/libX.so.3").is_symlink());
}

/// Bind mounts, in a mount namespace of its own: only root can make one.
#[test]
fn what_is_mounted_inside_of_a_tree_is_not_linked() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: no mount namespace can be made here");
        return;
    }
    for mounted in ["core/lib", "core/lib/libX.so.3", "devel/lib", "devel/lib/libX.so"] {
        let dir = tempfile::tempdir().unwrap();
        let tree = standard(dir.path());
        let (at, copy) = (tree.path(mounted), dir.path().join("copy"));
        assert!(Command::new("cp").arg("-a").args([&at, &copy]).status().unwrap().success());
        let before = snapshot(dir.path());
        let script = r#"mount --bind "$1" "$2" && exec "$3" dedup --format json --site-packages "$4""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).args([&copy, &at]);
        let output = command.arg(env!("CARGO_BIN_EXE_rocm-fixup")).arg(&tree.site_packages).output().unwrap();
        let report = json(&output);
        assert_eq!(code(&output), Some(3), "{mounted}: {report:#}");
        assert_eq!(report["dedup"]["conflicts"][0]["reason"], "mounted", "{mounted}: {report:#}");
        assert_same(&before, &snapshot(dir.path()));
        let whole = tool(&["dedup", "--site-packages"]).arg(&tree.site_packages).output().unwrap();
        assert_eq!(code(&whole), Some(0), "{mounted}: without the mount");
    }
}

/// It waited for its own lock.
#[test]
fn a_site_that_is_named_twice_through_a_mount_is_one_site() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: no mount namespace can be made here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let again = dir.path().join("again");
    fs::create_dir(&again).unwrap();
    let script =
        r#"mount --bind "$1" "$2" && exec "$3" dedup --lock-timeout 1 --format json --site-packages "$1:$2""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).args([&tree.site_packages, &again]);
    let output = command.arg(env!("CARGO_BIN_EXE_rocm-fixup")).output().unwrap();
    let report = json(&output);
    assert_eq!(code(&output), Some(0), "{report:#}");
    assert!(report["notes"].to_string().contains("is the same directory as"), "{report:#}");
    assert!(tree.path("devel/lib/libX.so.3").is_symlink());
}

/// A tree that can be read only, beside a site-packages that can be written to.
#[test]
fn a_tree_that_cannot_be_written_to_leaves_no_run_behind() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: no mount namespace can be made here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let before = snapshot(dir.path());
    let script =
        r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" dedup --site-packages "$3""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(tree.path("devel"));
    let output = command.arg(env!("CARGO_BIN_EXE_rocm-fixup")).arg(&tree.site_packages).output().unwrap();
    assert_eq!(code(&output), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Read-only file system"), "{output:?}");
    assert_same(&before, &snapshot(dir.path()));
}

/// Directories that a group may write, and files of root in them: a merge would work, and its undo would not.
#[test]
fn files_of_somebody_else_are_not_merged_by_who_could_not_give_them_back() {
    if !can_become_another() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    // As an unprivileged user, who must be able to reach the binary and the tree.
    let binary = dir.path().join("rocm-fixup");
    fs::copy(env!("CARGO_BIN_EXE_rocm-fixup"), &binary).unwrap();
    assert!(Command::new("chmod").args(["-R", "a+rwX"]).arg(dir.path()).status().unwrap().success());
    let before = snapshot(&tree.top);
    let by = |tools: &[&str], args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "4242", "--regid", "4242", "--clear-groups"]).args(tools).arg(&binary);
        command.args(args).args(["--format", "json", "--site-packages"]).arg(&tree.site_packages);
        command.output().unwrap()
    };
    let as_user = |args: &[&str]| by(&[], args);
    let output = as_user(&["dedup"]);
    assert_eq!(code(&output), Some(1), "{output:?}");
    assert!(json(&output)["error"]["message"].to_string().contains("undo could not give it back"));
    assert_same(&before, &snapshot(&tree.top));
    let output = as_user(&["dedup", "--dry-run"]);
    assert_eq!((code(&output), &json(&output)["warnings"][0]["name"]), (Some(0), &"other-owner".into()));
    assert_eq!(code(&as_user(&["status"])), Some(4));
    // Their own files they may merge, and take back; where need be on one thread.
    assert!(Command::new("chown").args(["-R", "4242:4242"]).arg(&tree.top).status().unwrap().success());
    let before = snapshot(&tree.top);
    for verb in ["dedup", "undo"] {
        let output = by(&["prlimit", "--nproc=1"], &[verb]);
        assert_eq!(code(&output), Some(0), "{output:?}");
    }
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn reports_never_land_in_the_sdk_nor_on_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    fs::rename(tree.path("core"), dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), tree.path("core")).unwrap();
    symlink(dir.path().join("a.json"), dir.path().join("b.json")).unwrap();
    fs::write(dir.path().join("a.json"), "").unwrap();
    let before = snapshot(dir.path());
    let site = tree.site_packages.to_str().unwrap();
    let core = tree.path("core");
    for files in [
        vec![core.join("lib/libX.so.3")],
        vec![core.join("new.json")],
        vec![dir.path().join("elsewhere/new.json")],
        vec![tree.path("devel").join("lib/../new.json")],
        vec![tree.site_packages.join(".rocm-fixup/0001.plan")],
        vec![tree.site_packages.join("x-1.dist-info/RECORD")],
        vec![dir.path().join("a.json"), dir.path().join("a.json")],
        vec![dir.path().join("a.json"), dir.path().join("b.json")],
    ] {
        let mut command = tool(&["dedup", "--site-packages", site]);
        for file in &files {
            command.arg("--output").arg(format!("json={}", file.display()));
        }
        let output = command.output().unwrap();
        assert_eq!(code(&output), Some(2), "{files:?}: {output:?}");
        let after = snapshot(dir.path());
        assert_same(&before, &after);
    }
    let output = tool(&["dedup", "--output", "human=/dev/null", "--output", "json=/dev/null"])
        .args(["--site-packages", site])
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(0), "{output:?}");
}

/// What a shell or a service leaves its children: few numbers for files, little memory, an ignored SIGCHLD.
#[test]
fn inherited_limits_that_python_can_live_with_stop_no_check() {
    let python = python();
    for around in [
        &["prlimit", "--nofile=64"][..],
        &["prlimit", "--nofile=20"],
        &["prlimit", "--as=75000000"],
        &["env", "--ignore-signal=CHLD"],
    ] {
        let run = |program: &Path, args: &[&str]| {
            Command::new(around[0]).args(&around[1..]).arg(program).args(args).output().unwrap()
        };
        let alone = run(&python, &["-c", "import json"]);
        assert!(alone.status.success(), "{around:?} is too little for the interpreter: {alone:?}");
        let args = ["smoke", "json", "--python", python.to_str().unwrap()];
        let done = run(Path::new(env!("CARGO_BIN_EXE_rocm-fixup")), &args);
        assert_eq!(code(&done), Some(0), "{around:?}: {done:?}");
        // And a failure is told as one.
        let args = ["smoke", "no_such_module", "--python", python.to_str().unwrap()];
        let done = run(Path::new(env!("CARGO_BIN_EXE_rocm-fixup")), &args);
        assert_eq!(code(&done), Some(4), "{around:?}: {done:?}");
    }
}
