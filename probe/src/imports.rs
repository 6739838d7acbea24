//! An ordered row of imports: what was raised, and what was mapped in the end. Runs the image's own code, and so may
//! crash, hang or exit at any point; every line so far is then already written.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use pyo3::exceptions::{PyImportError, PyModuleNotFoundError};
use pyo3::prelude::*;
use pyo3::types::PyModule;

use crate::wire::{Line, Object, Raised, Raw};
use crate::{directories, linkmap, say};

/// No exception's text is longer in the answer.
const TEXT: usize = 16 * 1024;

/// # Errors
/// Those of Python outside the imports themselves.
pub fn imports(py: Python<'_>, modules: &[String]) -> PyResult<()> {
    directories::as_plain(py)?;
    py.import("sys")?.setattr("argv", ["-c"])?;
    let import = py.import("importlib")?.getattr("import_module")?;
    for module in modules {
        say(&Line::Importing { module: module.clone() });
        if let Err(error) = import.call1((module,)) {
            let exceptions = chain(py, error);
            say(&Line::Raised { module: module.clone(), found: found(py, module), exceptions });
            break;
        }
    }
    say(&Line::Loaded { objects: objects(py) });
    Ok(())
}

/// The exception and those that led to it, as a traceback would show them.
fn chain(py: Python<'_>, error: PyErr) -> Vec<Raised> {
    let mut chain = Vec::new();
    let mut next = Some(error.into_value(py).into_bound(py).into_any());
    while let Some(exception) = next.take().filter(|e| !e.is_none() && chain.len() < 12) {
        let get = |name: &str| exception.getattr(name).ok().filter(|value| !value.is_none());
        let mut text =
            exception.str().map_or_else(|_| "(no text)".to_owned(), |s| s.to_string_lossy().into_owned());
        if let Some((end, _)) = text.char_indices().find(|(at, _)| *at >= TEXT) {
            text.truncate(end);
        }
        chain.push(Raised {
            kind: kind(&exception),
            text,
            name: get("name").and_then(|v| v.extract().ok()),
            path: get("path").and_then(|v| v.extract::<OsString>().ok()).map(|p| Raw::new(p.as_bytes())),
            not_found: exception.is_instance_of::<PyModuleNotFoundError>(),
            import_error: exception.is_instance_of::<PyImportError>(),
        });
        let hidden = get("__suppress_context__").is_some_and(|v| v.is_truthy().unwrap_or(false));
        next = get("__cause__").or_else(|| if hidden { None } else { get("__context__") });
    }
    chain
}

fn kind(exception: &Bound<'_, PyAny>) -> String {
    let class = exception.get_type();
    let name = class.qualname().map_or_else(|_| "exception".to_owned(), |n| n.to_string_lossy().into_owned());
    match class.module() {
        Ok(module) if module.to_string_lossy() != "builtins" => {
            format!("{}.{name}", module.to_string_lossy())
        }
        _ => name,
    }
}

/// Where the module lies although it can't be imported. Only for a module whose parents are there already, so that
/// looking imports nothing.
fn found(py: Python<'_>, module: &str) -> Option<Raw> {
    let loaded = py.import("sys").ok()?.getattr("modules").ok()?;
    let parent = module.rsplit_once('.').map(|(parent, _)| parent);
    if parent.is_some_and(|parent| !loaded.contains(parent).unwrap_or(false)) {
        return None;
    }
    let spec = py.import("importlib.util").ok()?.call_method1("find_spec", (module,)).ok()?;
    let origin: OsString = spec.getattr("origin").ok()?.extract().ok()?;
    Some(Raw::new(origin.as_bytes()))
}

/// The loader's list, with those marked that Python imported as extension modules.
fn objects(py: Python<'_>) -> Vec<Object> {
    let mut objects = linkmap::objects();
    let modules = extension_modules(py).unwrap_or_default();
    for object in &mut objects {
        object.module = modules.contains(&(object.dev, object.ino));
    }
    objects
}

fn extension_modules(py: Python<'_>) -> PyResult<HashSet<(u64, u64)>> {
    let mut files = HashSet::new();
    for module in
        py.import("sys")?.getattr("modules")?.call_method0("copy")?.call_method0("values")?.try_iter()?
    {
        // Only the dictionary is read: a lazy module's own `__getattr__` must not run.
        let Some(file) = module?
            .cast::<PyModule>()
            .ok()
            .and_then(|module| module.dict().get_item("__file__").ok().flatten())
            .and_then(|file| file.extract::<OsString>().ok())
        else {
            continue;
        };
        if file.as_bytes().ends_with(b".so")
            && let Ok(meta) = std::fs::metadata(&file)
        {
            files.insert((meta.dev(), meta.ino()));
        }
    }
    Ok(files)
}
