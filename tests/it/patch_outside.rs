//! Patches of files outside of site-packages: what may be changed there may be taken back, and by nobody else's word.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use rocm_fixup::patch::sha::Sha256;

use crate::cli::tool;

struct Image {
    dir: tempfile::TempDir,
    site: PathBuf,
}

impl Image {
    fn new(distribution: &str, version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().canonicalize().unwrap().join("site-packages");
        let info = site.join(format!("{}-{version}.dist-info", distribution.replace('-', "_")));
        fs::create_dir_all(&info).unwrap();
        let text = format!("Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n");
        fs::write(info.join("METADATA"), text).unwrap();
        Self { dir, site }
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.site.with_file_name("outside").join(name)
    }

    fn call(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = tool(args);
        command.arg("--site-packages").arg(&self.site).env("TL_TEMPLATE_PATH", self.outside(""));
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.code(), [String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap()].concat())
    }
}

#[test]
fn a_built_in_recipes_place_outside_is_patched_and_taken_back() {
    let image = Image::new("tilelang", "0.1.8");
    let header = image.outside("tl_templates/hip/hip_fp8.h");
    fs::create_dir_all(header.parent().unwrap()).unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/patch-cases/packages/tilelang-0.1.8");
    let before = fs::read(package.join("hip_fp8.h")).unwrap();
    fs::write(&header, &before).unwrap();

    let (code, said) = image.call(&["patch", "--recipe", "miles-rocm10"]);
    assert!(code == Some(0) && fs::read(&header).unwrap() != before, "{said}");
    let (code, said) = image.call(&["status"]);
    assert!(code == Some(0), "{said}");
    let (code, said) = image.call(&["undo"]);
    assert!(code == Some(0) && fs::read(&header).unwrap() == before, "{said}");
    assert!(!image.site.join(".rocm-fixup").exists());
}

#[test]
fn a_recipe_file_is_asked_for_since_a_journal_alone_grants_nothing() {
    let image = Image::new("d", "1");
    let file = image.outside("x.py");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "one\n").unwrap();
    let hash = |text: &str| Sha256::of(text.as_bytes());
    let recipe = image.dir.path().join("mine.toml");
    fs::write(
        &recipe,
        format!(
            "name = \"mine\"\ndescription = \"mine\"\n[[patch]]\nname = \"p\"\nreason = \"r\"\nfile = \"p.patch\"\n\
             target = {{ distribution = \"d\", roots = [\"{}\"] }}\n[[patch.variant]]\nversions = \"==1\"\n\
             files = [{{ path = \"x.py\", before = \"{}\", after = \"{}\" }}]\n",
            file.parent().unwrap().display(),
            hash("one\n"),
            hash("ONE\n"),
        ),
    )
    .unwrap();
    fs::write(image.dir.path().join("p.patch"), "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-one\n+ONE\n").unwrap();
    let named = recipe.to_str().unwrap();

    let (code, said) = image.call(&["patch", "--recipe", named]);
    assert!(code == Some(0) && fs::read(&file).unwrap() == b"ONE\n", "{said}");
    let (code, said) = image.call(&["undo"]);
    assert!(code == Some(3) && said.contains("--recipe"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), b"ONE\n");
    let (code, said) = image.call(&["undo", "--recipe", named]);
    assert!(code == Some(0) && fs::read(&file).unwrap() == b"one\n", "{said}");
}
