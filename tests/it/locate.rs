//! Finding interpreter, site-packages and trees, in layouts that images have. Real virtual environments throughout.

#![expect(clippy::disallowed_macros, reason = "a skip is said")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rocm_fixup::discover::{DevelState, Environment, Options, Surroundings, locate, locate_in};
use rocm_fixup::error::{Hint, message};
use rocm_fixup::model::Role;
use tempfile::TempDir;

use crate::python_support::{distribution, old_pythons, python, venv};

/// A temporary directory by its physical name.
fn root() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// What `rocm-sdk init` leaves of a small SDK.
fn sdk(site: &Path, version: &str) {
    for (tree, name) in [
        ("_rocm_sdk_core", "rocm-sdk-core"),
        ("_rocm_sdk_libraries_gfx950_dcgpu", "rocm-sdk-libraries-gfx950-dcgpu"),
        ("_rocm_profiler", "rocm-profiler"),
        ("_rocm_sdk_devel", "rocm-sdk-devel"),
    ] {
        std::fs::create_dir_all(site.join(tree).join("lib")).unwrap();
        distribution(site, name, version, "");
    }
}

fn nothing_around() -> Surroundings {
    Surroundings::default()
}

fn with(python: &Path) -> Options {
    Options { python: Some(python.to_path_buf()), site_packages: Vec::new() }
}

fn roles(env: &Environment) -> Vec<(Role, &str)> {
    let version =
        |tree: &rocm_fixup::model::Tree| tree.distribution.as_ref().map_or("none".into(), |d| d.name.clone());
    env.trees.iter().map(|tree| (tree.role, &*version(tree).leak())).collect()
}

#[test]
fn a_named_interpreter_gives_its_trees_with_their_distributions() {
    let (_dir, root) = root();
    let (command, site) = venv(&python(), &root.join(OsStr::from_bytes(b"a b\xff")));
    sdk(&site, "10.0.0");
    let env = locate_in(&with(&command), &nothing_around()).unwrap();
    assert_eq!(
        roles(&env),
        [
            (Role::Core, "rocm-sdk-core"),
            (Role::Libraries, "rocm-sdk-libraries-gfx950-dcgpu"),
            (Role::Profiler, "rocm-profiler"),
            (Role::Devel, "rocm-sdk-devel"),
        ]
    );
    assert_eq!(env.devel, DevelState::Expanded);
    assert_eq!(env.site_packages, std::slice::from_ref(&site));
    assert_eq!(env.trees[0].path, site.join("_rocm_sdk_core"));
    assert_eq!(env.notes, Vec::<String>::new());
    assert!(env.glibc.is_some() && env.python_version().is_some());
    assert_eq!(env.distribution("ROCM_SDK_core").unwrap().unwrap().version, "10.0.0");
    assert_eq!(env.arch(), std::env::consts::ARCH);
}

#[test]
fn links_to_site_packages_and_to_trees_count_once() {
    let (_dir, root) = root();
    let (command, site) = venv(&python(), &root.join("venv"));
    sdk(&site, "10.0.0");
    symlink("lib", root.join("venv/lib64")).unwrap();
    symlink(site.join("_rocm_sdk_devel"), site.join("_rocm_sdk_devel_alias")).unwrap();
    let through = root.join("venv/lib64").join(site.strip_prefix(root.join("venv/lib")).unwrap());
    std::fs::write(site.join("again.pth"), through.as_os_str().as_bytes()).unwrap();
    let env = locate_in(&with(&command), &nothing_around()).unwrap();
    assert_eq!(env.site_packages, [site]);
    assert_eq!(env.trees.len(), 4);
}

#[test]
fn a_site_packages_directory_needs_no_interpreter() {
    let (_dir, root) = root();
    let site = root.join("site packages");
    std::fs::create_dir(&site).unwrap();
    sdk(&site, "10.0.0");
    let link = root.join("link");
    symlink(&site, &link).unwrap();
    let options = Options { python: None, site_packages: vec![link, site.clone()] };
    let env = locate_in(&options, &nothing_around()).unwrap();
    assert!(env.interpreter.is_none());
    assert_eq!(env.site_packages, [site]);
    assert_eq!(env.trees.len(), 4);
    assert!(env.glibc.unwrap().starts_with("2."));
    let error = locate_in(&Options { python: None, site_packages: vec![root.join("no")] }, &nothing_around());
    let error = error.unwrap_err();
    assert!(message(&error).starts_with("can't use `"), "{}", message(&error));
    assert!(error.downcast_ref::<Hint>().is_some());
}

