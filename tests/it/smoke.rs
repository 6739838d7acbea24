//! Each verdict of an import check, from a real extension module in a real interpreter.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rocm_fixup::check::{CheckResult, SmokeCheck, Verdict, smoke};
use rocm_fixup::python::directories;
use tempfile::TempDir;

use crate::python_support::{cc, include_dir, old_pythons, python, pythons, venv};

/// A virtual environment whose site-packages take compiled modules.
struct Place {
    dir: TempDir,
    include: String,
    command: PathBuf,
    site: PathBuf,
}

impl Place {
    fn new(python: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        let (command, site) = venv(python, &dir.path().canonicalize().unwrap().join("venv"));
        Self { include: include_dir(python), command, site, dir }
    }

    /// Compiles the module `name`, whose init function runs `body`.
    fn module(&self, name: &str, before: &str, body: &str, args: &[&str]) -> PathBuf {
        let source = format!(
            "#include <Python.h>\n#include <signal.h>\n#include <dlfcn.h>\n#include <unistd.h>\n{before}\n\
             static struct PyModuleDef def = {{PyModuleDef_HEAD_INIT, \"{name}\", 0, -1, 0}};\n\
             PyMODINIT_FUNC PyInit_{name}(void) {{ {body}; return PyModule_Create(&def); }}\n"
        );
        let path = self.site.join(format!("{name}.so"));
        let mut all = vec!["-I", &self.include];
        all.extend(args);
        cc(&source, &path, all);
        path
    }

    fn python(&self, name: &str, text: &str) {
        std::fs::write(self.site.join(format!("{name}.py")), text).unwrap();
    }

    fn check(&self, check: &SmokeCheck) -> CheckResult {
        smoke(&directories(&self.command, &[]).unwrap(), check).unwrap()
    }

    fn import(&self, module: &str) -> CheckResult {
        self.check(&SmokeCheck { timeout: Duration::from_secs(20), ..SmokeCheck::new(module) })
    }

    /// A library `name` in `folder` of the test's own.
    fn library(&self, folder: &str, name: &str, source: &str, args: &[&str]) -> PathBuf {
        let folder = self.dir.path().canonicalize().unwrap().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        let soname = format!("-Wl,-soname,{name}");
        cc(source, &path, [&[&*soname], args].concat());
        path
    }
}

#[track_caller]
fn expect(result: &CheckResult, verdict: Verdict, texts: &[&str]) {
    assert_eq!(result.verdict, verdict, "{result:?}");
    for text in texts {
        assert!(result.detail.contains(text), "no `{text}` in: {}", result.detail);
    }
}

#[test]
fn the_main_verdicts_hold_in_every_python() {
    for python in pythons() {
        let place = Place::new(&python);
        place.module("fine", "", "", &[]);
        place.module("wants_symbol", "int nowhere(void);", "nowhere()", &[]);
        place.module("aborts", "", "fputs(\"last words\\n\", stderr); abort()", &[]);
        place.module("aborts_later", "static void end(void){abort();}", "Py_AtExit(end)", &[]);
        expect(&place.import("fine"), Verdict::Ok, &["`fine` was imported"]);
        expect(&place.import("not_there"), Verdict::Absent, &["there is no module `not_there`"]);
        let texts = ["missing symbol `nowhere`, wanted by `", "wants_symbol.so`"];
        expect(&place.import("wants_symbol"), Verdict::ImportError, &texts);
        expect(&place.import("aborts"), Verdict::Signal, &["SIGABRT while importing `aborts`", "last words"]);
        expect(&place.import("aborts_later"), Verdict::Signal, &["SIGABRT at the interpreter's shutdown"]);
    }
}

#[test]
fn a_missing_library_is_named_with_who_wants_it_directly_or_further_down() {
    let place = Place::new(&python());
    let deep = place.library("deep", "libdeep.so.1", "int deep(void){return 1;}", &[]);
    let deep_text = deep.to_str().unwrap();
    let runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN";
    let near = place.library(
        "deep",
        "libnear.so.1",
        "int deep(void); int near(void){return deep();}",
        &[deep_text, runpath],
    );
    let folder = format!("-Wl,-rpath,{}", near.parent().unwrap().display());
    place.module("far", "int near(void);", "near()", &[near.to_str().unwrap(), &folder]);
    let unlinked = place.module("direct", "int deep(void);", "deep()", &[deep_text, &folder]);
    expect(&place.import("far"), Verdict::Ok, &[]);
    std::fs::remove_file(&deep).unwrap();
    let by = |path: &Path| format!("missing library `libdeep.so.1`, wanted by `{}`", path.display());
    expect(&place.import("far"), Verdict::ImportError, &[&by(&near)]);
    expect(&place.import("direct"), Verdict::ImportError, &[&by(&unlinked)]);
}

