//! Every verdict from literals: what was seen, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::python::wire::Clash;
use crate::python::{Answer, Ended, Reply};

fn seen(lines: Vec<Line>, end: End, stderr: &str) -> Seen {
    let ended = Ended { end, stdout: Vec::new(), stderr: stderr.into(), seconds: 0.5 };
    let answer = Answer { lines, ..Answer::default() };
    Seen { reply: Reply { answer, ended }, clashes: Vec::new(), mapped: Vec::new(), wanted_by: None }
}

fn importing() -> Line {
    Line::Importing { module: "m".into() }
}

fn complete() -> Vec<Line> {
    vec![importing(), Line::Loaded { objects: Vec::new() }, Line::End]
}

fn exception(kind: &str, text: &str, name: Option<&str>) -> Raised {
    Raised {
        kind: kind.into(),
        text: text.into(),
        name: name.map(Into::into),
        path: None,
        not_found: kind == "ModuleNotFoundError",
        import_error: kind.ends_with("ImportError") || kind == "ModuleNotFoundError",
    }
}

fn raised(exceptions: Vec<Raised>, found: Option<&str>) -> Vec<Line> {
    let found = found.map(|file| Raw::Text(file.into()));
    let mut lines = complete();
    lines.insert(1, Line::Raised { module: "m".into(), found, exceptions });
    lines
}

fn judged(seen: &Seen) -> (Verdict, String) {
    let result = judge(&SmokeCheck::new("m"), seen);
    (result.verdict, result.detail)
}

#[test]
fn a_clean_end_is_ok_and_says_after_what() {
    let check = SmokeCheck { preload: vec!["torch".into()], ..SmokeCheck::new("m") };
    let result = judge(&check, &seen(complete(), End::Exit(0), "a warning"));
    assert_eq!((result.verdict, result.failed(), result.output), (Verdict::Ok, false, None));
    assert_eq!(result.detail, "`m` was imported after torch");
}

#[test]
fn absent_is_only_what_is_not_there() {
    let text = "No module named 'm'";
    let not_found = || vec![exception("ModuleNotFoundError", text, Some("m"))];
    assert_eq!(judged(&seen(raised(not_found(), None), End::Exit(0), "")).0, Verdict::Absent);
    // The file is there, and raises that very error itself, as apex does.
    let (verdict, detail) = judged(&seen(raised(not_found(), Some("/s/m.py")), End::Exit(0), ""));
    assert_eq!(verdict, Verdict::ImportError);
    assert!(detail.contains("its file is there: `/s/m.py`"), "{detail}");
    // Something that it needs is not there.
    let other = vec![exception("ModuleNotFoundError", "No module named 'n'", Some("n"))];
    assert_eq!(judged(&seen(raised(other, None), End::Exit(0), "")).0, Verdict::ImportError);
    let longer = vec![exception("ModuleNotFoundError", "No module named 'mm'", Some("mm"))];
    assert_eq!(judged(&seen(raised(longer, None), End::Exit(0), "")).0, Verdict::ImportError);
}

#[test]
fn an_import_error_names_what_is_missing_and_who_wants_it() {
    let hidden = vec![
        exception("RuntimeError", "apex extension not found", None),
        exception(
            "ImportError",
            "libx.so.1: cannot open shared object file: No such file or directory",
            None,
        ),
    ];
    let mut seen = seen(raised(hidden, None), End::Exit(0), "");
    seen.wanted_by = Some(PathBuf::from("/s/m.so"));
    let (verdict, detail) = judged(&seen);
    assert_eq!(verdict, Verdict::ImportError);
    assert!(
        detail.starts_with("`m`: RuntimeError: apex extension not found\nbehind it: ImportError: "),
        "{detail}"
    );
    assert!(detail.ends_with("missing library `libx.so.1`, wanted by `/s/m.so`"), "{detail}");
}

