//! Requirements against real metadata: written here, compiled here, and installed by pip from real wheels.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rocm_fixup::check::{CheckResult, Kind, SmokeCheck, Verdict, require, smoke};
use rocm_fixup::discover::{Environment, Options, Surroundings, locate_in};
use tempfile::TempDir;

use crate::python_support::{cc, distribution, include_dir, output, pip_install, pip_python, python, venv};

pub fn environment(python: Option<&Path>, site: &Path) -> Environment {
    let options = Options { python: python.map(Path::to_path_buf), site_packages: vec![site.to_path_buf()] };
    locate_in(&options, &Surroundings::default()).unwrap()
}

#[track_caller]
fn check(env: &Environment, rule: &str) -> CheckResult {
    let result = require(&rule.parse().unwrap(), env);
    assert_eq!((result.kind, &*result.name), (Kind::Require, rule));
    result
}

#[track_caller]
pub fn expect(env: &Environment, rule: &str, verdict: Verdict, texts: &[&str]) {
    let result = check(env, rule);
    assert_eq!(result.verdict, verdict, "{rule}: {}", result.detail);
    for text in texts {
        assert!(result.detail.contains(text), "{rule}: no `{text}` in: {}", result.detail);
    }
}

pub fn site() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

#[test]
fn versions_locals_and_presence_are_read_from_dist_info_without_an_interpreter() {
    let (_dir, site) = site();
    distribution(&site, "torch", "2.9.0+rocm7.0", "");
    distribution(&site, "PyBind11", "3.1.0", "");
    distribution(&site, "pk", "", "");
    let env = environment(None, &site);
    expect(&env, "torch+rocm", Verdict::Ok, &["torch 2.9.0+rocm7.0 is installed"]);
    expect(&env, "torch>=2.9", Verdict::Ok, &[]);
    expect(&env, "pybind11<3.1.0", Verdict::Fail, &["PyBind11 3.1.0 is installed, not <3.1.0"]);
    expect(&env, "installed torch", Verdict::Ok, &[]);
    expect(&env, "installed pk", Verdict::Ok, &["pk of unknown version is installed"]);
    expect(&env, "pk>=1", Verdict::Unproven, &["pk of unknown version is installed, whose version can't be"]);
    expect(&env, "installed torchvision", Verdict::Absent, &["torchvision is not installed"]);
    expect(&env, "torchvision>=1", Verdict::Absent, &[]);
    expect(&env, "requires-met torch", Verdict::Unproven, &["for an interpreter to say"]);
    expect(&env, "glibc>=2.2", Verdict::Ok, &["the image has glibc 2."]);
    expect(&env, "glibc>=99", Verdict::Fail, &["not >=99"]);
    assert!(check(&env, "glibc>=99").failed() && !check(&env, "installed torch").failed());
}

#[test]
fn declared_dependencies_are_judged_with_their_markers() {
    let (_dir, site) = site();
    let wants =
        |lines: &str| lines.lines().map(|line| format!("Requires-Dist: {line}\n")).collect::<String>();
    let fine =
        "present>=1\nabsent; python_version < '3'\nabsent; extra == 'all'\nabsent; sys_platform == 'win32'";
    distribution(&site, "fine", "1.0", &wants(fine));
    distribution(&site, "broken", "1.0", &wants("present<1; python_version >= '3'\nnot-there\npresent"));
    distribution(&site, "unclear", "1.0", &wants("what is this??\npresent"));
    distribution(&site, "present", "1.5", "");
    let env = environment(Some(&python()), &site);
    expect(&env, "requires-met fine", Verdict::Ok, &["all 1 dependencies are met"]);
    let texts = ["present<1; python_version >= '3': present 1.5 is installed", "not-there: not installed"];
    expect(&env, "requires-met broken", Verdict::Fail, &texts);
    expect(&env, "requires-met unclear", Verdict::Unproven, &["`what is this??` can't be understood"]);
}

