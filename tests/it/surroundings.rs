//! What is around a tree: mounts inside of it, another user's files, and reports that would land in it.

use std::path::Path;
use std::process::{Command, Output};

use crate::cli::{json, tool};
use crate::sdk_tree::SdkTree;
use crate::snapshot::{assert_same, snapshot};

fn standard(dir: &Path) -> SdkTree {
    SdkTree::builder()
        .line("core/lib/libX.so.3 library libX.so.3 1")
        .line("devel/lib/libX.so.3 copy core/lib/libX.so.3")
        .line("devel/lib/libX.so hardlink devel/lib/libX.so.3")
        .build(dir)
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// Bind mounts, in a mount namespace of its own: only root can make one.
#[test]
fn what_is_mounted_inside_of_a_tree_is_not_linked() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: no mount namespace can be made here");
        return;
    }
    for mounted in ["core/lib", "core/lib/libX.so.3", "devel/lib", "devel/lib/libX.so"] {
        let dir = tempfile::tempdir().unwrap();
        let tree = standard(dir.path());
        let (at, copy) = (tree.path(mounted), dir.path().join("copy"));
        assert!(Command::new("cp").arg("-a").args([&at, &copy]).status().unwrap().success());
        let before = snapshot(dir.path());
        let script = r#"mount --bind "$1" "$2" && exec "$3" dedup --format json --site-packages "$4""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).args([&copy, &at]);
        let output = command.arg(env!("CARGO_BIN_EXE_rocm-fixup")).arg(&tree.site_packages).output().unwrap();
        let report = json(&output);
        assert_eq!(code(&output), Some(3), "{mounted}: {report:#}");
        assert_eq!(report["dedup"]["conflicts"][0]["reason"], "mounted", "{mounted}: {report:#}");
        assert_same(&before, &snapshot(dir.path()));
        let whole = tool(&["dedup", "--site-packages"]).arg(&tree.site_packages).output().unwrap();
        assert_eq!(code(&whole), Some(0), "{mounted}: without the mount");
    }
}
