//! Opening all libraries of an SDK: each outcome, twins before and after the merge.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocm_fixup::check::{CheckResult, LibraryOptions, Verdict, libraries};
use rocm_fixup::discover::{Environment, Options, Surroundings, locate_in};
use tempfile::TempDir;

use crate::python_support::{cc, python};

/// A site-packages directory with core and devel.
struct Sdk {
    _dir: TempDir,
    core: PathBuf,
    devel: PathBuf,
    env: Environment,
}

impl Sdk {
    fn new() -> Self {
        Self::by(python())
    }

    fn by(python: PathBuf) -> Self {
        let dir = TempDir::new().unwrap();
        let site = dir.path().canonicalize().unwrap();
        let (core, devel) = (site.join("_rocm_sdk_core/lib"), site.join("_rocm_sdk_devel/lib"));
        std::fs::create_dir_all(&core).unwrap();
        std::fs::create_dir_all(&devel).unwrap();
        let options = Options { python: Some(python), site_packages: vec![site] };
        let env = locate_in(&options, &Surroundings::default()).unwrap();
        Self { _dir: dir, core, devel, env }
    }

    fn library(&self, name: &str, source: &str, args: &[&str]) -> PathBuf {
        let path = self.core.join(name);
        let soname = format!("-Wl,-soname,{name}");
        cc(source, &path, [&[&*soname], args].concat());
        path
    }

    fn check(&self) -> Vec<CheckResult> {
        let exception = |path: &str| path.contains("libclang_rt").then(|| "a sanitizer's runtime".to_owned());
        let options =
            LibraryOptions { exception: &exception, timeout: Duration::from_secs(2), gpu_optional: true };
        libraries(self.env.needed_interpreter().unwrap(), &self.env.trees, &options).unwrap()
    }
}

/// Name, verdict and detail of each row.
fn rows(results: &[CheckResult]) -> Vec<(&str, Verdict, &str)> {
    results.iter().map(|row| (&*row.name, row.verdict, &*row.detail)).collect()
}

#[test]
fn each_library_is_opened_once_and_the_odd_ones_are_named() {
    let sdk = Sdk::new();
    assert_eq!(rows(&sdk.check()), [("libraries", Verdict::Skipped, "there is no library of an SDK here")]);
    let start = |body: &str| {
        format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                 __attribute__((constructor)) static void start(void) {{ {body} }}"
        )
    };
    sdk.library("libfine.so.1", "int fine(void){return 1;}", &[]);
    std::fs::write(sdk.core.join("libscript.so"), "INPUT(libfine.so.1)").unwrap();
    sdk.library("libaborts.so", &start("fputs(\"why\\n\", stderr); abort();"), &[]);
    sdk.library("libclang_rt.asan.so", &start("abort();"), &[]);
    sdk.library("libgpu.so", &start("fputs(\"No HIP GPUs are available\\n\", stderr); abort();"), &[]);
    sdk.library("libhangs.so", &start("for(;;) pause();"), &[]);
    sdk.library("libsymbol.so", "int nowhere(void); int f(void){return nowhere();}", &[]);
    symlink("gone.so", sdk.core.join("libdangling.so")).unwrap();
    let results = sdk.check();
    let named: Vec<(&str, Verdict)> = results.iter().map(|row| (&*row.name, row.verdict)).collect();
    let core = |name: &str| format!("_rocm_sdk_core/lib/{name}");
    let expected = [
        ("libraries".to_owned(), Verdict::Fail),
        (core("libaborts.so"), Verdict::Signal),
        (core("libdangling.so"), Verdict::ImportError),
        (core("libgpu.so"), Verdict::NeedsGpu),
        (core("libhangs.so"), Verdict::Timeout),
        (core("libsymbol.so"), Verdict::ImportError),
        (core("libclang_rt.asan.so"), Verdict::Skipped),
    ];
    assert_eq!(named, expected.iter().map(|(name, verdict)| (&**name, *verdict)).collect::<Vec<_>>());
    assert_eq!(results[0].detail, "4 failures among 6 libraries, and 0 pairs in both orders");
    assert_eq!(results[1].detail, "killed by SIGABRT\nwhy");
    assert!(results[5].detail.starts_with("missing symbol `nowhere`, wanted by `"), "{}", results[5].detail);
    assert!(!results[3].failed(), "a missing GPU is tolerated here");
    assert_eq!(results[6].detail, "a sanitizer's runtime");
}

