//! `docs/schema/report-1.json` is what the types say, and real reports are what the schema says. A published schema is
//! only added to: `BLESS=1 cargo test --test it json_schema` rewrites it, and refuses to take a field away.

use std::path::Path;
use std::process::Command;

use rocm_fixup::report::Report;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::python_support::{python, venv};
use crate::sdk_tree::{Builder, Form, SdkTree};

const FILE: &str = "docs/schema/report-1.json";

fn generated() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = serde_json::to_value(generator.into_root_schema_for::<Report>()).unwrap();
    schema["title"] = "Report of rocm-fixup, format_version 1".into();
    schema
}

/// Each field of each object, as `Type.field`.
fn fields(schema: &Value) -> Vec<String> {
    let of = |name: &str, object: &Value| -> Vec<String> {
        let properties = object["properties"].as_object().cloned().unwrap_or_else(Map::new);
        properties.keys().map(|field| format!("{name}.{field}")).collect()
    };
    let types = schema["$defs"].as_object().unwrap();
    let mut all = of("Report", schema);
    types.iter().for_each(|(name, object)| all.extend(of(name, object)));
    all
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let now = generated();
    let published = std::fs::read_to_string(FILE).ok();
    let published: Option<Value> = published.map(|text| serde_json::from_str(&text).unwrap());
    if let Some(published) = &published {
        let kept = fields(&now);
        let gone: Vec<String> = fields(published).into_iter().filter(|f| !kept.contains(f)).collect();
        assert!(gone.is_empty(), "fields are added, never removed: {gone:?}");
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(Path::new(FILE).parent().unwrap()).unwrap();
        return std::fs::write(FILE, serde_json::to_string_pretty(&now).unwrap() + "\n").unwrap();
    }
    assert!(published.as_ref() == Some(&now), "{FILE} is not that of the types; BLESS=1 rewrites it");
}

#[test]
fn each_field_is_told_in_the_documentation() {
    let text = std::fs::read_to_string("docs/json.md").unwrap();
    let untold: Vec<String> = fields(&generated())
        .into_iter()
        .filter(|field| !text.contains(&format!("`{}`", field.rsplit('.').next().unwrap())))
        .collect();
    assert!(untold.is_empty(), "docs/json.md says nothing of {untold:?}");
}

/// What the program prints for a tree, checked.
fn valid(site: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
    command.args(["--format", "json", "-q"]).args(arguments);
    if !arguments.contains(&"--python") {
        command.arg("--site-packages").arg(site);
    }
    let done = command.output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{arguments:?}: {wrong:?}");
    assert_eq!(Some(i64::from(done.status.code().unwrap())), report["exit_code"].as_i64());
    report
}

#[test]
fn real_reports_are_valid() {
    let dir = TempDir::new().unwrap();
    let builder = Builder::standard()
        .line("core/lib/libX.so.1 library libX.so.1 1")
        .line("devel/lib/libX.so.1 library libX.so.1 2");
    let tree = builder.build(dir.path());
    tree.reshape(Form::Split);
    let site = &tree.site_packages;
    assert!(valid(site, &["locate"])["environment"]["trees"].as_array().unwrap().len() == 4);
    valid(site, &["status"]);
    let report = valid(site, &["dedup", "--device-links"]);
    assert_eq!(report["dedup"]["conflicts"].as_array().unwrap().len(), 1);
    assert_eq!(report["dedup"]["linked"].as_array().unwrap().len(), 12);
    assert!(report["journal"]["id"].is_string());
    assert!(valid(site, &["status"])["runs"].as_array().unwrap().len() == 1);
    valid(site, &["undo", "--dry-run"]);
    valid(site, &["undo", "--all"]);
    let error = valid(Path::new("/no/such/directory"), &["status"]);
    assert!(error["error"]["message"].is_string());
    let other = SdkTree::builder().line("torch/__init__.py text x").build(&dir.path().join("lib"));
    valid(&other.site_packages, &["dedup", "--require-sdk"]);
}

#[test]
fn reports_of_patches_and_checks_are_valid() {
    let dir = TempDir::new().unwrap();
    let (python, site) = venv(&python(), &dir.path().canonicalize().unwrap().join("venv"));
    std::fs::write(site.join("works.py"), "before\n").unwrap();
    std::fs::write(site.join("dies.py"), "import os\nos.write(2, b'x')\nos.abort()\n").unwrap();
    let patches = dir.path().join("patches");
    std::fs::create_dir(&patches).unwrap();
    let file = patches.join("one.patch");
    let patch = "--- a/works.py\n+++ b/works.py\n@@ -1 +1 @@\n-before\n+after\n";
    std::fs::write(&file, patch).unwrap();
    let at = ["--python", python.to_str().unwrap()];
    let with = |words: &[&str]| valid(&site, &[words, &at].concat());
    let from = ["patch", "--from", patches.to_str().unwrap()];
    assert_eq!(with(&[&from[..], &["--dry-run"]].concat())["patches"][0]["state"], "pending");
    assert_eq!(with(&from)["patches"][0]["state"], "applied");
    assert_eq!(with(&from)["patches"][0]["state"], "already");
    assert_eq!(with(&[&from[..], &["--revert"]].concat())["patches"][0]["state"], "reverted");
    std::fs::write(&file, patch.replace("before", "other")).unwrap();
    assert_eq!(with(&from)["patches"][0]["state"], "conflict");
    let checks = with(&["smoke", "dies", "no_such_module"]);
    assert_eq!(checks["checks"][0]["verdict"], "signal");
    assert_eq!(with(&["require", "glibc>=2.1"])["checks"][0]["verdict"], "ok");
    with(&["run"]);
    with(&["status"]);
    with(&["locate"]);
}

#[test]
fn a_path_that_is_not_utf_8_comes_with_its_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = TempDir::new().unwrap();
    let tree = Builder::standard().build(dir.path());
    for (owner, seed) in [("core", "1"), ("devel", "2")] {
        tree.make(&format!("{owner}/lib/x.so library x.so {seed}"));
        let lib = tree.path(&format!("{owner}/lib"));
        std::fs::rename(lib.join("x.so"), lib.join(std::ffi::OsStr::from_bytes(b"lib\xff.so"))).unwrap();
    }
    let report = valid(&tree.site_packages, &["dedup", "--dry-run"]);
    let conflict = &report["dedup"]["conflicts"][0];
    assert!(conflict["path"].as_str().unwrap().ends_with("lib\u{fffd}.so"));
    let bytes = conflict["path_bytes"].as_str().unwrap();
    let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, bytes).unwrap();
    assert!(bytes.ends_with(b"/lib\xff.so"));
}
