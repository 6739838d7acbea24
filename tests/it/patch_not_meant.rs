//! What no patch may change, though it would fit: files of what isn't installed, the journal, libraries.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocm_fixup::patch::sha::Sha256;
use serde_json::Value;

use crate::cli::{json, tool};
use crate::patch_cli::{Site, code};
use crate::sdk_tree::SdkTree;
use crate::snapshot::{assert_same, snapshot};

const PATCH: &str =
    "--- a/a.py\n+++ b/a.py\n@@ -2,7 +2,7 @@\n two\n three\n four\n-five\n+FIVE\n six\n seven\n eight\n";

/// A recipe beside site-packages, with its only patch.
fn recipe(site: &Site, distribution: &str, root: &str, patch: &[u8], files: &str) -> PathBuf {
    fs::write(site.top().join("p.patch"), patch).unwrap();
    let path = site.top().join("my.toml");
    let text = format!(
        "name = \"x\"\ndescription = \"y\"\n[[patch]]\nname = \"p\"\nreason = \"r\"\nfile = \"p.patch\"\n\
         target = {{ distribution = \"{distribution}\", roots = [\"{root}\"] }}\n[[patch.variant]]\nversions = \"==1.0\"\n\
         files = [{{ {files} }}]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

/// The same for [`PATCH`] of the installed `demo/a.py`.
fn of_demo(site: &Site, distribution: &str) -> PathBuf {
    let before = fs::read_to_string(site.at("demo/a.py")).unwrap();
    let files = files("a.py", before.as_bytes(), before.replace("five", "FIVE").as_bytes());
    recipe(site, distribution, "demo", PATCH.as_bytes(), &files)
}

fn files(path: &str, before: &[u8], after: &[u8]) -> String {
    format!("path = \"{path}\", before = \"{}\", after = \"{}\"", Sha256::of(before), Sha256::of(after))
}

fn patch(site: &Site, recipe: &Path) -> Command {
    let mut command = tool(&["patch", "--format", "json", "--recipe"]);
    command.arg(recipe).arg("--site-packages").arg(site.at(""));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn whatever_lies_at_the_roots_of_what_is_not_installed_is_left_alone() {
    let site = Site::new();
    let recipe = of_demo(&site, "not-there");
    let before = snapshot(&site.top());
    for (more, exit) in [(&[][..], 0), (&["--allow-drift"], 0), (&["--revert"], 0), (&["p"], 3)] {
        let output = patch(&site, &recipe).args(more).output().unwrap();
        let report = json(&output);
        assert_eq!(
            (code(&output), &report["patches"][0]["state"]),
            (exit, &"not-installed".into()),
            "{report}"
        );
        assert!(report["patches"][0]["notes"][0].as_str().unwrap().contains("not-there is not installed"));
        assert_same(&before, &snapshot(&site.top()));
    }
    of_demo(&site, "demo");
    assert_eq!(json(&patch(&site, &recipe).output().unwrap())["patches"][0]["state"], "applied");
}

#[test]
fn of_two_site_packages_the_one_where_something_else_has_the_name_is_left_alone() {
    // Also where the other one of that name is installed in both, so that an import takes it from the first.
    for in_both in [false, true] {
        let site = Site::new();
        let recipe = of_demo(&site, "there");
        let other = site.top().join("other");
        for name in if in_both { &["there", "demo"][..] } else { &["there"] } {
            let info = other.join(format!("{name}-1.0.dist-info"));
            fs::create_dir_all(&info).unwrap();
            fs::write(info.join("METADATA"), format!("Name: {name}\nVersion: 1.0\n")).unwrap();
        }
        fs::create_dir(other.join("demo")).unwrap();
        fs::copy(site.at("demo/a.py"), other.join("demo/a.py")).unwrap();
        let before = snapshot(&site.at("demo"));
        let mut command = tool(&["patch", "--format", "json", "--recipe"]);
        let places = [other.clone(), site.at("")];
        let places = places.iter().flat_map(|place| ["--site-packages".as_ref(), place.as_os_str()]);
        let output = command.arg(&recipe).args(places).output().unwrap();
        let report = json(&output);
        assert_eq!((code(&output), &report["patches"][0]["state"]), (0, &"applied".into()), "{report}");
        assert_same(&before, &snapshot(&site.at("demo")));
        assert!(fs::read_to_string(other.join("demo/a.py")).unwrap().contains("FIVE"));
    }
}

/// A root may be a directory above site-packages: what lies there is listed by a RECORD all the same.
#[test]
fn what_is_patched_from_above_site_packages_is_seen_to_as_if_from_within() {
    let (within, above) = (Site::new(), Site::new());
    assert_eq!(code(&patch(&within, &of_demo(&within, "demo")).output().unwrap()), 0);
    let original = fs::read_to_string(above.at("demo/a.py")).unwrap();
    let beside = above.top().join("beside/a.py");
    fs::create_dir(beside.parent().unwrap()).unwrap();
    fs::write(&beside, &original).unwrap();
    let places = ["site-packages/demo/a.py", "beside/a.py"];
    let changed = original.replace("five", "FIVE");
    let known = places.map(|path| files(path, original.as_bytes(), changed.as_bytes())).join(" }, { ");
    let text = places.map(|path| PATCH.replace("/a.py", &format!("/{path}"))).concat();
    let my = recipe(&above, "demo", above.top().to_str().unwrap(), text.as_bytes(), &known);
    let before = snapshot(&above.at(""));
    let output = patch(&above, &my).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    for name in ["demo/a.py", "demo-1.0.dist-info/RECORD"] {
        assert_eq!(fs::read(above.at(name)).unwrap(), fs::read(within.at(name)).unwrap(), "{name}");
    }
    assert!(!above.at("demo/__pycache__/a.cpython-311.pyc").exists());
    assert_eq!(fs::read_to_string(&beside).unwrap(), changed);
    assert_eq!(json(&patch(&above, &my).output().unwrap())["patches"][0]["state"], "already");
    let output =
        tool(&["undo", "--site-packages"]).arg(above.at("")).arg("--recipe").arg(&my).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_same(&before, &snapshot(&above.at("")));
    assert_eq!(fs::read_to_string(&beside).unwrap(), original);
}

#[test]
fn a_directory_without_the_marker_of_a_target_is_none() {
    let site = Site::new();
    let recipe = of_demo(&site, "demo");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, text.replace("roots = [", "marker = \"mark\", roots = [")).unwrap();
    let before = snapshot(&site.at("demo"));
    let report = json(&patch(&site, &recipe).output().unwrap());
    assert_ne!(report["patches"][0]["state"], "applied", "{report}");
    assert_same(&before, &snapshot(&site.at("demo")));
    fs::write(site.at("demo/mark"), "").unwrap();
    let report = json(&patch(&site, &recipe).output().unwrap());
    assert_eq!(report["patches"][0]["state"], "applied", "{report}");
}

/// Of its roots one is a file, and one is told twice.
#[test]
fn a_target_is_each_directory_once() {
    let site = Site::new();
    let recipe = of_demo(&site, "DEMO");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, text.replace("[\"demo\"]", "[\"demo/b.py\", \"demo\", \"demo\"]")).unwrap();
    let report = json(&patch(&site, &recipe).output().unwrap());
    assert_eq!(report["patches"][0]["state"], "applied", "{report}");
    assert_eq!(report["patches"][0]["files"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn a_variable_that_is_no_absolute_path_gives_no_root() {
    let site = Site::new();
    let recipe = of_demo(&site, "demo");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, text.replace("[\"demo\"]", "[\"$PLACE\"]")).unwrap();
    let before = snapshot(&site.at("demo"));
    let report = json(&patch(&site, &recipe).env("PLACE", "demo").output().unwrap());
    assert_ne!(report["patches"][0]["state"], "applied", "{report}");
    assert_same(&before, &snapshot(&site.at("demo")));
}

#[test]
fn directories_above_site_packages_may_be_called_like_the_journal() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join(".rocm-fixup/site-packages/demo/a.py");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "old\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.patch"), "--- a/demo/a.py\n+++ b/demo/a.py\n@@ -1 +1 @@\n-old\n+new\n")
        .unwrap();
    let mut command = tool(&["patch", "--from"]);
    let site = top.path().join(".rocm-fixup/site-packages");
    let output = command.arg(folder.path()).arg("--site-packages").arg(site).output().unwrap();
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(fs::read_to_string(file).unwrap(), "new\n");
}