#[test]
fn an_error_that_is_hidden_behind_another_is_shown() {
    let place = Place::new(&python());
    place.module("real", "int nowhere(void);", "nowhere()", &[]);
    place.python(
        "hides",
        "try:\n    import real\nexcept ImportError:\n    raise RuntimeError('hides: module not found')\n",
    );
    place.python("lies", "raise ModuleNotFoundError(\"No module named 'lies'\", name='lies')\n");
    place.python("wants_other", "import other_module\n");
    let texts =
        ["RuntimeError: hides: module not found", "behind it: ImportError", "missing symbol `nowhere`"];
    expect(&place.import("hides"), Verdict::ImportError, &texts);
    expect(&place.import("lies"), Verdict::ImportError, &["its file is there: `", "lies.py`"]);
    expect(&place.import("wants_other"), Verdict::ImportError, &["No module named 'other_module'"]);
    expect(&place.import("hides.inner"), Verdict::ImportError, &[]);
    expect(&place.import("json.inner"), Verdict::Absent, &["`json.inner`"]);
}

#[test]
fn the_order_of_imports_is_kept_and_a_missing_first_one_is_named() {
    let place = Place::new(&python());
    let library = place.library("symbols", "libsymbols.so", "int given(void){return 1;}", &[]);
    let open = format!("if (!dlopen(\"{}\", RTLD_NOW|RTLD_GLOBAL)) abort()", library.display());
    place.module("torch", "", &open, &[]);
    place.module("fused_weight_gradient_mlp_cuda", "int given(void);", "given()", &[]);
    let module = "fused_weight_gradient_mlp_cuda";
    expect(&place.import(module), Verdict::ImportError, &["missing symbol `given`"]);
    let after = |preload: &str| SmokeCheck { preload: vec![preload.into()], ..SmokeCheck::new(module) };
    expect(&place.check(&after("torch")), Verdict::Ok, &["after torch"]);
    expect(&place.check(&after("tarch")), Verdict::Absent, &["no module `tarch`, which is imported first"]);
}

#[test]
fn crashes_exits_and_hangs_are_told_apart() {
    let place = Place::new(&python());
    place.module("segfaults", "", "*(volatile int *)0 = 1", &[]);
    place.module("exits", "", "exit(3)", &[]);
    place.module("leaves", "", "_exit(0)", &[]);
    place.module("exits_late", "static void end(void){_exit(5);}", "Py_AtExit(end)", &[]);
    place.module("hangs", "", "for(;;) pause()", &[]);
    place.module("hangs_late", "static void end(void){for(;;) pause();}", "Py_AtExit(end)", &[]);
    place.python("exits_politely", "raise SystemExit(4)\n");
    expect(&place.import("segfaults"), Verdict::Signal, &["SIGSEGV while importing `segfaults`"]);
    expect(&place.import("exits"), Verdict::Fail, &["code 3 while importing `exits`"]);
    expect(&place.import("leaves"), Verdict::Fail, &["code 0 while importing `leaves`"]);
    expect(&place.import("exits_late"), Verdict::Fail, &["code 5 at the interpreter's shutdown"]);
    expect(&place.import("exits_politely"), Verdict::ImportError, &["SystemExit: 4"]);
    let short = |module: &str| SmokeCheck { timeout: Duration::from_secs(1), ..SmokeCheck::new(module) };
    let hangs = place.check(&short("hangs"));
    expect(&hangs, Verdict::Timeout, &["stopped after 1 s while importing `hangs`"]);
    assert!((1.0..5.0).contains(&hangs.seconds), "{hangs:?}");
    let endless = SmokeCheck { timeout: Duration::MAX, ..SmokeCheck::new("json") };
    expect(&place.check(&endless), Verdict::Ok, &[]);
    expect(&place.check(&short("hangs_late")), Verdict::Timeout, &["at the interpreter's shutdown"]);
}

