//! The recipe's patches on whole packages from PyPI, installed by pip and by uv.
//! Needs PyPI, `python3` with venv and `g++`; ROCM_FIXUP_OFFLINE=1 leaves them out.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_fixup::model::Distribution;
use rocm_fixup::patch::plan::Direction::{Apply, Revert};
use rocm_fixup::patch::report::State;
use rocm_fixup::recipe::{Recipe, embedded, read};

use super::site::{Site, carry_out};

fn offline() -> bool {
    std::env::var_os("ROCM_FIXUP_OFFLINE").is_some_and(|value| !value.is_empty())
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Looks at a venv as discovery does: site-packages and its dist-info directories.
fn site_of(venv: &Path) -> Site {
    let lib = fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    let mut site = Site::new();
    site.root = fs::canonicalize(lib.join("site-packages")).unwrap();
    for entry in fs::read_dir(&site.root).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some((name, version)) = stem.strip_suffix(".dist-info").and_then(|s| s.rsplit_once('-')) {
            let (name, version) = (name.to_owned(), version.to_owned());
            site.distributions.push(Distribution {
                name,
                version,
                dist_info: path,
                site_packages: site.root.clone(),
            });
        }
    }
    site
}

fn recipe() -> Recipe {
    read(embedded::recipe(embedded::DEFAULT).unwrap()).unwrap()
}

/// Applies, looks, takes back; the tree without bytecode must be as it was.
fn round_trip(site: &Site, python: &Path, shared: bool) {
    let whole = |site: &Site| {
        let mut tree = site.tree();
        tree.retain(|path, _| !path.components().any(|c| c.as_os_str() == "__pycache__"));
        tree
    };
    let before = whole(site);
    let planned = site.recipe(&recipe(), Apply, false);
    assert!(!planned.refused, "{:?}", planned.patches);
    assert!(planned.patches.iter().all(|p| p.state == State::Pending), "{:?}", planned.patches);
    let told = planned.patches.iter().all(|p| p.notes.iter().any(|n| n.contains("was shared")));
    assert_eq!(told, shared, "{:?}", planned.patches);
    carry_out(&planned.plan);
    let again = site.recipe(&recipe(), Apply, false);
    assert!(again.plan.changes.is_empty() && again.patches.iter().all(|p| p.state == State::Applied));

    let stub = site.root.parent().unwrap().join("stub");
    fs::create_dir_all(&stub).unwrap();
    fs::write(stub.join("torch.py"), "").unwrap();
    let code = "import sys, tile_kernels as t\nassert not {'tilelang', 'tile_kernels.mhc'} & set(sys.modules)\n\
                assert 'mhc' in dir(t)\nimport tile_kernels.modeling";
    run(Command::new(python).args(["-c", code]).env("PYTHONPATH", &stub).current_dir("/"));
    let verify = "import base64, csv, hashlib, importlib.metadata as m, pathlib\n\
                  for name in ('tile-kernels', 'tilelang'):\n\
                  \x20   for f in m.distribution(name).files:\n\
                  \x20       if f.hash and f.suffix != '.pyc':\n\
                  \x20           b = f.locate().read_bytes()\n\
                  \x20           h = base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b'=').decode()\n\
                  \x20           assert (f.hash.value, f.size) == (h, len(b)), f\n";
    run(Command::new(python).args(["-c", verify]).current_dir("/"));
    let back = site.recipe(&recipe(), Revert, false);
    assert!(!back.refused, "{:?}", back.patches);
    carry_out(&back.plan);
    assert_eq!(whole(site), before);
    carry_out(&site.recipe(&recipe(), Apply, false).plan);
}

fn leftovers(site: &Site) -> Vec<PathBuf> {
    site.tree().into_keys().filter(|p| p.to_string_lossy().contains("tile")).collect()
}

const PACKAGES: [&str; 2] = ["tile-kernels==1.0.0", "tilelang==0.1.15"];

#[test]
fn pypi_with_pip() {
    if offline() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let venv = directory.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let python = venv.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--no-deps", "-q"]).args(PACKAGES));
    let site = site_of(&venv);
    round_trip(&site, &python, false);
    run(Command::new(&python).args(["-m", "pip", "uninstall", "-y", "-q", "tile-kernels", "tilelang"]));
    assert_eq!(leftovers(&site), Vec::<PathBuf>::new());
}

#[test]
fn pypi_with_uv() {
    if offline() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let venv = directory.path().join("venv");
    let cache = directory.path().join("cache");
    let tools = directory.path().join("tools");
    run(Command::new("python3").args(["-m", "venv"]).arg(&tools));
    run(Command::new(tools.join("bin/python")).args(["-m", "pip", "install", "-q", "uv"]));
    let uv = |args: &[&str]| {
        run(Command::new(tools.join("bin/uv"))
            .args(args)
            .env("UV_CACHE_DIR", &cache)
            .env("VIRTUAL_ENV", &venv))
    };
    uv(&["venv", "-q", venv.to_str().unwrap()]);
    uv(&[&["pip", "install", "--no-deps", "-q"][..], &PACKAGES[..]].concat());
    let site = site_of(&venv);
    let init = site.root.join("tile_kernels/__init__.py");
    assert_eq!(fs::metadata(&init).unwrap().nlink(), 2, "uv links from its cache");
    round_trip(&site, &venv.join("bin/python"), true);
    // The cache is as it was: a new installation brings the originals.
    uv(&[&["pip", "install", "--no-deps", "-q", "--reinstall"][..], &PACKAGES[..]].concat());
    assert!(site.recipe(&recipe(), Apply, false).patches.iter().all(|p| p.state == State::Pending));
    carry_out(&site.recipe(&recipe(), Apply, false).plan);
    uv(&["pip", "uninstall", "-q", "tile-kernels", "tilelang"]);
    assert_eq!(leftovers(&site), Vec::<PathBuf>::new());
}
