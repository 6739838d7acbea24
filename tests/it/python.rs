//! The round trip through real interpreters: directories as a plain start has them, limits, refusals, no traces.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rocm_fixup::error::{Hint, message};
use rocm_fixup::python::wire::{Line, Question};
use rocm_fixup::python::{End, Refusal, Reply, Unfit, ask, directories};
use tempfile::TempDir;

use crate::python_support::{old_pythons, output, python, pythons, venv};

fn imports(python: &Path, modules: &[&str], env: &[(&str, &OsStr)], seconds: u64) -> Reply {
    let modules = modules.iter().map(ToString::to_string).collect();
    let env: Vec<(OsString, OsString)> = env.iter().map(|(n, v)| (n.into(), OsString::from(v))).collect();
    ask(python, &Question::Import { modules }, &env, Duration::from_secs(seconds)).unwrap()
}

fn stderr(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.ended.stderr).into_owned()
}

#[test]
fn every_cpython_since_3_8_answers_with_what_it_says_itself() {
    for python in pythons() {
        let found = directories(&python, &["json", "no_such_package"]).unwrap();
        let version = output(&python, ["-c", "import platform; print(platform.python_version())"]);
        assert_eq!(found.version, version);
        assert_eq!(found.limited, None);
        let libc = output(&python, ["-c", "import os; print(os.confstr('CS_GNU_LIBC_VERSION').split()[1])"]);
        assert_eq!(found.glibc.as_deref(), Some(&*libc));
        let plain = "import sys, os; own = os.path.dirname(os.__file__); \
                     print('\\n'.join(p for p in sys.path if os.path.isdir(p) and p not in (own, own + '/lib-dynload')))";
        let done = std::process::Command::new(&python).args(["-c", plain]).current_dir("/").output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let expected: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
        assert_eq!(found.paths, expected, "{}", python.display());
        assert_eq!(found.packages.len(), 1, "{:?}", found.packages);
    }
}

#[test]
fn an_old_interpreter_is_answered_for_by_the_plain_script_but_runs_no_checks() {
    for python in old_pythons() {
        let found = directories(&python, &["json"]).unwrap();
        assert!(matches!(found.limited, Some(Unfit::Old(_))));
        assert!(!found.paths.is_empty());
        assert!(found.glibc.is_some());
        assert_eq!(found.packages.len(), 1);
        let reply = imports(&python, &["json"], &[], 20);
        let Some(unfit @ Unfit::Old(_)) = reply.answer.unfit else { panic!("{:?}", reply.answer) };
        let error = unfit.error(&python);
        assert!(message(&error).contains("checks need CPython 3.8 or newer"), "{}", message(&error));
        assert!(error.downcast_ref::<Hint>().is_some());
    }
}

#[test]
fn a_foreign_or_free_threaded_interpreter_is_named() {
    let dir = TempDir::new().unwrap();
    // A real interpreter that says so of itself: sys is changed before the bootstrap looks.
    for (change, wanted) in [
        ("sys.implementation.name = 'pypy'", "is pypy 3."),
        ("sys.abiflags = 't'", "is a free-threaded build (3."),
    ] {
        let shim = dir.path().join("python3");
        let python = python();
        let text = format!(
            "#!/bin/sh\nshift 3\ncode=$1; shift\nexec {} -I -B -c \"import sys; {change}\n$code\" \"$@\"\n",
            python.display()
        );
        std::fs::write(&shim, text).unwrap();
        std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = directories(&shim, &[]).unwrap_err();
        assert!(message(&error).contains(wanted), "{}", message(&error));
        assert!(error.downcast_ref::<Hint>().unwrap().0.contains("--site-packages"));
        assert!(error.downcast_ref::<Refusal>().is_some());
        std::fs::remove_file(shim).unwrap();
    }
}

