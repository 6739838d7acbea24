//! Imports that change what `run` has just made or found done: the run that made the checks says so, as `status` would.

use std::path::PathBuf;

use rocm_fixup::patch::sha::Sha256;
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{json, tool};
use crate::python_support::{distribution, python, venv};
use crate::sdk_tree::{Builder, Form, SdkTree};
use crate::snapshot::{assert_same, snapshot};

const PAIR: [&str; 2] =
    ["core/lib/libX.so.1 library libX.so.1 1", "devel/lib/libX.so.1 copy core/lib/libX.so.1"];
const BEFORE: &str = "def kernel():\n    pdl_sync()\n";
const AFTER: &str = "def kernel():\n    pass\n";

/// An image whose recipe merges, patches, and imports the module `imported`.
struct Image {
    dir: TempDir,
    tree: SdkTree,
    python: PathBuf,
}

impl Image {
    /// `SITE` in the module's text is the site-packages directory.
    fn new(builder: Builder, module: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let tree = builder.build(dir.path());
        let (python, site) = venv(&python(), &dir.path().canonicalize().unwrap().join("venv"));
        let module = format!(
            "import os\nSITE = {:?}\ndef renew(path, text):\n    os.unlink(path)\n    open(path, 'wb').write(text)\n{module}",
            tree.site_packages
        );
        std::fs::write(site.join("imported.py"), module).unwrap();
        std::fs::create_dir(tree.site_packages.join("kernels")).unwrap();
        std::fs::write(tree.site_packages.join("kernels/__init__.py"), BEFORE).unwrap();
        distribution(&tree.site_packages, "kernels", "1.0.0", "");
        let [before, after] = [BEFORE, AFTER].map(|text| Sha256::of(text.as_bytes()).to_string());
        let recipe = format!(
            r#"
            name = "example"
            description = "What an image needs"
            [dedup]
            device-links = true
            [[patch]]
            name = "no-pdl-sync"
            reason = "it has no meaning here"
            target = {{ distribution = "kernels", roots = ["kernels"] }}
            [[patch.variant]]
            versions = "==1.0.0"
            file = "p.patch"
            files = [{{ path = "__init__.py", before = "{before}", after = "{after}", size = {} }}]
            [[smoke]]
            name = "imported"
            module = "imported"
            reason = "everything needs it"
            "#,
            AFTER.len()
        );
        std::fs::write(dir.path().join("example.toml"), recipe).unwrap();
        let patch = "--- a/__init__.py\n+++ b/__init__.py\n@@ -1,2 +1,2 @@\n def kernel():\n-    pdl_sync()\n+    pass\n";
        std::fs::write(dir.path().join("p.patch"), patch).unwrap();
        Self { dir, tree, python }
    }

    /// The report of a command, with its exit code.
    fn says(&self, words: &[&str]) -> (Option<i32>, Value) {
        let mut command = tool(words);
        command.args(["--format", "json", "--recipe"]).arg(self.dir.path().join("example.toml"));
        command.arg("--python").arg(&self.python).arg("--site-packages").arg(&self.tree.site_packages);
        let output = command.output().unwrap();
        (output.status.code(), json(&output))
    }

    /// What a run says that an import has changed, where the next `status` ends with the same code.
    fn changed(&self, code: i32, words: &[&str]) -> String {
        let (ended, report) = self.says(words);
        assert_eq!(ended, Some(code), "{report}");
        assert_eq!(self.says(&["status"]).0, Some(code), "{report}");
        assert_eq!(report["checks"][0]["verdict"], "ok", "{report}");
        let row = &report["checks"][1];
        assert!(row["name"] == "changed-by-import" && row["verdict"] == "fail", "{report}");
        let next = report["next"].as_array().unwrap().last().unwrap().as_str().unwrap();
        let verb = if code == 4 { "run" } else { "status" };
        assert!(next.starts_with(&format!("rocm-fixup {verb} --recipe /")), "{next}");
        row["detail"].as_str().unwrap().to_owned()
    }
}