#[test]
fn dependencies_of_extras_are_judged_where_an_extra_is_asked_for() {
    let (_dir, site) = site();
    let make = |name: &str, extras: &str, lines: &str| {
        let extras = extras.split_whitespace().map(|extra| format!("Provides-Extra: {extra}\n"));
        let wants = lines.lines().map(|line| format!("Requires-Dist: {line}\n"));
        distribution(&site, name, "1.0", &extras.chain(wants).collect::<String>());
    };
    make("plain", "", "server");
    make("asks", "", "server[fast]>=1");
    make("deep", "", "server[all]; python_version >= '3'");
    make("not-here", "", "server[fast]; sys_platform == 'win32'");
    make("loop", "", "server[self]");
    let server = "present\nabsent>=2; extra == 'fast'\nserver[fast, self]; extra == 'all'\nserver[self]; extra == 'self'";
    make("server", "fast all Self_Made self", server);
    distribution(&site, "present", "1.5", "");
    let env = environment(Some(&python()), &site);
    for fine in ["plain", "not-here", "loop", "server", "server[self-made]"] {
        expect(&env, &format!("requires-met {fine}"), Verdict::Ok, &[]);
    }
    for broken in ["asks", "deep", "server[all]", "server[ALL, self]"] {
        expect(
            &env,
            &format!("requires-met {broken}"),
            Verdict::Fail,
            &["absent>=2; extra == 'fast': not installed"],
        );
    }
    expect(&env, "requires-met asks", Verdict::Fail, &["asks 1.0 wants", "server[fast] wants absent"]);
    expect(&env, "requires-met server[none]", Verdict::Fail, &["server 1.0 has no extra `none`"]);
    distribution(&site, "absent", "1.0", "");
    let texts = ["server[fast,self] wants absent>=2; extra == 'fast': absent 1.0 is installed"];
    expect(&env, "requires-met deep", Verdict::Fail, &texts);
}

#[test]
fn what_an_egg_info_depends_on_is_read_as_python_reads_it() {
    let (_dir, site) = site();
    let egg = site.join("legacy-1.0-py3.11.egg-info");
    std::fs::create_dir(&egg).unwrap();
    std::fs::write(egg.join("PKG-INFO"), "Metadata-Version: 1.2\nName: legacy\nVersion: 1.0\n").unwrap();
    let wants = "gone>=1\npresent\n\n[:python_version < '3']\nold\n\n[fast]\npresent>=2\n\n\
                 [more:sys_platform == 'linux' or os_name == 'x']\npresent[a]>=1\nweb @ https://example.org/w.zip\n";
    std::fs::write(egg.join("requires.txt"), wants).unwrap();
    distribution(&site, "present", "1.5", "");
    let env = environment(Some(&python()), &site);
    let ask = "import importlib.metadata as m, sys; [print(r) for r in next(m.distributions(name='legacy', path=sys.argv[1:])).requires]";
    let theirs = output(&python(), [OsStr::new("-c"), OsStr::new(ask), site.as_os_str()]);
    let legacy = env.distribution("legacy").unwrap().unwrap();
    assert_eq!(rocm_fixup::dist::requirements(&legacy).unwrap().join("\n"), theirs);

    expect(&env, "requires-met legacy", Verdict::Fail, &["gone>=1: not installed"]);
    distribution(&site, "gone", "1.0", "");
    expect(&env, "requires-met legacy", Verdict::Ok, &["all 2 dependencies are met"]);
    expect(&env, "requires-met legacy[fast]", Verdict::Fail, &["present>=2; extra == \"fast\": present 1.5"]);
    expect(&env, "requires-met legacy[none]", Verdict::Fail, &["no extra `none`"]);
    let long = format!("{}\nabsent\n", "present\n".repeat(80_000));
    std::fs::write(egg.join("requires.txt"), long).unwrap();
    expect(&env, "requires-met legacy", Verdict::Unproven, &["requires.txt", "longer than 512 KiB"]);
}

