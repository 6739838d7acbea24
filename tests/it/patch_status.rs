//! `status` names the plain patches that runs recorded, and says whether they are still in place.

use std::fs;

use serde_json::Value;

use crate::cli::tool;
use crate::patch_cli::{Site, code};
use crate::snapshot::{assert_same, snapshot};

/// Exit code, and for each plain patch its name, state and notes. Looks only.
fn status(site: &Site) -> (i64, Vec<(String, String, String)>) {
    let before = snapshot(&site.top());
    let output = tool(&["status", "--format", "json", "--site-packages"]).arg(site.at("")).output().unwrap();
    assert_same(&before, &snapshot(&site.top()));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["exit_code"], code(&output));
    let told = |patch: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&patch["name"]), text(&patch["state"]), patch["notes"].to_string())
    };
    let patches = json["patches"].as_array().unwrap().iter().map(told);
    // The default recipe's own are not installed here.
    (json["exit_code"].as_i64().unwrap(), patches.filter(|p| p.2.contains("patch --from")).collect())
}

fn states(site: &Site) -> (i64, Vec<(String, String)>) {
    let (code, patches) = status(site);
    (code, patches.into_iter().map(|(name, state, _)| (name, state)).collect())
}

fn are(patches: &[(&str, &str)]) -> Vec<(String, String)> {
    patches.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn made_drifted_gone_and_taken_back() {
    let site = Site::new();
    let original = fs::read_to_string(site.at("demo/a.py")).unwrap();
    let (near, far) =
        (site.patch("near", "demo/a.py", "two", "TWO"), site.patch("far", "demo/a.py", "nine", "NINE"));
    assert_eq!(states(&site), (0, vec![]));
    assert_eq!(code(&site.run(&near, &["--dry-run"])), 0);
    assert_eq!(states(&site), (0, vec![]), "a dry run records nothing");
    assert_eq!(code(&site.run(&near, &[])), 0);
    let (exit, told) = status(&site);
    assert!(exit == 0 && told[0].2.contains("run 0001"), "{told:?}");
    assert_eq!(states(&site), (0, are(&[("near", "applied")])));
    // A second patch of the same file is no drift of the first.
    assert_eq!(code(&site.run(&far, &[])), 0);
    assert_eq!(states(&site), (0, are(&[("far", "applied"), ("near", "applied")])));
    let patched = fs::read_to_string(site.at("demo/a.py")).unwrap();
    fs::write(site.at("demo/a.py"), patched.replace("five", "5")).unwrap();
    assert_eq!(states(&site), (3, are(&[("far", "drifted"), ("near", "drifted")])));
    fs::remove_file(site.at("demo/a.py")).unwrap();
    assert!(status(&site).1[0].2.contains("is gone"));
    fs::write(site.at("demo/a.py"), &patched).unwrap();
    assert_eq!(states(&site).0, 0);
    assert_eq!(code(&site.run(&near, &["--revert"])), 0);
    assert_eq!(states(&site), (0, are(&[("far", "applied")])));
    assert_eq!(code(&tool(&["undo", "--site-packages"]).arg(site.at("")).output().unwrap()), 0);
    assert_eq!(states(&site), (0, are(&[("far", "applied"), ("near", "applied")])), "the revert was undone");
    assert_eq!(code(&tool(&["undo", "--all", "--site-packages"]).arg(site.at("")).output().unwrap()), 0);
    assert_eq!(states(&site), (0, vec![]));
    assert_eq!(fs::read_to_string(site.at("demo/a.py")).unwrap(), original);
}

#[test]
fn a_reinstalled_package_is_pending_and_an_uninstalled_one_is_no_trouble() {
    let site = Site::new();
    let original = fs::read(site.at("demo/a.py")).unwrap();
    let folder = site.patch("p", "demo/a.py", "two", "TWO");
    assert_eq!(code(&site.run(&folder, &[])), 0);
    fs::write(site.at("demo/a.py"), original).unwrap();
    assert_eq!(states(&site), (4, are(&[("p", "pending")])));
    let said = tool(&["status", "--site-packages"]).arg(site.at("")).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("is as it was before the patch") && said.contains("patch --from DIR"), "{said}");
    assert!(!said.contains("run --recipe"), "{said}");
    fs::remove_dir_all(site.at("demo")).unwrap();
    assert_eq!(states(&site), (0, are(&[("p", "not-installed")])));
}

#[test]
fn files_made_and_deleted_count_too() {
    let site = Site::new();
    let folder = site.top().join("patches");
    fs::create_dir(&folder).unwrap();
    let made = "--- /dev/null\n+++ b/demo/new.py\n@@ -0,0 +1 @@\n+one\n";
    let text = fs::read_to_string(site.at("demo/b.py")).unwrap();
    let lines: String = text.lines().map(|line| format!("-{line}\n")).collect();
    let deleted = format!("--- a/demo/b.py\n+++ /dev/null\n@@ -1,10 +0,0 @@\n{lines}");
    fs::write(folder.join("p.patch"), format!("{made}{deleted}")).unwrap();
    assert_eq!(code(&site.run(&folder, &[])), 0);
    assert_eq!(states(&site), (0, are(&[("p", "applied")])));
    fs::write(site.at("demo/b.py"), text).unwrap();
    assert_eq!(states(&site), (4, are(&[("p", "partial")])));
    fs::write(site.at("demo/b.py"), "other").unwrap();
    assert_eq!(states(&site), (3, are(&[("p", "drifted")])));
}