#[test]
fn a_missing_gpu_is_tolerated_only_where_it_is_optional() {
    let gpu = seen(
        raised(vec![exception("RuntimeError", "No HIP GPUs are available", None)], None),
        End::Exit(0),
        "",
    );
    let strict = judge(&SmokeCheck::new("m"), &gpu);
    assert_eq!((strict.verdict, strict.failed()), (Verdict::NeedsGpu, true));
    let optional = judge(&SmokeCheck { gpu_optional: true, ..SmokeCheck::new("m") }, &gpu);
    assert_eq!((optional.verdict, optional.failed()), (Verdict::NeedsGpu, false));
    let grumble = "hsa_init failed";
    let broken = vec![exception("ImportError", "/s/m.so: undefined symbol: f", None)];
    assert_eq!(judged(&seen(raised(broken, None), End::Exit(0), grumble)).0, Verdict::ImportError);
    let other = vec![exception("RuntimeError", "initialisation failed", None)];
    assert_eq!(judged(&seen(raised(other, None), End::Exit(0), grumble)).0, Verdict::NeedsGpu);
    let aborted = seen(vec![importing()], End::Signal(6), "no ROCm-capable device is detected\n");
    assert_eq!(judged(&aborted).0, Verdict::NeedsGpu);
}

#[test]
fn a_signal_is_named_with_its_moment_and_the_last_words() {
    let (verdict, detail) = judged(&seen(vec![importing()], End::Signal(11), "one\ntwo\n"));
    assert_eq!(verdict, Verdict::Signal);
    assert_eq!(detail, "killed by SIGSEGV while importing `m`\none\ntwo");
    let (verdict, detail) = judged(&seen(complete(), End::Signal(6), ""));
    assert_eq!(verdict, Verdict::Signal);
    assert_eq!(detail, "killed by SIGABRT at the interpreter's shutdown, after the imports");
}

#[test]
fn two_llvms_are_named_by_their_files() {
    let stderr = ": CommandLine Error: Option 'x' registered more than once!\nLLVM ERROR: inconsistency";
    let mut twins = seen(vec![importing()], End::Signal(6), stderr);
    let paths = vec![Raw::Text("/core/libLLVM.so.20".into()), Raw::Text("/devel/libLLVM.so.20".into())];
    twins.clashes = vec![Clash { soname: "libLLVM.so.20".into(), paths }];
    let (verdict, detail) = judged(&twins);
    assert_eq!(verdict, Verdict::Signal);
    let files = "libLLVM.so.20 is loaded from `/core/libLLVM.so.20` and `/devel/libLLVM.so.20`";
    assert!(detail.ends_with(files), "{detail}");
    // The same through `exit(1)`: no signal tells, the sentence does.
    twins.reply.ended.end = End::Exit(1);
    let (verdict, detail) = judged(&twins);
    assert_eq!(verdict, Verdict::TwoCopies);
    assert!(detail.ends_with(files), "{detail}");
    // Two different libraries with LLVM inside have different names.
    twins.clashes.clear();
    twins.mapped = vec!["/a/libamd_comgr.so.3".into(), "/b/libtriton.so".into(), "/c/libc.so.6".into()];
    assert!(judged(&twins).1.ends_with("mapped at that moment: `/a/libamd_comgr.so.3`, `/b/libtriton.so`"));
}

#[test]
fn two_copies_without_a_crash_fail_too() {
    let mut twins = seen(complete(), End::Exit(0), "");
    let paths = vec![Raw::Text("/a/libx.so".into()), Raw::Bytes(b"/b\xff/libx.so".to_vec())];
    twins.clashes = vec![Clash { soname: "libx.so".into(), paths }];
    let (verdict, detail) = judged(&twins);
    assert_eq!(verdict, Verdict::TwoCopies);
    assert!(detail.starts_with("libx.so is loaded from `/a/libx.so` and `/b"), "{detail}");
}