#[test]
fn dependencies_behind_headers_that_are_too_long_are_not_met_unseen() {
    let (_dir, site) = site();
    let keywords = "x".repeat(600 << 10);
    distribution(&site, "big", "1.0", &format!("Keywords: {keywords}\nRequires-Dist: gone\n"));
    distribution(&site, "described", "1.0", &format!("Requires-Dist: big\n\n{keywords}"));
    distribution(&site, "asks", "1.0", "Requires-Dist: described\nRequires-Dist: big[all]\n");
    let env = environment(Some(&python()), &site);
    for rule in ["requires-met big", "requires-met big[all]", "requires-met asks"] {
        expect(&env, rule, Verdict::Unproven, &["big-1.0.dist-info", "longer than 512 KiB"]);
    }
    expect(&env, "requires-met described", Verdict::Ok, &["all 1 dependencies are met"]);
}

#[test]
fn what_objects_want_of_glibc_is_read_from_the_objects() {
    let (_dir, site) = site();
    let record = |dist_info: &Path, rows: &str| std::fs::write(dist_info.join("RECORD"), rows).unwrap();
    // memcpy has had its present version since 2.14.
    let source =
        "#include <string.h>\nvoid *f(void *a, void *b, unsigned long n) { return memcpy(a, b, n); }";
    cc(source, &site.join("needs.so"), ["-fno-builtin"]);
    record(&distribution(&site, "needs", "1", ""), "needs.so,sha256=x,1\nneeds.py,,\nmissing.so,,\n");
    record(&distribution(&site, "plain", "1", ""), "plain.py,,\n");
    distribution(&site, "silent", "1", "");
    let mut env = environment(None, &site);
    env.glibc = Some("2.13".into());
    expect(&env, "glibc(needs)", Verdict::Fail, &["needs.so` wants GLIBC_2.14, and the image has 2.13"]);
    env.glibc = Some("2.14".into());
    expect(&env, "glibc(needs)", Verdict::Ok, &["wants GLIBC_2.14; the image has 2.14"]);
    expect(&env, "glibc(needs)>=2.39", Verdict::Fail, &["the image has glibc 2.14, not >=2.39"]);
    expect(&env, "glibc(plain)", Verdict::Ok, &["none of its files wants a glibc"]);
    expect(&env, "glibc(silent)", Verdict::Unproven, &["no RECORD"]);
    env.glibc = None;
    expect(&env, "glibc(needs)", Verdict::Unproven, &["no glibc was found"]);
}