fn pair() -> Builder {
    PAIR.into_iter().fold(SdkTree::builder(), Builder::line)
}

#[test]
fn a_merge_that_an_import_takes_back_is_not_called_done() {
    let module = "path = SITE + '/_rocm_sdk_devel/lib/libX.so.1'\nrenew(path, open(path, 'rb').read())\n";
    let image = Image::new(pair(), module);
    // The first run makes the link, the second finds it made again and again.
    for _ in 0..2 {
        let told = image.changed(4, &["run"]);
        assert!(told.contains("1 library name to merge\n"), "{told}");
        assert!(told.ends_with("_rocm_sdk_devel/lib/libX.so.1"), "{told}");
    }
    let (code, report) = image.says(&["run", "--skip", "changed-by-import"]);
    assert_eq!((code, &report["warnings"]), (Some(0), &Value::Array(Vec::new())), "{report}");
}

/// As the SDK does where it is imported before `rocm-sdk init`: hard links that an image builder would split.
#[test]
fn a_devel_tree_that_an_import_makes_is_merged_by_the_next_run() {
    let module = "devel = SITE + '/_rocm_sdk_devel/lib'\nif not os.path.exists(devel):\n    os.makedirs(devel)\n    \
                  os.link(SITE + '/_rocm_sdk_core/lib/libX.so.1', devel + '/libX.so.1')\n";
    let image = Image::new(SdkTree::builder().line(PAIR[0]), module);
    let told = image.changed(4, &["run"]);
    assert!(told.contains("1 library name to merge\n"), "{told}");
    let (code, report) = image.says(&["run"]);
    assert_eq!((code, report["checks"].as_array().unwrap().len()), (Some(0), 1), "{report}");
    assert_eq!(image.says(&["status"]).0, Some(0));
}

#[test]
fn a_patch_that_an_import_takes_back_is_not_called_applied() {
    let module = |text: &str| format!("renew(SITE + '/kernels/__init__.py', {text:?}.encode())\n");
    let image = Image::new(pair(), &module(BEFORE));
    let told = image.changed(4, &["run"]);
    assert!(told.contains(": patch no-pdl-sync is not in place\n"), "{told}");
    let image = Image::new(pair(), &module("def kernel():\n    other()\n"));
    let told = image.changed(3, &["run"]);
    assert!(told.contains(": patch no-pdl-sync is not in place\n"), "{told}");
}

#[test]
fn a_library_that_an_import_makes_another_is_refused() {
    let module = "path = SITE + '/_rocm_sdk_devel/lib/libX.so.1'\nrenew(path, b'cut off')\n";
    let told = Image::new(pair(), module).changed(3, &["run"]);
    assert!(told.contains("1 path not as expected\n"), "{told}");
}

/// Device links that this run made anew are not to be made again, and what was refused before is no import's doing.
#[test]
fn nothing_more_is_said_where_imports_change_nothing() {
    let builder = Builder::standard()
        .line("libraries/lib/k/a.co text a")
        .line("devel/lib/k/a.co copy libraries/lib/k/a.co")
        .line("manifest libraries gfx942 lib/k/a.co");
    let image = Image::new(builder, "");
    image.tree.reshape(Form::Split);
    let before = snapshot(&image.tree.top);
    let rows = |words: &[&str], code: i32| {
        let (ended, report) = image.says(words);
        assert_eq!(ended, Some(code), "{report}");
        assert_eq!(report["checks"].as_array().unwrap().len(), 1, "{report}");
    };
    rows(&["run", "--dry-run"], 0);
    assert_same(&before, &snapshot(&image.tree.top));
    rows(&["run"], 0);
    let done = snapshot(&image.tree.top);
    rows(&["run"], 0);
    assert_same(&done, &snapshot(&image.tree.top));
    std::fs::write(image.tree.site_packages.join("kernels/__init__.py"), "other").unwrap();
    std::fs::write(image.tree.path("core/lib/libN.so.1"), "one").unwrap();
    image.tree.make("devel/lib/libN.so.1 library libN.so.1 1");
    rows(&["run", "--keep-going"], 3);
}