#[test]
fn noise_is_shown_by_its_end_and_a_child_that_stays_is_ended() {
    let place = Place::new(&python());
    place.module(
        "noisy",
        "",
        "for (int i = 0; i < 100000; i++) printf(\"noise %d\\n\", i); fflush(stdout)",
        &[],
    );
    place.python("noisy_and_broken", "import noisy\nraise ValueError('broken')\n");
    expect(&place.import("noisy"), Verdict::Ok, &[]);
    let broken = place.import("noisy_and_broken");
    expect(&broken, Verdict::ImportError, &["ValueError: broken"]);
    assert!(broken.output.unwrap().ends_with("noise 99999"));

    let pid_file = place.dir.path().join("pid");
    let body = format!(
        "if (fork() == 0) {{ setsid(); FILE *f = fopen(\"{}\", \"w\"); fprintf(f, \"%d\", getpid()); fclose(f); \
         for(;;) pause(); }} while (access(\"{0}\", F_OK)) usleep(1000); usleep(50000)",
        pid_file.display()
    );
    place.module("forks", "", &body, &[]);
    expect(&place.import("forks"), Verdict::Ok, &[]);
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{pid} still runs: {state}");
}

/// Daemons close all that they inherited, and open files of their own under those numbers.
#[test]
fn a_module_that_reuses_every_descriptor_is_judged_and_finds_nothing_in_its_files() {
    let place = Place::new(&python());
    let own = place.dir.path().join("own.log");
    let reuse = format!(
        "import os\nos.closerange(3, 4096)\nfiles = [os.open('{}', os.O_RDWR | os.O_CREAT | os.O_APPEND) for _ in \
         range(200)]\n",
        own.display()
    );
    place.python("daemon", &reuse);
    place.python("broken_daemon", &format!("{reuse}raise ImportError('broken')\n"));
    place.python("aborting_daemon", &format!("{reuse}os.abort()\n"));
    expect(&place.import("daemon"), Verdict::Ok, &[]);
    expect(&place.import("broken_daemon"), Verdict::ImportError, &["ImportError: broken"]);
    expect(&place.import("aborting_daemon"), Verdict::Signal, &["while importing `aborting_daemon`"]);
    assert_eq!(std::fs::read(own).unwrap(), b"");
}

#[test]
fn nothing_is_answered_through_the_descriptors_that_a_module_inherits() {
    let place = Place::new(&python());
    place.python(
        "scribbles",
        "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'Z')\n    except OSError: pass\n\
         raise ImportError('broken')\n",
    );
    expect(&place.import("scribbles"), Verdict::ImportError, &["ImportError: broken"]);
}

#[test]
fn what_a_forked_child_comes_to_is_no_answer_of_its_parent() {
    let place = Place::new(&python());
    place.python("forks", "import os\nif os.fork():\n    os.wait()\n    os._exit(0)\n");
    place.python(
        "forks_well",
        "import os\npid = os.fork()\nif not pid:\n    raise SystemExit(3)\nos.waitpid(pid, 0)\n",
    );
    expect(&place.import("forks"), Verdict::Fail, &["code 0 while importing `forks`"]);
    expect(&place.import("forks_well"), Verdict::Ok, &[]);
}

#[test]
fn a_missing_gpu_fails_unless_it_is_optional() {
    let place = Place::new(&python());
    let warning = "import os, sys, warnings; warnings.warn('No HIP GPUs are available')\n";
    for (name, end, verdict) in [
        ("exits_well", "os._exit(0)", Verdict::Fail),
        ("exits", "os._exit(3)", Verdict::Fail),
        ("aborts", "os.abort()", Verdict::Signal),
        ("killed", "os.kill(os.getpid(), 9)", Verdict::Signal),
        ("raises", "raise RuntimeError('another thing')", Verdict::ImportError),
    ] {
        place.python(name, &format!("{warning}{end}\n"));
        let check = place.check(&SmokeCheck { gpu_optional: true, ..SmokeCheck::new(name) });
        expect(&check, verdict, &[]);
        assert!(check.failed());
    }
    place.python("gpu", "raise RuntimeError('No HIP GPUs are available')\n");
    place.module("gpu_abort", "", "fputs(\"no ROCm-capable device is detected\\n\", stderr); abort()", &[]);
    let gpu = place.import("gpu");
    expect(&gpu, Verdict::NeedsGpu, &["No HIP GPUs are available"]);
    assert!(gpu.failed());
    expect(&place.import("gpu_abort"), Verdict::NeedsGpu, &[]);
    let optional = place.check(&SmokeCheck { gpu_optional: true, ..SmokeCheck::new("gpu") });
    assert!(!optional.failed());
}