#[test]
fn what_is_no_interpreter_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let missing = directories(&dir.path().join("nothing"), &[]).unwrap_err();
    assert!(message(&missing).starts_with("can't start `"), "{}", message(&missing));
    let silent = directories(Path::new("/bin/true"), &[]).unwrap_err();
    assert!(message(&silent).contains("gave no answer: it ended with code 0"), "{}", message(&silent));
    assert!(silent.downcast_ref::<Hint>().is_some());
}

#[test]
fn pythonpath_pth_files_spaces_and_bytes_that_are_not_utf8_are_seen() {
    let dir = TempDir::new().unwrap();
    let odd = dir.path().join(OsStr::from_bytes(b"a b\xff"));
    let python = python();
    let (command, site) = venv(&python, &odd);
    let (by_pth, by_variable) = (dir.path().join("by pth"), dir.path().join(OsStr::from_bytes(b"var \xfe")));
    for package in [&by_pth, &by_variable] {
        std::fs::create_dir(package).unwrap();
        std::fs::write(package.join("found_here.py"), "").unwrap();
    }
    std::fs::write(site.join("more.pth"), by_pth.as_os_str().as_bytes()).unwrap();
    let found = directories(&command, &[]).unwrap();
    assert_eq!(found.prefix, odd);
    assert!(found.paths.contains(&site), "{:?}", found.paths);
    assert!(found.paths.contains(&by_pth), "{:?}", found.paths);
    let reply = imports(&command, &["found_here"], &[("PYTHONPATH", by_variable.as_os_str())], 20);
    assert!(reply.answer.complete(), "{}", stderr(&reply));
    assert!(!reply.answer.lines.iter().any(|line| matches!(line, Line::Raised { .. })));
    assert!(!by_pth.join("__pycache__").exists() && !by_variable.join("__pycache__").exists());
}

#[test]
fn no_file_stays_behind_and_only_the_imports_are_mapped() {
    let python = python();
    let reply = imports(&python, &["json", "ctypes"], &[], 20);
    let objects = reply.answer.lines.iter().find_map(|line| match line {
        Line::Loaded { objects } => Some(objects),
        _ => None,
    });
    assert!(objects.unwrap().iter().any(|object| object.soname.as_deref() == Some("libc.so.6")));
    assert_eq!(reply.ended.end, End::Exit(0));
    // Others that use the same directory meanwhile have other process ids.
    let ours = format!(".rocm-fixup-{}-", std::process::id());
    let mut left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().map(|e| e.file_name());
    assert_eq!(left.find(|name| name.as_bytes().starts_with(ours.as_bytes())), None);
}

#[test]
fn an_endless_import_is_stopped_with_all_that_it_started() {
    let dir = TempDir::new().unwrap();
    let pids = dir.path().join("pids");
    // One child stays in the group, one leaves it, and one is orphaned in a session of its own.
    let module = format!(
        "import os, subprocess, time\n\
         def note(): open({pids:?}, 'a').write('%d\\n' % os.getpid())\n\
         note()\n\
         if os.fork() == 0:\n    note(); time.sleep(600)\n\
         if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: note(); time.sleep(600)\n    os._exit(0)\n\
         subprocess.Popen(['sh', '-c', 'echo $$ >> {} && sleep 600'], start_new_session=True)\n\
         while True: time.sleep(0.01)\n",
        pids.display()
    );
    std::fs::write(dir.path().join("endless.py"), module).unwrap();
    let began = Instant::now();
    let reply = imports(&python(), &["endless"], &[("PYTHONPATH", dir.path().as_os_str())], 2);
    assert_eq!(reply.ended.end, End::Timeout);
    assert!(began.elapsed() < Duration::from_secs(300), "no child was waited for");
    assert_eq!(reply.answer.lines, [Line::Importing { module: "endless".into() }]);
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 4, "{pids}");
    for pid in pids.lines() {
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let gone = || state().is_empty() || state().contains(") Z ");
        // A killed process needs a turn on a core to die.
        for _ in 0..500 {
            if gone() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(gone(), "{pid} still runs: {}", state());
    }
}