#[test]
fn the_devel_package_is_recognised_in_each_state() {
    let (_dir, root) = root();
    let at = |options: &Options| locate_in(options, &nothing_around()).unwrap();
    let options = Options { python: None, site_packages: vec![root.clone()] };
    assert_eq!(at(&options).devel, DevelState::None);
    std::fs::create_dir(root.join("rocm_sdk_devel")).unwrap();
    distribution(&root, "rocm-sdk-devel", "7.11", "");
    let stub = at(&options);
    assert!(!stub.has_sdk());
    assert!(stub.notes[0].starts_with("rocm-sdk-devel 7.11 is a stub"), "{:?}", stub.notes);
    let tarball = root.join("rocm_sdk_devel/_devel.tar.xz");
    std::fs::write(&tarball, "").unwrap();
    assert_eq!(at(&options).devel, DevelState::Unexpanded { tarball: tarball.clone() });
    assert!(at(&options).has_sdk() && at(&options).notes.is_empty());
    std::fs::create_dir(root.join("_rocm_sdk_devel")).unwrap();
    assert_eq!(at(&options).devel, DevelState::HalfExpanded { tarball: tarball.clone() });
    std::fs::remove_file(tarball).unwrap();
    assert_eq!(at(&options).devel, DevelState::Expanded);
}

#[test]
fn parts_of_different_versions_are_noted() {
    let (_dir, root) = root();
    sdk(&root, "10.0.0");
    std::fs::remove_dir_all(root.join("rocm_sdk_devel-10.0.0.dist-info")).unwrap();
    distribution(&root, "rocm-sdk-devel", "7.12.0", "");
    let env = locate_in(&Options { python: None, site_packages: vec![root] }, &nothing_around()).unwrap();
    assert_eq!(env.notes.len(), 1);
    assert!(env.notes[0].contains("different versions: rocm-sdk-core 10.0.0"), "{:?}", env.notes);
}

#[test]
fn virtual_env_comes_before_path_and_path_before_the_well_known_places() {
    let (_dir, root) = root();
    let make = |name: &str, version: Option<&str>| {
        let (command, site) = venv(&python(), &root.join(name));
        version.inspect(|version| sdk(&site, version));
        command
    };
    let (active, on_path, known) =
        (make("active", Some("1")), make("path", Some("2")), make("known", Some("3")));
    let (empty, broken) = (make("empty", None), root.join("broken/bin/python3"));
    std::fs::create_dir_all(broken.parent().unwrap()).unwrap();
    std::fs::write(&broken, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let found = |virtual_env: Option<&Path>, path: Option<&Path>, well_known: &[&PathBuf]| {
        let prefix = |command: &Path| command.parent().unwrap().to_path_buf();
        let around = Surroundings {
            virtual_env: virtual_env.map(|command| prefix(command).parent().unwrap().to_path_buf()),
            path: path.map(|command| prefix(command).into_os_string()),
            well_known: well_known.iter().map(|path| path.to_path_buf()).collect(),
        };
        locate_in(&Options::default(), &around)
    };
    let chosen = |env: &Environment| env.interpreter.as_ref().unwrap().command.clone();

    let env = found(Some(&active), Some(&on_path), &[&known]).unwrap();
    assert_eq!(chosen(&env), active);
    assert!(env.notes[0].contains("another SDK lies in"), "{:?}", env.notes);
    assert_eq!(chosen(&found(None, Some(&on_path), &[&known]).unwrap()), on_path);
    assert_eq!(chosen(&found(None, Some(&empty), &[&known]).unwrap()), known);
    // The environment in use has no SDK, the one on PATH has: it is the only one.
    assert_eq!(chosen(&found(Some(&empty), Some(&on_path), &[&empty]).unwrap()), on_path);
    assert_eq!(chosen(&found(None, None, &[&known]).unwrap()), known);
    // No SDK at all: the first one, and no error.
    let none = found(Some(&empty), None, &[]).unwrap();
    assert!(!none.has_sdk() && chosen(&none) == empty);
    // What doesn't answer is passed over, and said.
    let env = found(Some(&broken), Some(&on_path), &[]).unwrap();
    assert_eq!(chosen(&env), on_path);
    assert!(env.notes[0].contains("gave no answer: it ended with code 9"), "{:?}", env.notes);

    let error = found(None, Some(&empty), &[&active, &known]).unwrap_err();
    let text = message(&error);
    assert!(text.contains(active.to_str().unwrap()) && text.contains(known.to_str().unwrap()), "{text}");
    assert!(error.downcast_ref::<Hint>().unwrap().0.contains("--python"));
    // The same SDK seen by two interpreters is one.
    let second = root.join("known/bin/python");
    symlink("python3", &second).unwrap();
    assert_eq!(chosen(&found(None, Some(&empty), &[&known, &second]).unwrap()), known);

    let error = found(None, None, &[]).unwrap_err();
    assert!(message(&error).contains("no python3 on PATH"), "{}", message(&error));
    assert!(error.downcast_ref::<Hint>().is_some());
}

#[test]
fn a_named_interpreter_that_does_not_answer_is_an_error() {
    let error = locate(&with(Path::new("/bin/true"))).unwrap_err();
    assert!(message(&error).contains("`/bin/true` gave no answer"), "{}", message(&error));
}

#[test]
fn an_old_interpreter_is_enough_to_find_trees() {
    for python in old_pythons().into_iter().take(1) {
        let (_dir, root) = root();
        let (command, site) = venv(&python, &root);
        sdk(&site, "10.0.0");
        let env = locate_in(&with(&command), &nothing_around()).unwrap();
        assert_eq!(env.trees.len(), 4);
        assert!(env.notes[0].contains("it can only name directories"), "{:?}", env.notes);
        assert!(env.needed_interpreter().is_err());
    }
}

/// Runs the real binary where /proc is missing, and where in addition no place takes a temporary file.
#[test]
fn a_system_without_proc_and_without_any_place_to_write_is_answered_too() {
    let binary = env!("CARGO_BIN_EXE_rocm-fixup");
    let run = |prepare: &str| {
        let script =
            format!("set -e; {prepare} mount -t tmpfs none /proc; exec \"$0\" locate --python \"$1\"");
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script, binary]).arg(python());
        unshare.env("TMPDIR", "/tmp").output()
    };
    let allowed = run("").is_ok_and(|done| !String::from_utf8_lossy(&done.stderr).contains("unshare"));
    if !allowed {
        eprintln!("skipped: this system allows no user namespaces");
        return;
    }
    let elsewhere = run("").unwrap();
    assert!(elsewhere.status.success(), "{elsewhere:?}");
    let own = Path::new(binary).parent().unwrap().display();
    // Bound where that is allowed, since the binary itself may lie below one of them.
    let sealed = format!(
        "for d in /tmp /var/tmp /dev/shm /run; do \
           mount --bind $d $d && mount -o remount,ro,bind $d || mount -t tmpfs -o ro none $d; done; \
         mount --bind '{own}' '{own}'; mount -o remount,ro,bind '{own}'; "
    );
    let plain = run(&sealed).unwrap();
    assert!(plain.status.success(), "{plain:?}");
    let said = String::from_utf8(plain.stdout).unwrap();
    assert!(said.contains("site-packages"), "{said}");
    assert!(said.contains("no place takes a temporary file"), "{said}");
}

