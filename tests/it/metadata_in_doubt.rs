//! METADATA that can't be understood: what it is of is neither installed nor not, and no check passes over it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_fixup::check::Verdict;
use rocm_fixup::dist::parse_headers;

use crate::cli::{json, tool};
use crate::python_support::{distribution, output, pip_install, pip_python, python};
use crate::require::{environment, expect, site};

/// What can be in the way of a name, and a part of what is said of it.
const KINDS: &[(&str, &str)] = &[
    ("bom", "doesn't begin with a header"),
    ("utf-16", "doesn't begin with a header"),
    ("text", "doesn't begin with a header"),
    ("directory", "something else than a file"),
    ("pipe", "something else than a file"),
    ("empty", "has no Name"),
    ("nameless", "has no Name"),
    ("dangling", "symbolic link that leads to no file"),
    ("nothing", "has no METADATA"),
];

fn broken(site: &Path, version: &str, kind: &str) -> PathBuf {
    let dist_info = site.join(format!("pi-{version}.dist-info"));
    fs::create_dir(&dist_info).unwrap();
    let metadata = dist_info.join("METADATA");
    let good = "Metadata-Version: 2.1\nName: pi\nVersion: 1.0\n";
    let utf16: Vec<u8> = format!("\u{feff}{good}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    match kind {
        "bom" => fs::write(metadata, format!("\u{feff}{good}")).unwrap(),
        "utf-16" => fs::write(metadata, utf16).unwrap(),
        "text" => fs::write(metadata, format!("torn\n{good}")).unwrap(),
        "directory" => fs::create_dir(metadata).unwrap(),
        "pipe" => assert!(Command::new("mkfifo").arg(metadata).status().unwrap().success()),
        "empty" => fs::write(metadata, "").unwrap(),
        "nameless" => fs::write(metadata, good.replace("Name: pi\n", "")).unwrap(),
        "dangling" => symlink("gone", metadata).unwrap(),
        _ => {}
    }
    dist_info
}

#[test]
fn what_has_only_a_directorys_name_is_neither_installed_nor_not() {
    for (kind, why) in KINDS {
        let (_dir, site) = site();
        broken(&site, "1.0", kind);
        distribution(&site, "pi-extra", "1.0", "Requires-Dist: PI>=1\n");
        // Python finds it, and no name in it (a pipe would stop it for good).
        if *kind != "pipe" {
            let ask = "import importlib.metadata as m, sys\nd = next(m.distributions(name='pi', path=sys.argv[1:]))\n\
                       try: print(d.metadata['Name'])\nexcept Exception: print(None)";
            let said = output(&python(), [OsStr::new("-c"), OsStr::new(ask), site.as_os_str()]);
            assert_eq!(said, "None", "{kind}");
        }
        let env = environment(Some(&python()), &site);
        for rule in
            ["installed pi", "Pi>=0.5", "pi+rocm", "requires-met pi", "glibc(pi)", "pybind11-internals(pi)"]
        {
            expect(&env, rule, Verdict::Unproven, &["i is installed can't be told", why]);
        }
        expect(&env, "requires-met pi-extra", Verdict::Unproven, &["PI>=1: whether pi is installed", why]);
        expect(&env, "installed pi-extra", Verdict::Ok, &[]);
        expect(&env, "installed p", Verdict::Absent, &[]);
    }
}

#[test]
fn a_second_claim_that_cannot_be_understood_is_counted() {
    for (kind, why) in KINDS.iter().filter(|(kind, _)| *kind != "nothing") {
        let (_dir, site) = site();
        distribution(&site, "pi", "1.0+rocm7", "");
        broken(&site, "3.0+cu1", kind);
        let env = environment(None, &site);
        expect(
            &env,
            "pi+rocm",
            Verdict::Unproven,
            &["pi is there more than once", "pi-3.0+cu1.dist-info", why],
        );
    }
    // What pip passes over, and what it is about to remove.
    let (_dir, site) = site();
    distribution(&site, "pi", "1.0+rocm7", "");
    broken(&site, "3.0+cu1", "nothing");
    fs::rename(broken(&site, "2.0", "bom"), site.join("~i-2.0.dist-info")).unwrap();
    expect(&environment(None, &site), "pi+rocm", Verdict::Ok, &[]);
}