#[test]
fn noise_on_both_outputs_is_bounded_and_does_not_disturb_the_answer() {
    let dir = TempDir::new().unwrap();
    let noisy =
        "import sys\nfor n in range(100000):\n    print('out', n)\n    print('err', n, file=sys.stderr)\n";
    std::fs::write(dir.path().join("noisy.py"), noisy).unwrap();
    let reply = imports(&python(), &["noisy"], &[("PYTHONPATH", dir.path().as_os_str())], 60);
    assert!(reply.answer.complete());
    assert_eq!((reply.ended.stdout.len(), reply.ended.stderr.len()), (128 * 1024, 128 * 1024));
    assert!(stderr(&reply).ends_with("err 99999\n"));
}

#[test]
fn a_crash_leaves_the_map_of_the_process() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("crashing.py"), "import ctypes, os\nos.abort()\n").unwrap();
    let reply = imports(&python(), &["crashing"], &[("PYTHONPATH", dir.path().as_os_str())], 20);
    assert_eq!(reply.ended.end, End::Signal(6));
    let has = |name: &str| reply.answer.mapped.iter().any(|p| p.to_string_lossy().contains(name));
    assert!(has("_ctypes") && has("libc.so.6"), "{:?}", reply.answer.mapped);
    assert!(!reply.answer.complete());
}

#[test]
fn opening_libraries_in_forked_children_tells_the_outcomes_apart() {
    use crate::python_support::cc;
    use rocm_fixup::python::{raw, wire::Opened};
    let dir = TempDir::new().unwrap();
    let lib = |name: &str, source: &str, args: &[&str]| {
        let path = dir.path().join(name);
        cc(source, &path, args);
        path
    };
    let fine = lib("libfine.so", "int fine(void){return 1;}", &["-Wl,-soname,libfine.so"]);
    let twin = dir.path().join("libtwin.so");
    std::fs::copy(&fine, &twin).unwrap();
    let symbol = lib("libsym.so", "int absent(void); int f(void){return absent();}", &[]);
    let crash = lib(
        "libcrash.so",
        "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) void c(void)\
         {fputs(\"last words\\n\", stderr); abort();}",
        &[],
    );
    let leave =
        lib("libleave.so", "#include <stdlib.h>\n__attribute__((constructor)) void c(void){exit(7);}", &[]);
    let hang = lib(
        "libhang.so",
        "#include <unistd.h>\n__attribute__((constructor)) void c(void){for(;;) pause();}",
        &[],
    );
    let jobs: Vec<Vec<_>> = [
        vec![&fine],
        vec![&symbol],
        vec![&crash],
        vec![&leave],
        vec![&hang],
        vec![&fine, &twin],
        vec![&fine, &fine],
    ]
    .iter()
    .map(|job| job.iter().map(|path| raw(path)).collect())
    .collect();
    let question = Question::OpenLibraries { jobs, parallel: 3, seconds: 0.5 };
    for python in pythons() {
        let reply = ask(&python, &question, &[], Duration::from_secs(30)).unwrap();
        assert!(reply.answer.complete(), "{}", stderr(&reply));
        let mut found: Vec<(usize, &Opened)> = reply
            .answer
            .lines
            .iter()
            .filter_map(
                |line| if let Line::Opened { job, outcome } = line { Some((*job, outcome)) } else { None },
            )
            .collect();
        found.sort_by_key(|(job, _)| *job);
        let outcomes: Vec<&Opened> = found.into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes[0], &Opened::Ok);
        assert!(
            matches!(outcomes[1], Opened::Error { text, .. } if text.contains("undefined symbol: absent"))
        );
        assert!(matches!(outcomes[2], Opened::Signal { number: 6, stderr } if stderr == "last words\n"));
        assert!(matches!(outcomes[3], Opened::Exit { code: 7, .. }), "{:?}", outcomes[3]);
        assert_eq!(outcomes[4], &Opened::Timeout);
        assert!(matches!(outcomes[5], Opened::TwoCopies { clashes } if clashes[0].soname == "libfine.so"));
        assert_eq!(outcomes[6], &Opened::Ok);
    }
}