#[test]
fn an_interpreter_may_be_named_from_here_or_by_a_bare_name() {
    let (_dir, root) = root();
    let (command, site) = venv(&python(), &root.join("venv"));
    let run = |name: &str, path: &str| {
        let mut locate = std::process::Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
        locate.args(["locate", "--format", "json", "--python", name]).current_dir(&root).env("PATH", path);
        let done = locate.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    for said in [run("venv/bin/python3", ""), run("./venv/bin/python3", "")] {
        assert!(said.contains(command.to_str().unwrap()) && said.contains(site.to_str().unwrap()), "{said}");
    }
    assert!(run("python3", command.parent().unwrap().to_str().unwrap()).contains(site.to_str().unwrap()));
}

#[test]
fn a_colon_separates_directories_unless_it_is_in_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let [plain, other, odd] = ["plain", "other", "odd:name"].map(|name| top.join(name));
    [&plain, &other, &odd].iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let told = |values: &[&str], variable: Option<&str>| -> Option<Vec<String>> {
        let mut command = crate::cli::tool(&["locate", "--format", "json"]);
        command.args(values.iter().flat_map(|value| ["--site-packages", value]));
        variable.map(|value| command.env("ROCM_FIXUP_SITE_PACKAGES", value));
        let json: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let sites = json["environment"]["site_packages"].as_array()?;
        Some(sites.iter().map(|site| site.as_str().unwrap().to_owned()).collect())
    };
    let [plain, other, odd] = [&plain, &other, &odd].map(|path| path.to_str().unwrap());
    let is = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    for (value, expected) in [
        (odd.to_owned(), is(&[odd])),
        (format!("{plain}:{other}"), is(&[plain, other])),
        (format!("{plain}:{other}:"), is(&[plain, other])),
        (format!("{plain}:{plain}/no"), None),
        (format!("{odd}/no"), None),
    ] {
        assert_eq!(told(&[&value], None), expected, "{value}");
        assert_eq!(told(&[], Some(&value)), expected, "{value}");
    }
    assert_eq!(told(&[odd, plain], Some(other)), is(&[odd, plain]), "options win over the variable");
}
