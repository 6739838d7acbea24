//! The binary itself, as people call it: fixture in, run, whole tree out, undo, and what it says when things go wrong.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::sdk_tree::{Builder, SdkTree};
use crate::snapshot::{assert_same, snapshot};

/// Whether a test can have files of one user and act as another; says so where it can't.
pub fn can_become_another() -> bool {
    let can =
        rustix::process::geteuid().is_root() && Command::new("setpriv").arg("--version").output().is_ok();
    if !can {
        eprintln!("not run: only root can make another's files, and setpriv(1) become another");
    }
    can
}

/// A call of the binary with nothing of this machine's environment in it.
pub fn tool(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    command.env_clear().env("PATH", "/usr/bin:/bin").args(args);
    command
}

fn on(tree: &SdkTree, args: &[&str]) -> Output {
    tool(args).arg("--site-packages").arg(&tree.site_packages).output().unwrap()
}

pub fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn standard(dir: &Path) -> SdkTree {
    let lines = [
        "core/lib/libX.so.3 library libX.so.3 1",
        "devel/lib/libX.so.3 copy core/lib/libX.so.3",
        "devel/lib/libX.so hardlink devel/lib/libX.so.3",
    ];
    lines.iter().fold(SdkTree::builder(), |b, line| Builder::line(b, *line)).build(dir)
}

/// Nothing of ours beside the journal.
fn assert_no_stray(dir: &Path) {
    for path in snapshot(dir).into_keys() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(!name.starts_with(".rocm-fixup-") && !name.ends_with(".part"), "{}", path.display());
    }
}

#[test]
fn every_fixture_is_merged_found_done_and_undone() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sdk-trees");
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "tree") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (lines, expected) = text.split_once("---\n").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let tree = lines.lines().fold(SdkTree::builder(), Builder::line).build(dir.path());
        let mut args = vec!["dedup", "--format", "json"];
        args.extend(["--device-links", "--keep-hard-links"].iter().filter(|option| {
            lines.lines().any(|line| line.strip_prefix("# option ") == option.strip_prefix("--"))
        }));
        let name = path.display();
        let before = snapshot(&tree.top);
        let first = on(&tree, &args);
        let said = json(&first);
        let wanted = if expected.lines().any(|line| line.starts_with("conflict ")) { 3 } else { 0 };
        assert_eq!(code(&first), wanted, "{name}: {said:#}");
        assert_eq!(said["exit_code"], wanted, "{name}");
        let links = expected.lines().filter(|line| line.starts_with("link ")).count();
        assert_eq!(said["dedup"]["linked"].as_array().unwrap().len(), links, "{name}: {said:#}");
        let after = snapshot(&tree.top);
        assert_no_stray(&tree.top);
        let second = json(&on(&tree, &args));
        assert_eq!(second["dedup"]["linked"], Value::Array(vec![]), "{name}");
        assert_eq!(second["dedup"]["relinked"], Value::Array(vec![]), "{name}");
        assert!(second["journal"].is_null(), "{name}");
        assert_same(&after, &snapshot(&tree.top));
        let undone = on(&tree, &["undo", "--all", "--format", "json"]);
        assert_eq!(code(&undone), 0, "{name}: {:#}", json(&undone));
        assert_same(&before, &snapshot(&tree.top));
    }
}

#[test]
fn a_dry_run_and_status_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let before = snapshot(&tree.top);
    let dry = on(&tree, &["dedup", "--dry-run", "--format", "json"]);
    assert_eq!(code(&dry), 0);
    assert_eq!(json(&dry)["dedup"]["linked"].as_array().unwrap().len(), 2);
    assert!(json(&dry)["dedup"]["linked"][0]["blake3"].is_null());
    assert_eq!(code(&on(&tree, &["status"])), 4, "something is pending");
    assert_same(&before, &snapshot(&tree.top));
    on(&tree, &["dedup"]);
    assert_eq!(code(&on(&tree, &["status"])), 0);
}

#[test]
fn no_sdk_is_nothing_to_do_and_can_be_insisted_on() {
    let dir = tempfile::tempdir().unwrap();
    let call = |args: &[&str]| tool(args).arg("--site-packages").arg(dir.path()).output().unwrap();
    let output = call(&["dedup"]);
    assert_eq!(code(&output), 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("no ROCm wheel SDK"));
    let status = call(&["status"]);
    assert_eq!(code(&status), 0);
    assert!(String::from_utf8_lossy(&status.stdout).ends_with("status: nothing to do\n"), "{status:?}");
    assert_eq!(code(&call(&["dedup", "--require-sdk"])), 3);
}

#[test]
fn undo_without_runs_and_of_an_unknown_run() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    assert_eq!(code(&on(&tree, &["undo"])), 0);
    let output = on(&tree, &["undo", "0042"]);
    assert_eq!(code(&output), 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("0042"));
}

