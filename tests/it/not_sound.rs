//! Trees in which a loader may find a library twice, and `dedup` can't help it: neither it nor `status` may say that all
//! is well.

use serde_json::Value;

use crate::cli::{json, tool};
use crate::sdk_tree::{Builder, SdkTree};

const PAIR: [&str; 2] =
    ["core/lib/libX.so.1 library libX.so.1 1", "devel/lib/libX.so.1 copy core/lib/libX.so.1"];

/// What both commands say of a tree, where the first has nothing more to do.
fn told(lines: &[&str], code: i32) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let tree = lines.iter().copied().fold(SdkTree::builder(), Builder::line).build(dir.path());
    ["dedup", "status"]
        .map(|verb| {
            let output =
                tool(&[verb, "--format", "json", "--site-packages"]).arg(&tree.site_packages).output();
            let output = output.unwrap();
            let report = json(&output);
            assert_eq!(output.status.code(), Some(code), "{verb} {lines:?}: {report}");
            report
        })
        .to_vec()
}

#[test]
fn what_cannot_be_merged_ends_with_3() {
    let cases: [(&str, &[&str]); 5] = [
        ("content", &["core/lib/libY.so library libY.so 1", "devel/lib/libY.so text cut off"]),
        ("outside", &["devel/lib/libX.so symlink /dev/null"]),
        ("outside", &["core/lib/libX.so symlink /dev/null"]),
        (
            "directory-link",
            &[
                "devel/k/libX.so.1 copy core/lib/libX.so.1",
                "core/lib/k/libX.so.1 copy core/lib/libX.so.1",
                "devel/lib/k symlink ../k",
            ],
        ),
        (
            "directory-link",
            &[
                "core/k/libX.so.1 copy core/lib/libX.so.1",
                "core/lib/k symlink ../k",
                "devel/lib/k/libX.so.1 copy core/lib/libX.so.1",
            ],
        ),
    ];
    for (reason, more) in cases {
        for report in told(&[&PAIR, more].concat(), 3) {
            let conflicts = report["dedup"]["conflicts"].as_array().unwrap();
            assert!(conflicts.len() == 1 && conflicts[0]["reason"] == reason, "{more:?}: {report}");
        }
    }
}

#[test]
fn separate_files_of_one_tree_are_a_warning() {
    for tree in ["core", "devel"] {
        let lines = [
            &PAIR[..],
            &[
                &format!("{tree}/lib/libY.so.1 library libY.so.1 1"),
                &format!("{tree}/lib/libY.so copy {tree}/lib/libY.so.1"),
            ],
        ];
        for report in told(&lines.concat(), 0) {
            let warnings = report["warnings"].as_array().unwrap();
            assert!(warnings.len() == 1 && warnings[0]["name"] == "one-soname", "{report}");
            let text = warnings[0]["text"].as_str().unwrap();
            assert!(text.contains("lib/libY.so`") && text.contains("lib/libY.so.1`"), "{text}");
        }
    }
}
