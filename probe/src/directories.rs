//! Where the interpreter would import from, were it started plainly (the probe runs under `-I`). Imports nothing of
//! the image's; `.pth` files of the user site run, as they do in every start.

use std::env::{split_paths, var_os};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;

use crate::wire::{Directories, Markers, Raw};

/// Gives `sys.path` what `-I` kept from it: the directories of PYTHONPATH, and the user site where a plain start
/// would have it.
pub fn as_plain(py: Python<'_>) -> PyResult<()> {
    let sys = py.import("sys")?;
    let path = sys.getattr("path")?;
    add_user_site(py, &sys, &path)?;
    let named = var_os("PYTHONPATH").unwrap_or_default();
    for (at, dir) in split_paths(&named).filter(|dir| dir.is_absolute()).enumerate() {
        path.call_method1("insert", (at, dir.into_os_string()))?;
    }
    Ok(())
}

fn add_user_site(py: Python<'_>, sys: &Bound<'_, PyAny>, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let prefix: OsString = sys.getattr("prefix")?.extract()?;
    if var_os("PYTHONNOUSERSITE").is_some_and(|v| !v.is_empty())
        || !same_ids()
        || sealed_venv(prefix.as_ref())
    {
        return Ok(());
    }
    let site = py.import("site")?;
    let user: OsString = site.call_method0("getusersitepackages")?.extract()?;
    if !Path::new(&user).is_dir() {
        return Ok(());
    }
    let before: Vec<OsString> = strings(path);
    site.call_method1("addsitedir", (&user,))?;
    let after: Vec<OsString> = strings(path);
    if after.starts_with(&before) {
        // A plain start has the user site before the other site directories.
        let others: Vec<OsString> = site.call_method0("getsitepackages")?.extract()?;
        let at = before.iter().position(|dir| others.contains(dir)).unwrap_or(before.len());
        for (n, added) in after[before.len()..].iter().enumerate() {
            path.call_method0("pop")?;
            path.call_method1("insert", (at + n, added))?;
        }
    }
    Ok(())
}

fn same_ids() -> bool {
    // SAFETY: these calls have no arguments and can't fail.
    unsafe { libc::getuid() == libc::geteuid() && libc::getgid() == libc::getegid() }
}

/// Whether `prefix` is a virtual environment that shuts out what lies outside it.
fn sealed_venv(prefix: &Path) -> bool {
    std::fs::read(prefix.join("pyvenv.cfg")).is_ok_and(|config| {
        !String::from_utf8_lossy(&config).lines().filter_map(|line| line.split_once('=')).any(
            |(key, value)| {
                key.trim().eq_ignore_ascii_case("include-system-site-packages")
                    && value.trim().eq_ignore_ascii_case("true")
            },
        )
    })
}

/// The entries of a list that are paths.
fn strings(list: &Bound<'_, PyAny>) -> Vec<OsString> {
    let Ok(items) = list.try_iter() else { return Vec::new() };
    items.filter_map(|item| item.ok()?.extract().ok()).collect()
}

fn raw(path: impl AsRef<Path>) -> Raw {
    Raw::new(path.as_ref().as_os_str().as_bytes())
}

/// # Errors
/// Those of Python, where the interpreter lacks something that every CPython has.
pub fn directories(py: Python<'_>, packages: &[String]) -> PyResult<Directories> {
    as_plain(py)?;
    let sys = py.import("sys")?;
    let text = |name: &str| sys.getattr(name).and_then(|v| v.extract::<OsString>()).ok().map(raw);
    let path = sys.getattr("path")?;
    let stdlib = standard_library(py);
    let mut paths: Vec<Raw> = Vec::new();
    for dir in strings(&path).into_iter().map(PathBuf::from) {
        let own = stdlib.as_ref().is_some_and(|own| dir == *own || dir == own.join("lib-dynload"));
        if !own && dir.is_absolute() && dir.is_dir() && !paths.contains(&raw(&dir)) {
            paths.push(raw(&dir));
        }
    }
    Ok(Directories {
        executable: text("executable"),
        prefix: text("prefix"),
        version: version(&sys.getattr("version_info")?)?,
        glibc: glibc(),
        machine: uname().map(|name| field(&name.machine)).unwrap_or_default(),
        paths,
        packages: packages.iter().flat_map(|name| find(py, name)).collect(),
        markers: markers(&sys)?,
    })
}

fn standard_library(py: Python<'_>) -> Option<PathBuf> {
    let file: OsString = py.import("os").ok()?.getattr("__file__").ok()?.extract().ok()?;
    Some(Path::new(&file).parent()?.to_path_buf())
}

/// `3.14.0rc2` from a version_info.
fn version(info: &Bound<'_, PyAny>) -> PyResult<String> {
    let (major, minor, micro, level, serial): (u32, u32, u32, String, u32) = info.extract()?;
    let level = match level.as_str() {
        "alpha" => format!("a{serial}"),
        "beta" => format!("b{serial}"),
        "candidate" => format!("rc{serial}"),
        _ => String::new(),
    };
    Ok(format!("{major}.{minor}.{micro}{level}"))
}

fn markers(sys: &Bound<'_, PyAny>) -> PyResult<Markers> {
    let implementation = sys.getattr("implementation")?;
    let name = uname();
    Ok(Markers {
        implementation_name: implementation.getattr("name")?.extract()?,
        implementation_version: version(&implementation.getattr("version")?)?,
        platform_release: name.as_ref().map(|n| field(&n.release)).unwrap_or_default(),
        platform_version: name.as_ref().map(|n| field(&n.version)).unwrap_or_default(),
    })
}

fn uname() -> Option<libc::utsname> {
    // SAFETY: utsname is plain arrays of bytes, and uname fills it.
    unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        (libc::uname(&raw mut name) == 0).then_some(name)
    }
}

fn field(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().take_while(|&&b| b != 0).map(|&b| b as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The C library that this very process runs on; `None` where it isn't glibc.
fn glibc() -> Option<String> {
    // SAFETY: the name is a C string; a symbol found under it has the type that glibc documents.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr());
        if found.is_null() {
            return None;
        }
        let version: extern "C" fn() -> *const std::ffi::c_char = std::mem::transmute(found);
        Some(CStr::from_ptr(version()).to_string_lossy().into_owned())
    }
}

/// Where `name` would be imported from; several places for a namespace package. Nothing is imported, not even
/// `importlib.util`, whose `find_spec` does the same.
fn find(py: Python<'_>, name: &str) -> Vec<(String, Raw)> {
    let finders = py.import("sys").and_then(|sys| sys.getattr("meta_path")).and_then(|path| path.try_iter());
    let Ok(mut finders) = finders else { return Vec::new() };
    let spec = finders.find_map(|finder| {
        finder.ok()?.call_method1("find_spec", (name, py.None())).ok().filter(|spec| !spec.is_none())
    });
    let Some(places) = spec.and_then(|spec| spec.getattr("submodule_search_locations").ok()) else {
        return Vec::new();
    };
    strings(&places).into_iter().map(|place| (name.to_owned(), raw(place))).collect()
}
