//! Trees in which a loader may find a library twice, and `dedup` can't help it: neither it nor `status` may say that all
//! is well.

use serde_json::Value;

use crate::cli::{json, tool};
use crate::sdk_tree::{Builder, SdkTree};
use crate::snapshot::snapshot;

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
    refused_twice(&cases);
}

fn refused_twice(cases: &[(&str, &[&str])]) {
    for (reason, more) in cases {
        for report in told(&[&PAIR, *more].concat(), 3) {
            let conflicts = report["dedup"]["conflicts"].as_array().unwrap();
            assert!(conflicts.len() == 1 && conflicts[0]["reason"] == *reason, "{more:?}: {report}");
        }
    }
}

/// Whoever opens both names has two libraries, whatever their bytes are.
#[test]
fn a_link_to_another_file_than_the_owners_ends_with_3() {
    const OWNER: &str = "core/lib/libZ.so.1 library libZ.so.1 5";
    let elsewhere = "devel/lib/libZ.so.1 symlink o/libZ.so.1";
    let cases: [(&str, &[&str]); 6] = [
        ("other-file", &[OWNER, "devel/lib/o/libZ.so.1 library libZ.so.1 6", elsewhere]),
        ("other-file", &[OWNER, "devel/lib/o/libZ.so.1 copy core/lib/libZ.so.1", elsewhere]),
        (
            "other-file",
            &[
                OWNER,
                "core/lib/libOld.so.1 library libQ.so.1 7",
                "devel/lib/libZ.so.1 symlink ../../_rocm_sdk_core/lib/libOld.so.1",
            ],
        ),
        (
            "other-file",
            &[
                OWNER,
                "devel/share/x/blob copy core/lib/libZ.so.1",
                "devel/lib/libZ.so.1 symlink ../share/x/blob",
            ],
        ),
        // Before the run it leads to a copy of another of the owner's files, and afterwards to that one itself.
        ("other-file", &["core/lib/libX.so library libX.so 9", "devel/lib/libX.so symlink libX.so.1"]),
        // The owner's is a link that will be turned.
        (
            "other-file",
            &[
                "devel/lib/real/libZ.so.1 library libZ.so.1 5",
                "core/lib/libZ.so.1 symlink ../../_rocm_sdk_devel/lib/real/libZ.so.1",
                "devel/lib/o/libq.so library libq.so 6",
                "devel/lib/libZ.so.1 symlink o/libq.so",
            ],
        ),
    ];
    refused_twice(&cases);
}

/// What is refused is left as it is, and so are its other names.
#[test]
fn a_name_that_the_owner_has_outside_refuses_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["core/lib/libX.so symlink /dev/null", "devel/lib/libX.so copy core/lib/libX.so.1"];
    let tree = [PAIR, more].concat().into_iter().fold(SdkTree::builder(), Builder::line).build(dir.path());
    let before = snapshot(&tree.site_packages);
    let output = tool(&["dedup", "--format", "json", "--site-packages"]).arg(&tree.site_packages).output();
    let report = json(&output.unwrap());
    assert_eq!(report["dedup"]["conflicts"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["dedup"]["linked"].as_array().unwrap().len(), 0, "{report}");
    assert_eq!(snapshot(&tree.site_packages), before);
}

/// "Installed in part" is no reason: the file was there when the link was made.
#[test]
fn a_link_of_ours_whose_file_is_gone_is_not_sound() {
    let dir = tempfile::tempdir().unwrap();
    let tree = PAIR.into_iter().fold(SdkTree::builder(), Builder::line).build(dir.path());
    let site = &tree.site_packages;
    assert!(tool(&["dedup", "--site-packages"]).arg(site).status().unwrap().success());
    std::fs::remove_file(site.join("_rocm_sdk_core/lib/libX.so.1")).unwrap();
    for verb in ["status", "dedup"] {
        let output = tool(&[verb, "--format", "json", "--site-packages"]).arg(site).output().unwrap();
        let report = json(&output);
        assert_eq!(output.status.code(), Some(3), "{verb}: {report}");
        assert_eq!(report["dedup"]["conflicts"][0]["reason"], "dangling", "{report}");
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

/// Two packages that both have it, or a directory of devel's own: there is nothing to merge, and a program can open both.
#[test]
fn separate_files_of_two_trees_are_a_warning() {
    let cases = [
        ["core/lib/libY.so.1", "libraries_gfx94X/lib/libY.so.1"],
        ["core/lib/libY.so.1", "devel/llvm/lib/libY.so.1"],
        ["libraries/lib/k/libY.so.1", "core/lib/libY.so.1"],
    ];
    for [one, other] in cases {
        let (library, copy) = (format!("{one} library libY.so.1 1"), format!("{other} copy {one}"));
        let lines = [&PAIR[..], &[&library, &copy]].concat();
        for report in told(&lines, 0) {
            let warnings = report["warnings"].as_array().unwrap();
            assert!(warnings.len() == 1 && warnings[0]["name"] == "one-soname", "{report}");
            let text = warnings[0]["text"].as_str().unwrap();
            for path in [one, other] {
                assert!(text.contains(&format!("_rocm_sdk_{path}`")), "{text}");
            }
        }
    }
}
