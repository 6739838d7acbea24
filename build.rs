//! Builds the probe (the module that the image's own interpreter loads) with a second cargo, and hands its path to
//! `src/python.rs`. Never touches anything outside `OUT_DIR`.
//!
//! `ROCM_FIXUP_PROBE=FILE` takes a ready-made file instead; an empty one is enough for lint jobs.

#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "build scripts spawn and print")]

use std::env::{self, var, var_os};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=probe");
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=ROCM_FIXUP_PROBE");
    if let Err(why) = refuse_a_dynamic_release().and_then(|()| probe()) {
        println!("cargo::error={why}");
    }
}

/// `cargo install --git`, or RUSTFLAGS in the environment, would silently leave out `.cargo/config.toml`'s flags.
fn refuse_a_dynamic_release() -> Result<(), String> {
    let features = var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    let fuzzing = var_os("CARGO_CFG_FUZZING").is_some(); // sanitizers want a dynamic libc
    if is_static || fuzzing || var("PROFILE").as_deref() != Ok("release") {
        return Ok(());
    }
    Err("a release of rocm-fixup must be static: build it with --target x86_64-unknown-linux-gnu and \
         RUSTFLAGS='-C target-feature=+crt-static' (plain `cargo build` in the repository does)"
        .into())
}

fn probe() -> Result<(), String> {
    let built = match var_os("ROCM_FIXUP_PROBE") {
        Some(given) => {
            let given = PathBuf::from(given);
            println!("cargo::rerun-if-changed={}", given.display());
            std::path::absolute(&given).map_err(|e| format!("ROCM_FIXUP_PROBE `{}`: {e}", given.display()))?
        }
        None => build(&out_dir()?)?,
    };
    let built = built.to_str().ok_or_else(|| format!("`{}` is not UTF-8", built.display()))?;
    println!("cargo::rustc-env=ROCM_FIXUP_PROBE_BUILT={built}");
    Ok(())
}

fn out_dir() -> Result<PathBuf, String> {
    var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| "cargo sets OUT_DIR".into())
}

/// One `cargo rustc --crate-type cdylib` in the probe's folder, with a target directory of its own.
fn build(out: &Path) -> Result<PathBuf, String> {
    let target = var("TARGET").map_err(|e| format!("TARGET: {e}"))?;
    let mut cargo = Command::new(var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let dir = out.join("probe");
    cargo.current_dir("probe").args(["rustc", "--package", "rocm-fixup-probe", "--lib", "--locked"]);
    cargo
        .args(["--crate-type", "cdylib", "--profile", "probe", "--target", &target, "--target-dir"])
        .arg(&dir);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(meant_for_the_outer_build) {
            cargo.env_remove(name);
        }
    }
    // Set but empty outranks the rustflags of .cargo/config.toml, where +crt-static would forbid a cdylib.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    let status = cargo.status().map_err(|e| format!("can't start cargo for the probe: {e}"))?;
    if !status.success() {
        return Err(format!("building the probe failed ({status}); its messages are above"));
    }
    Ok(dir.join(target).join("probe/librocm_fixup_probe.so"))
}

fn meant_for_the_outer_build(name: &str) -> bool {
    const PREFIXES: [&str; 7] = [
        "CARGO_FEATURE_",
        "CARGO_CFG_",
        "CARGO_PROFILE_",
        "CARGO_BUILD_",
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "DEP_",
    ];
    const NAMES: [&str; 10] = [
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CLIPPY_ARGS",
        "CLIPPY_CONF_DIR",
        "CARGO_TARGET_DIR",
        "CARGO_PRIMARY_PACKAGE",
        "RUSTC_LINKER",
        "PROFILE",
        "TARGET",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}