#[test]
fn undo_takes_back_one_run_after_the_other_and_names_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let before = snapshot(&tree.top);
    on(&tree, &["dedup"]);
    tree.make("core/lib/libY.so.1 library libY.so.1 1");
    tree.make("devel/lib/libY.so.1 copy core/lib/libY.so.1");
    let between = snapshot(&tree.top);
    on(&tree, &["dedup"]);
    on(&tree, &["undo"]);
    assert_same(&between, &snapshot(&tree.top));
    let devel = tree.path("devel/lib/libX.so");
    std::fs::remove_file(&devel).unwrap();
    std::fs::write(&devel, "another").unwrap();
    let output = on(&tree, &["undo", "--format", "json"]);
    assert_eq!(code(&output), 3);
    let refused = json(&output)["undo"]["refused"].clone();
    assert!(refused.to_string().contains("libX.so"), "{refused}");
    assert_eq!(std::fs::read(&devel).unwrap(), b"another");
    assert!(before.len() > 3);
}

/// Another user, who may read but not write.
fn as_nobody(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    command.uid(65534).gid(65534)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn without_permission_one_line_says_what_why_and_what_to_do() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tree = standard(dir.path());
    let copy = dir.path().join("rocm-fixup");
    std::fs::copy(env!("CARGO_BIN_EXE_rocm-fixup"), &copy).unwrap();
    let before = snapshot(&tree.top);
    let mut command = Command::new(&copy);
    command.env_clear().args(["dedup", "--site-packages"]).arg(&tree.site_packages);
    let output = as_nobody(&mut command).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1, "{stderr}");
    assert!(stderr.contains("Permission denied") && stderr.contains("hint: "), "{stderr}");
    assert_same(&before, &snapshot(&tree.top));
    let mut command = Command::new(&copy);
    command.env_clear().args(["status", "--site-packages"]).arg(&tree.site_packages);
    let output = as_nobody(&mut command).output().unwrap();
    assert_eq!(code(&output), 4, "a reader may look");
}

/// Mounts something for one test, in a namespace of its own, so that nothing is left of it.
fn in_mounts(script: &str, tree: &SdkTree) -> Output {
    let binary = env!("CARGO_BIN_EXE_rocm-fixup");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", binary]).arg(&tree.site_packages);
    command.output().unwrap()
}

#[test]
fn a_read_only_file_system_is_told_and_left_alone() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let before = snapshot(&tree.top);
    let script =
        r#"mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" && "$1" dedup --site-packages "$2""#;
    let output = in_mounts(script, &tree);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1, "{stderr}");
    assert!(stderr.contains("Read-only file system") && stderr.contains("hint: "), "{stderr}");
    assert_same(&before, &snapshot(&tree.top));
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost_or_left() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    // A file system with room for the tree and for no journal.
    let script = r#"cp -a "$2" "$2.copy" && mount -t tmpfs -o size=1m none "$2" && cp -a "$2.copy/." "$2" &&
        dd if=/dev/zero of="$2/fill" bs=4k 2>/dev/null; find "$2" -not -name fill | sort > "$2.before"
        "$1" dedup --site-packages "$2"; code=$?
        find "$2" -not -name fill | sort > "$2.after"; cmp "$2.before" "$2.after" || exit 99
        cmp "$2/_rocm_sdk_core/lib/libX.so.3" "$2/_rocm_sdk_devel/lib/libX.so" || exit 98
        exit $code"#;
    let output = in_mounts(script, &tree);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1, "{stderr}{}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr.contains("No space left"), "{stderr}");
}

#[test]
fn no_python_is_told() {
    let output = tool(&["dedup"]).env("PATH", "/nowhere").output().unwrap();
    // The machine may have a well-known interpreter all the same; then it has no SDK.
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!([0, 1].contains(&code(&output)), "{said}");
    let output = tool(&["dedup", "--python", "/nowhere/python3"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1);
    assert!(stderr.contains("/nowhere/python3"), "{stderr}");
}

#[test]
fn a_running_process_keeps_its_mapped_library() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    let library = tree.path("devel/lib/libX.so");
    let program = "import ctypes,sys; ctypes.CDLL(sys.argv[1]); print('open', flush=True); sys.stdin.read(); \
                   print(open('/proc/self/maps').read())";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .arg(&library)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(code(&on(&tree, &["dedup"])), 0);
    drop(child.stdin.take());
    let mut maps = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut maps).unwrap();
    assert!(child.wait().unwrap().success());
    // The kernel names the inode by its last name, which is gone; the mapping is not.
    assert!(maps.lines().any(|line| line.contains("devel/lib/") && line.ends_with("(deleted)")), "{maps}");
}

#[test]
fn undo_restores_what_it_can_when_a_whole_tree_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = standard(dir.path());
    tree.make("libraries/lib/libL.so.1 library libL.so.1 1");
    tree.make("devel/lib/libL.so.1 copy libraries/lib/libL.so.1");
    assert_eq!(code(&on(&tree, &["dedup"])), 0);
    std::fs::remove_dir_all(tree.path("core")).unwrap();
    let output = on(&tree, &["undo", "--format", "json"]);
    assert_eq!(code(&output), 3, "{:#}", json(&output));
    assert!(tree.path("devel/lib/libL.so.1").symlink_metadata().unwrap().is_file());
    assert_eq!(json(&output)["undo"]["refused"].as_array().unwrap().len(), 2);
}