#[test]
fn a_hang_says_where() {
    let check = SmokeCheck { timeout: Duration::from_secs(3), ..SmokeCheck::new("m") };
    let result = judge(&check, &seen(vec![importing()], End::Timeout, ""));
    assert_eq!(
        (result.verdict, &*result.detail),
        (Verdict::Timeout, "stopped after 3 s while importing `m`")
    );
    let result = judge(&check, &seen(complete(), End::Timeout, ""));
    assert!(result.detail.contains("at the interpreter's shutdown"));
}

#[test]
fn the_exit_code_after_the_shutdown_counts() {
    let (verdict, detail) = judged(&seen(complete(), End::Exit(3), ""));
    assert_eq!(verdict, Verdict::Fail);
    assert!(detail.contains("ended with code 3 at the interpreter's shutdown"), "{detail}");
    // A module that calls `_exit(0)` was not imported.
    assert_eq!(judged(&seen(vec![importing()], End::Exit(0), "")).0, Verdict::Fail);
    // Lazy binding fails long after the load.
    let stderr = "/usr/bin/python3: symbol lookup error: /s/m.so: undefined symbol: f";
    let (verdict, detail) = judged(&seen(vec![importing()], End::Exit(127), stderr));
    assert_eq!(verdict, Verdict::ImportError);
    assert!(detail.contains("missing symbol `f`, wanted by `/s/m.so`"), "{detail}");
    let both = raised(vec![exception("ImportError", "no", None)], None);
    let (verdict, detail) = judged(&seen(both, End::Signal(11), ""));
    assert_eq!(verdict, Verdict::ImportError);
    assert!(detail.ends_with("then SIGSEGV killed the interpreter at its shutdown"), "{detail}");
}

#[test]
fn a_grumble_about_the_gpu_excuses_nothing_that_comes_after_it() {
    let grumble = "No HIP GPUs are available\n";
    let missing = format!("{grumble}libx.so.1: cannot open shared object file: No such file or directory\n");
    assert_eq!(judged(&seen(vec![importing()], End::Signal(6), &missing)).0, Verdict::ImportError);
    let later = format!("{grumble}loading a\nloading b\nloading c\n");
    assert_eq!(judged(&seen(vec![importing()], End::Signal(6), &later)).0, Verdict::Signal);
}

/// The runtime says it in its last words, and aborts or ends with an error. Whatever else ends a process has another cause.
#[test]
fn a_missing_gpu_explains_an_abort_or_an_error_and_no_other_end() {
    let words = "terminate called\n  what():  HIP error: no ROCm-capable device is detected\n";
    let verdict = |end, words: &str| judged(&seen(vec![importing()], end, words)).0;
    for end in [End::Signal(6), End::Exit(1), End::Exit(255)] {
        assert_eq!(verdict(end, words), Verdict::NeedsGpu, "{end:?}");
    }
    for signal in [4, 7, 8, 9, 11, 15] {
        assert_eq!(verdict(End::Signal(signal), words), Verdict::Signal, "{signal}");
    }
    assert_eq!(verdict(End::Exit(0), words), Verdict::Fail);
    // What a warning says ended nothing.
    for warning in [
        "/s/m.py:1: UserWarning: No HIP GPUs are available\n  warnings.warn(text)\n",
        "WARNING 11-30 10:00:00 [platform.py:1] No HIP GPUs are available\n",
        "[W1130 10:00:00 c.cpp:1] hipErrorNoDevice\n",
    ] {
        assert_eq!(verdict(End::Signal(6), warning), Verdict::Signal, "{warning}");
        assert_eq!(verdict(End::Exit(3), warning), Verdict::Fail, "{warning}");
        let raised = raised(vec![exception("RuntimeError", "another thing", None)], None);
        assert_eq!(judged(&seen(raised, End::Exit(0), warning)).0, Verdict::ImportError, "{warning}");
    }
    let llvm =
        "no ROCm-capable device is detected\n: CommandLine Error: Option 'x' registered more than once!\n";
    assert_eq!(verdict(End::Signal(6), llvm), Verdict::Signal);
}
