//! pybind11's internals, and what objects want of glibc, in files that no RECORD lists.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rocm_fixup::check::Verdict;

use crate::python_support::{cc, distribution};
use crate::require::{environment, expect, site};

/// A module of pybind11 carries the name of its internals as text.
fn module(path: &Path, version: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let source =
        format!("const char *f(void) {{ return \"__pybind11_internals_v{version}_system_libstdcpp__\"; }}");
    cc(&source, path, ["-O0"]);
}

fn record(dist_info: &Path, rows: &str) {
    fs::write(dist_info.join("RECORD"), rows).unwrap();
}

const MIXED: &str = "modules were built with 2 different internals";

#[test]
fn a_module_that_was_written_into_a_package_after_the_install_is_looked_at() {
    let (_dir, site) = site();
    module(&site.join("torch/_C.so"), 11);
    record(&distribution(&site, "torch", "1", ""), "torch/_C.so,,\ntorch/__init__.py,,\n");
    module(&site.join("aiter/core.cpython-311-x86_64-linux-gnu.so"), 11);
    let rows = "aiter/core.cpython-311-x86_64-linux-gnu.so,,\naiter/__init__.py,,\n";
    record(&distribution(&site, "aiter", "1", ""), rows);
    let env = environment(None, &site);
    expect(&env, "pybind11-internals", Verdict::Ok, &["_C.so", "core.cpython"]);
    module(&site.join("aiter/jit/module_gemm.so"), 5);
    for rule in ["pybind11-internals", "pybind11-internals(aiter)", "pybind11-internals(torch, aiter)"] {
        expect(&env, rule, Verdict::Fail, &[MIXED, "aiter/jit/module_gemm.so"]);
    }
    expect(&env, "pybind11-internals(torch)", Verdict::Ok, &["_C.so"]);
    // Of a directory that two share, each answers for its own.
    record(&distribution(&site, "aiter-jit", "1", ""), "aiter/jit/module_gemm.so,,\n");
    expect(&env, "pybind11-internals(aiter)", Verdict::Ok, &["core.cpython"]);
}

#[test]
fn modules_that_nothing_lists_are_looked_at_where_all_are_asked_for() {
    let sets: &[fn(&Path, &Path)] = &[
        |site, _| module(&site.join("unowned/deep/x.so"), 5),
        |site, _| {
            distribution(site, "silent", "1", "");
            module(&site.join("silent/x.so"), 5);
        },
        |site, _| {
            record(&distribution(site, "blank", "1", ""), "");
            module(&site.join("blank/x.so"), 5);
        },
        |site, elsewhere| {
            module(&elsewhere.join("linked/x.so"), 5);
            symlink(elsewhere.join("linked"), site.join("linked")).unwrap();
        },
        |site, elsewhere| {
            module(&elsewhere.join("checkout/pkg/x.so"), 5);
            let lines = format!("import sys\n/not/there\n{}\n", elsewhere.join("checkout").display());
            fs::write(site.join("easy-install.pth"), lines).unwrap();
        },
        |site, elsewhere| {
            module(&elsewhere.join("cache/x.so"), 5);
            fs::create_dir(site.join("pkg")).unwrap();
            symlink(elsewhere.join("cache/x.so"), site.join("pkg/x.so")).unwrap();
        },
    ];
    for make in sets {
        let ((_dir, site), (_other, elsewhere)) = (site(), site());
        module(&site.join("torch/_C.so"), 11);
        record(&distribution(&site, "torch", "1", ""), "torch/_C.so,,\n");
        // Not Python's, and the like of it.
        module(&site.join("_rocm_sdk_core/lib/x.so"), 4);
        module(&site.join("torch/lib/libother.so"), 4);
        symlink(&site, site.join("again")).unwrap();
        let env = environment(None, &site);
        expect(&env, "pybind11-internals", Verdict::Ok, &["torch/_C.so"]);
        make(&site, &elsewhere);
        expect(&env, "pybind11-internals", Verdict::Fail, &[MIXED, "x.so"]);
    }
}

#[test]
fn what_a_record_does_not_tell_or_tells_in_vain_is_unproven_by_name() {
    let (_dir, site) = site();
    record(&distribution(&site, "blank", "1", ""), "");
    module(&site.join("half/x.so"), 11);
    record(&distribution(&site, "half", "1", ""), "half/x.so,,\nhalf/gone.so,,\nhalf/libgone.so,,\n");
    let env = environment(None, &site);
    for rule in ["pybind11-internals(blank)", "glibc(blank)"] {
        expect(&env, rule, Verdict::Unproven, &["blank 1 is installed, but has no RECORD of its files"]);
    }
    let texts = ["half/gone.so` is in the RECORD of half, and gone", "half/x.so"];
    expect(&env, "pybind11-internals(half)", Verdict::Unproven, &texts);
    expect(&env, "pybind11-internals", Verdict::Ok, &["half/x.so"]);
}

#[test]
fn what_is_built_after_the_install_wants_its_glibc_too() {
    let (_dir, site) = site();
    record(&distribution(&site, "aiter", "1", ""), "aiter/__init__.py,,\n");
    fs::create_dir_all(site.join("aiter/jit")).unwrap();
    let mut env = environment(None, &site);
    env.glibc = Some("2.13".into());
    expect(&env, "glibc(aiter)", Verdict::Ok, &["none of its files wants a glibc"]);
    // memcpy has had its present version since 2.14.
    let source =
        "#include <string.h>\nvoid *f(void *a, void *b, unsigned long n) { return memcpy(a, b, n); }";
    cc(source, &site.join("aiter/jit/module_gemm.so"), ["-fno-builtin"]);
    expect(
        &env,
        "glibc(aiter)",
        Verdict::Fail,
        &["module_gemm.so` wants GLIBC_2.14, and the image has 2.13"],
    );
}