#[test]
fn two_files_of_one_soname_are_found_after_a_quiet_import_and_after_a_crash() {
    let place = Place::new(&python());
    let source = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void once(void) {\n\
                  if (getenv(\"TWIN_STRICT\") && getenv(\"TWIN_SEEN\")) { fputs(\": CommandLine Error: Option 'x' \
                  registered more than once!\\n\", stderr); abort(); } setenv(\"TWIN_SEEN\", \"1\", 1); }";
    let core = place.library("core", "libtwin.so.1", source, &[]);
    let devel = place.library("devel", "libtwin.so.1", source, &[]);
    let open = |path: &Path| format!("dlopen(\"{}\", RTLD_NOW|RTLD_GLOBAL)", path.display());
    place.module("twice", "", &format!("{}; {}", open(&core), open(&devel)), &[]);
    let names = format!("libtwin.so.1 is loaded from `{}` and `{}`", core.display(), devel.display());
    expect(&place.import("twice"), Verdict::TwoCopies, &[&names]);
    let strict = SmokeCheck { env: vec![("TWIN_STRICT".into(), "1".into())], ..SmokeCheck::new("twice") };
    let crashed = place.check(&strict);
    expect(&crashed, Verdict::Signal, &["SIGABRT", "registered more than once!", &names]);

    // A link in place of the copy, and all is well.
    std::fs::remove_file(&devel).unwrap();
    std::os::unix::fs::symlink("../core/libtwin.so.1", &devel).unwrap();
    expect(&place.check(&strict), Verdict::Ok, &[]);

    // Extension modules of two packages may share a name: Python tells them apart by path.
    for package in ["one", "two"] {
        std::fs::create_dir(place.site.join(package)).unwrap();
        let built = place.module("libinner", "", "", &["-Wl,-soname,libinner.so"]);
        std::fs::rename(built, place.site.join(package).join("libinner.so")).unwrap();
    }
    place.python("both", "import one.libinner, two.libinner\n");
    expect(&place.import("both"), Verdict::Ok, &[]);
}

#[test]
fn lazy_binding_that_fails_in_a_call_is_a_missing_symbol() {
    let place = Place::new(&python());
    // Python opens modules with RTLD_NOW; a library behind them can still be bound lazily.
    let lazy = place.library(
        "lazy",
        "liblazy.so",
        "int nowhere(void); int lazy(void){return nowhere();}",
        &["-Wl,-z,lazy", "-Wl,--allow-shlib-undefined"],
    );
    let body =
        format!("void *h = dlopen(\"{}\", RTLD_LAZY); ((int (*)(void))dlsym(h, \"lazy\"))()", lazy.display());
    place.module("calls_lazy", "", &body, &[]);
    let texts = ["missing symbol `nowhere`, wanted by `", "liblazy.so`"];
    expect(&place.import("calls_lazy"), Verdict::ImportError, &texts);
}

#[test]
fn an_interpreter_that_can_run_no_checks_is_an_error_not_a_verdict() {
    for python in old_pythons().into_iter().take(1) {
        let interpreter = directories(&python, &[]).unwrap();
        let error = smoke(&interpreter, &SmokeCheck::new("json")).unwrap_err();
        assert!(format!("{error:#}").contains("checks need CPython 3.8 or newer"), "{error:#}");
    }
    let place = Place::new(&python());
    let interpreter = directories(&place.command, &[]).unwrap();
    std::fs::write(place.site.join("dies.pth"), "import os; os._exit(9)\n").unwrap();
    let error = smoke(&interpreter, &SmokeCheck::new("json")).unwrap_err();
    assert!(format!("{error:#}").contains("it ended with code 9"), "{error:#}");
}

#[test]
fn a_module_that_is_named_and_skipped_is_no_success() {
    let call =
        crate::cli::tool(&["smoke", "json", "--skip", "json", "--python"]).arg(python()).output().unwrap();
    assert_eq!(call.status.code(), Some(2), "{call:?}");
    assert!(String::from_utf8_lossy(&call.stderr).contains("to be checked and to be skipped"), "{call:?}");
}