#[test]
fn a_recipe_for_the_journal_or_a_stage_is_refused() {
    let site = Site::new();
    let folder = site.patch("first", "demo/b.py", "two", "TWO");
    let original = snapshot(&site.at("demo"));
    assert_eq!(code(&site.run(&folder, &[])), 0);
    let journal = site.at(".rocm-fixup");
    fs::create_dir(site.at("demo/.rocm-fixup-0001-0")).unwrap();
    symlink(&journal, site.top().join("link")).unwrap();
    let elsewhere = site.top().join("elsewhere/.rocm-fixup");
    fs::create_dir_all(&elsewhere).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (link, absolute) = (text(&site.top().join("link")), text(&journal));
    for (root, place, name) in [
        (".rocm-fixup", "", "0007.plan"),
        ("demo/.rocm-fixup-0001-0", "", "x.py"),
        (&absolute, "", "0007.plan"),
        (&link, "", "0007.plan"),
        ("$PLACE", &absolute, "0007.plan"),
        ("$PLACE/objects", &absolute, "0007.plan"),
        ("$PLACE", &text(&elsewhere), "0007.plan"),
        ("demo", "", ".rocm-fixup-0001-1"),
    ] {
        let makes = format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n");
        let after = format!("path = \"{name}\", after = \"{}\"", Sha256::of(b"x\n"));
        let recipe = recipe(&site, "demo", root, makes.as_bytes(), &after);
        let before = snapshot(&site.top());
        for verb in ["patch", "run"] {
            let mut command = tool(&[verb, "--recipe"]);
            command.arg(&recipe).env("PLACE", place).arg("--site-packages").arg(site.at(""));
            let output = command.output().unwrap();
            let said = said(&output);
            assert!(code(&output) == 2 && said.contains("journal of this program"), "{root} {place}: {said}");
        }
        assert_same(&before, &snapshot(&site.top()));
        if root.starts_with(".rocm") {
            let said = said(&tool(&["recipe", "check"]).arg(&recipe).output().unwrap());
            assert!(said.contains("line 7, column 44: `.rocm-fixup` lies in the journal"), "{said}");
        }
    }
    fs::remove_dir(site.at("demo/.rocm-fixup-0001-0")).unwrap();
    let undone = tool(&["undo", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_eq!(code(&undone), 0, "{}", said(&undone));
    assert_same(&original, &snapshot(&site.at("demo")));
}

/// A library with lines of text at its end, and a patch that adds one.
fn library(site: &Site) -> (Vec<u8>, String) {
    let line = "core/lib/libx.so.1 library libx.so.1 1";
    let built = site.top().join("built");
    fs::create_dir(&built).unwrap();
    let tree = SdkTree::builder().line(line).build(&built);
    let mut bytes = fs::read(tree.path("core/lib/libx.so.1")).unwrap();
    bytes.extend_from_slice(b"\none\ntwo\nthree\n");
    let start = bytes.iter().filter(|&&byte| byte == b'\n').count() - 2;
    let hunk = format!("@@ -{start},3 +{start},4 @@\n one\n two\n three\n+four\n");
    (bytes, hunk)
}

/// The refusal of a patch's only file.
fn refusal(output: &Output) -> String {
    let report: Value = json(output);
    let patch = &report["patches"][0];
    assert_eq!((code(output), &patch["state"]), (3, &"conflict".into()), "{report}");
    patch["files"][0]["conflict"].as_str().unwrap().to_owned()
}

#[test]
fn a_library_is_not_patched_and_none_is_made() {
    let site = Site::new();
    let (bytes, hunk) = library(&site);
    fs::write(site.at("demo/libx.so.1"), &bytes).unwrap();
    let folder = site.top().join("plain");
    fs::create_dir(&folder).unwrap();
    let named = |names: [&str; 2], hunk: &str| format!("--- {}\n+++ {}\n{hunk}", names[0], names[1]);
    let of = |name: &str, hunk: &str| named([&format!("a/{name}"), &format!("b/{name}")], hunk);
    let never = "it is a library or program (ELF), whose bytes are never changed: reinstall its package";
    let makes = "the patch makes a library or program (ELF) of it, which only a package may bring";
    fs::write(site.at("demo/text"), "one\n").unwrap();
    fs::write(site.at("demo/elf"), "\x7fELF\n").unwrap();
    let (to_elf, from_elf) = ("@@ -1 +1 @@\n-one\n+\x7fELF\n", "@@ -1 +1 @@\n-\x7fELF\n+one\n");
    for (text, more, why) in [
        (of("demo/libx.so.1", &hunk), &[][..], never),
        (of("demo/libx.so.1", &hunk), &["--revert"], never),
        (of("demo/elf", from_elf), &[], never),
        (named(["a/demo/elf", "/dev/null"], "@@ -1 +0,0 @@\n-\x7fELF\n"), &[], never),
        (of("demo/text", to_elf), &[], makes),
        (of("demo/text", from_elf), &["--revert"], makes),
        (named(["/dev/null", "b/demo/new"], "@@ -0,0 +1 @@\n+\x7fELF\n"), &[], makes),
    ] {
        fs::write(folder.join("x.patch"), &text).unwrap();
        let before = snapshot(&site.top());
        let found = refusal(&site.run(&folder, more));
        assert!(found.contains(why), "{text}: {found}");
        assert_same(&before, &snapshot(&site.top()));
    }
    let after = [&bytes[..], b"four\n"].concat();
    let files = files("libx.so.1", &bytes, &after);
    let recipe = recipe(&site, "demo", "demo", of("libx.so.1", &hunk).as_bytes(), &files);
    let before = snapshot(&site.top());
    let found = refusal(&patch(&site, &recipe).output().unwrap());
    assert!(found.contains(never), "{found}");
    assert_same(&before, &snapshot(&site.top()));
    // A linker script under a library's name is text.
    fs::write(site.at("demo/libx.so"), "one\n").unwrap();
    fs::write(folder.join("x.patch"), of("demo/libx.so", "@@ -1 +1 @@\n-one\n+INPUT(libx.so.1)\n")).unwrap();
    assert_eq!(code(&site.run(&folder, &[])), 0);
}