#[test]
fn what_only_looks_like_an_opened_library_is_none() {
    let sdk = Sdk::new();
    let own = sdk.core.join("../own.log");
    let start = |body: &str| {
        format!(
            "#include <fcntl.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
             __attribute__((constructor)) static void start(void) {{ {body} }}"
        )
    };
    sdk.library("libforks.so", &start("if (fork()) { wait(0); _exit(0); }"), &[]);
    let reuse = format!(
        "for (int i = 3; i < 256; i++) close(i); for (int i = 0; i < 200; i++) open(\"{}\", O_RDWR|O_CREAT|O_APPEND, 0600);",
        own.display()
    );
    sdk.library("libreuses.so", &start(&reuse), &[]);
    std::fs::write(sdk.core.join("libpointer.so.1"), "version https://git-lfs.github.com/spec/v1\nsize 5\n")
        .unwrap();
    // devel's libraries lie elsewhere, and one of them is torn.
    let out = sdk.core.join("../../elsewhere");
    std::fs::rename(&sdk.devel, &out).unwrap();
    symlink(&out, &sdk.devel).unwrap();
    std::fs::write(out.join("libtorn.so.1"), b"\x7fELF").unwrap();
    let results = sdk.check();
    let (core, devel) = ("_rocm_sdk_core/lib", "_rocm_sdk_devel/lib");
    let expected = [
        ("libraries".to_owned(), Verdict::Fail),
        (format!("{core}/libforks.so"), Verdict::Fail),
        (format!("{core}/libpointer.so.1"), Verdict::ImportError),
        (format!("{devel}/libtorn.so.1"), Verdict::ImportError),
    ];
    let named: Vec<(String, Verdict)> = results.iter().map(|row| (row.name.clone(), row.verdict)).collect();
    assert_eq!(named, expected);
    assert_eq!(results[0].detail, "3 failures among 4 libraries, and 0 pairs in both orders");
    assert_eq!(std::fs::read(own).unwrap(), b"");
}

#[test]
fn twins_are_opened_in_both_orders_before_and_after_the_merge() {
    let sdk = Sdk::new();
    let core = sdk.library("libtwin.so.1", "int twin(void){return 1;}", &[]);
    let (devel, alias) = (sdk.devel.join("libtwin.so.1"), sdk.devel.join("libtwin.so"));
    std::fs::copy(&core, &devel).unwrap();
    std::fs::hard_link(&devel, &alias).unwrap();
    let results = sdk.check();
    let text = |first: &Path, then: &Path| {
        let (first, then) = (first.display(), then.display());
        format!("opened after `{first}`: libtwin.so.1 is loaded from `{first}` and `{then}`")
    };
    let (alias_name, devel_name) = ("_rocm_sdk_devel/lib/libtwin.so", "_rocm_sdk_devel/lib/libtwin.so.1");
    let core_name = "_rocm_sdk_core/lib/libtwin.so.1";
    assert_eq!(
        rows(&results),
        [
            ("libraries", Verdict::Fail, "4 failures among 2 libraries, and 2 pairs in both orders"),
            (alias_name, Verdict::TwoCopies, &*text(&core, &alias)),
            (core_name, Verdict::TwoCopies, &*text(&alias, &core)),
            (devel_name, Verdict::TwoCopies, &*text(&core, &devel)),
            (core_name, Verdict::TwoCopies, &*text(&devel, &core)),
        ]
    );
    for name in [&devel, &alias] {
        std::fs::remove_file(name).unwrap();
        symlink("../../_rocm_sdk_core/lib/libtwin.so.1", name).unwrap();
    }
    let merged = "opened 1 library, and 1 pair in both orders";
    assert_eq!(rows(&sdk.check()), [("libraries", Verdict::Ok, merged)]);
}

/// That is what makes it several times as fast as one interpreter for each: see `benches/libraries`.
#[test]
fn one_interpreter_opens_all_libraries() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let (counted, log) = (dir.path().join("python3"), dir.path().join("log"));
    let script =
        format!("#!/bin/sh\necho started >>'{}'\nexec '{}' \"$@\"\n", log.display(), python().display());
    std::fs::write(&counted, script).unwrap();
    std::fs::set_permissions(&counted, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sdk = Sdk::by(counted);
    for n in 0..20 {
        sdk.library(&format!("lib{n}.so"), &format!("int f{n}(void){{return {n};}}"), &[]);
    }
    let started = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let before = started();
    assert_eq!(sdk.check()[0].verdict, Verdict::Ok);
    assert_eq!(started() - before, 1);
}