#[test]
fn real_wheels_and_a_checkout_installed_by_pip() {
    let Some(python) = pip_python() else { return };
    let (_dir, root) = site();
    let site = root.join("site");
    std::fs::create_dir(&site).unwrap();
    pip_install(&python, &site, "rocm-bindings-core==10.0.0.0.1.2");
    pip_install(&python, &site, "pybind11==3.0.4");

    let project = root.join("saver");
    std::fs::create_dir(&project).unwrap();
    let toml = "[project]\nname = \"torch-memory-saver\"\nversion = \"0.0.9\"\n[build-system]\n\
                requires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\
                [tool.setuptools]\npy-modules = [\"saver\"]\n";
    std::fs::write(project.join("pyproject.toml"), toml).unwrap();
    std::fs::write(project.join("saver.py"), "").unwrap();
    let git = |args: &[&str]| {
        let own = ["-C", project.to_str().unwrap(), "-c", "user.name=x", "-c", "user.email=x@example.org"];
        output(Path::new("git"), own.iter().chain(args))
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "x"]);
    let commit = git(&["rev-parse", "HEAD"]);
    pip_install(&python, &site, &format!("git+file://{}", project.display()));

    let env = environment(Some(&python), &site);
    expect(&env, &format!("torch_memory_saver@{commit}"), Verdict::Ok, &[&commit]);
    let other = "06caa534822c5b980b61733a5d79ac731f9a5f9c";
    expect(&env, &format!("torch_memory_saver@{other}"), Verdict::Fail, &[&commit]);
    expect(&env, &format!("pybind11@{other}"), Verdict::Unproven, &["names a commit"]);
    expect(&env, "pybind11<3.1.0", Verdict::Ok, &["pybind11 3.0.4 is installed"]);
    expect(&env, "rocm-bindings-core>=10,<11", Verdict::Ok, &[]);
    expect(&env, "requires-met rocm-bindings-core", Verdict::Ok, &[]);
    expect(&env, "glibc(rocm-bindings-core)", Verdict::Ok, &["wants GLIBC_2."]);
    pip_install(&python, &site, "pybind11==3.1.0");
    // pip's own --target --upgrade leaves the old metadata beside the new.
    expect(&env, "pybind11<3.1.0", Verdict::Unproven, &["more than once", "pybind11-3.0.4.dist-info"]);
    std::fs::remove_dir_all(site.join("pybind11-3.0.4.dist-info")).unwrap();
    expect(&env, "pybind11<3.1.0", Verdict::Fail, &["3.1.0 is installed"]);

    let mut module = SmokeCheck::new("rocm.bindings.util.types");
    module.env = vec![("PYTHONPATH".into(), site.to_str().unwrap().into())];
    let result = smoke(env.needed_interpreter().unwrap(), &module).unwrap();
    assert_eq!(result.verdict, Verdict::Ok, "{result:?}");
}

#[test]
fn modules_built_with_different_pybind11_internals_are_told_apart() {
    let Some(python) = pip_python() else { return };
    let (_dir, root) = site();
    let (command, site) = venv(&python, &root.join("venv"));
    let include = include_dir(&python);
    let installed = |name: &str| {
        let dist_info = distribution(&site, name, "1", "");
        std::fs::write(dist_info.join("RECORD"), format!("{name}.so,,\n")).unwrap();
    };
    let mut compilers = Vec::new();
    for (version, name) in [("3.0.4", "older"), ("3.1.0", "newer")] {
        let headers = root.join(version);
        std::fs::create_dir(&headers).unwrap();
        pip_install(&python, &headers, &format!("pybind11=={version}"));
        let source = root.join(format!("{name}.cpp"));
        let text = format!(
            "#include <pybind11/pybind11.h>\nstruct T {{}};\nPYBIND11_MODULE({name}, m) {{ pybind11::class_<T>(m, \"T\"); }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let built = site.join(format!("{name}.so"));
        let pybind11 = format!("-I{}", headers.join("pybind11/include").display());
        let mut command = std::process::Command::new("c++");
        command.args(["-shared", "-fPIC", "-std=c++17", "-O0", "-I", &include, &pybind11, "-o"]);
        compilers.push(command.arg(&built).arg(&source).spawn().unwrap());
        installed(name);
    }
    for mut compiler in compilers {
        assert!(compiler.wait().unwrap().success());
    }
    std::fs::copy(site.join("newer.so"), site.join("latest.so")).unwrap();
    installed("latest");
    let env = environment(Some(&command), &site);
    let mixed = check(&env, "pybind11-internals");
    assert_eq!(mixed.verdict, Verdict::Fail, "{}", mixed.detail);
    assert!(mixed.detail.starts_with("modules were built with 2 different internals"), "{}", mixed.detail);
    assert!(mixed.detail.contains("older.so") && mixed.detail.contains("newer.so"), "{}", mixed.detail);
    expect(&env, "pybind11-internals(newer, latest)", Verdict::Ok, &["newer.so", "latest.so"]);
    expect(&env, "pybind11-internals(newer, gone)", Verdict::Ok, &["not installed: gone"]);
    expect(&env, "pybind11-internals(gone)", Verdict::Absent, &[]);
    expect(&env, "pybind11-internals(older,latest)", Verdict::Fail, &[]);
}