#[test]
fn a_check_for_what_may_be_installed_is_made() {
    let recipe = "name = 'r'\ndescription = 'd'\n\
                  [[require]]\nname = 'old'\nrule = 'pi<0.5'\nreason = 'r'\nwhen = { distribution = 'pi>=7' }\n\
                  [[smoke]]\nname = 'imports'\nmodule = 'pi'\nreason = 'r'\nwhen = { distribution = 'pi' }\n\
                  [[require]]\nname = 'other'\nrule = 'pj<0.5'\nreason = 'r'\nwhen = { distribution = 'pj' }\n";
    for kind in ["bom", "directory", "pipe", "empty", "nothing"] {
        let (_dir, site) = site();
        broken(&site, "1.0", kind);
        fs::write(site.join("pi.py"), "raise ImportError('broken')\n").unwrap();
        fs::write(site.join("recipe.toml"), recipe).unwrap();
        let mut command = tool(&["run", "--format", "json", "--recipe"]);
        command.arg(site.join("recipe.toml")).arg("--python").arg(python());
        let done = command.arg("--site-packages").arg(&site).output().unwrap();
        let report = json(&done);
        let checks = report["checks"].as_array().unwrap();
        let verdict =
            |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["verdict"].clone();
        assert_eq!(done.status.code(), Some(4), "{kind}: {report}");
        assert_eq!(
            (verdict("old"), verdict("other")),
            ("unproven".into(), "skipped".into()),
            "{kind}: {report}"
        );
        assert!(verdict("imports") != "skipped", "{kind}: {report}");
    }
}

#[test]
fn dependencies_behind_blank_lines_of_a_licence_count_as_python_counts_them() {
    let (_dir, site) = site();
    // As contourpy and matplotlib have it: the licence's empty lines are blanks here, which go on with the header.
    let licence =
        "License: BSD\n        \n        Copyright\n\t\nFrom x\n: y\nRequires-Dist: numpy>=1.25\r\n";
    distribution(&site, "contourpy", "1.3.3", licence);
    let ask = "import importlib.metadata as m, sys\nd = next(m.distributions(name='contourpy', path=sys.argv[1:]))\n\
               print(d.metadata.get_all('Requires-Dist'))";
    let said = output(&python(), [OsStr::new("-c"), OsStr::new(ask), site.as_os_str()]);
    assert_eq!(said, "['numpy>=1.25']");
    let env = environment(Some(&python()), &site);
    expect(&env, "requires-met contourpy", Verdict::Fail, &["numpy>=1.25: not installed"]);
}

#[test]
fn what_python_cannot_see_of_dependencies_is_no_ok() {
    let (_dir, site) = site();
    for (name, line) in [("torn", "a line"), ("spaced", "Key : x"), ("formfeed", "\x0c")] {
        distribution(&site, name, "1.0", &format!("{line}\nRequires-Dist: gone\n"));
        let dist_info = site.join(format!("{name}-1.0.dist-info"));
        let ask = "import email, sys\nprint(email.message_from_file(open(sys.argv[1])).get('Requires-Dist'))";
        let metadata = dist_info.join("METADATA");
        assert_eq!(output(&python(), [OsStr::new("-c"), OsStr::new(ask), metadata.as_os_str()]), "None");
        let env = environment(Some(&python()), &site);
        let why = &["Python sees no header behind", line.trim()];
        expect(&env, &format!("requires-met {name}"), Verdict::Unproven, why);
    }
}

/// With whole wheels: the licences of both stand among their headers, blank lines in them.
#[test]
fn wheels_have_the_dependencies_that_python_sees() {
    let Some(pip) = pip_python() else { return };
    let (_dir, site) = site();
    for name in ["contourpy", "matplotlib"] {
        pip_install(&pip, &site, name);
        let ask = "import importlib.metadata as m, sys\n\
                   print('\\n'.join(next(m.distributions(name=sys.argv[1], path=sys.argv[2:])).requires))";
        let said = output(&pip, [OsStr::new("-c"), OsStr::new(ask), OsStr::new(name), site.as_os_str()]);
        let metadata = fs::read_dir(&site).unwrap().map(|entry| entry.unwrap().path());
        let metadata = metadata.map(|path| path.join("METADATA")).find(|path| {
            path.exists() && path.parent().unwrap().file_name().unwrap().to_str().unwrap().starts_with(name)
        });
        let found = parse_headers(&fs::read(metadata.unwrap()).unwrap());
        let wanted = found.headers.into_iter().filter(|(key, _)| key == "requires-dist");
        assert_eq!(wanted.map(|(_, value)| value).collect::<Vec<_>>().join("\n"), said, "{name}");
        assert!(said.contains("numpy"), "{name}: {said}");
        let env = environment(Some(&pip), &site);
        expect(&env, &format!("requires-met {name}"), Verdict::Fail, &["numpy>=1"]);
    }
}
