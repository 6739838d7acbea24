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

    /// A recipe for these files of a directory, each of which is `one`.
    fn recipe(&self, root: &str, files: &[&str]) -> PathBuf {
        let (path, hash) = (self.dir.path().join("mine.toml"), |text: &str| Sha256::of(text.as_bytes()));
        let each = |file: &&str| {
            format!("{{ path = \"{file}\", before = \"{}\", after = \"{}\" }}", hash("one\n"), hash("ONE\n"))
        };
        let text = format!(
            "name = \"mine\"\ndescription = \"mine\"\n[[patch]]\nname = \"p\"\nreason = \"r\"\nfile = \"p.patch\"\n\
             target = {{ distribution = \"d\", roots = [\"{root}\"] }}\n[[patch.variant]]\nversions = \"==1\"\n\
             files = [{}]\n",
            files.iter().map(each).collect::<Vec<_>>().join(", "),
        );
        fs::write(&path, text).unwrap();
        let diff = |file: &&str| format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-one\n+ONE\n");
        fs::write(self.dir.path().join("p.patch"), files.iter().map(diff).collect::<String>()).unwrap();
        path
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
    let recipe = image.recipe(file.parent().unwrap().to_str().unwrap(), &["x.py"]);
    let named = recipe.to_str().unwrap();

    let (code, said) = image.call(&["patch", "--recipe", named]);
    assert!(code == Some(0) && fs::read(&file).unwrap() == b"ONE\n", "{said}");
    let (code, said) = image.call(&["undo"]);
    assert!(code == Some(3) && said.contains("--recipe"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), b"ONE\n");
    let (code, said) = image.call(&["undo", "--recipe", named]);
    assert!(code == Some(0) && fs::read(&file).unwrap() == b"one\n", "{said}");
}

/// There no RECORD tells what belongs together: the root does.
#[test]
fn what_was_patched_at_one_place_outside_is_taken_back_whole_or_not_at_all() {
    let image = Image::new("d", "1");
    let names = ["a.py", "b.py", "ops/c.py"];
    let files = names.map(|name| image.outside(name));
    fs::create_dir_all(image.outside("ops")).unwrap();
    files.iter().for_each(|file| fs::write(file, "one\n").unwrap());
    let recipe = image.recipe(files[0].parent().unwrap().to_str().unwrap(), &names);
    let (patch, undo) = (["patch", "--recipe"], ["undo", "--recipe"]);
    let call = |what: [&str; 2]| image.call(&[what[0], what[1], recipe.to_str().unwrap()]);
    let read = || files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(call(patch).0, Some(0));
    fs::write(&files[1], "somebody's\n").unwrap();
    let (code, said) = call(undo);
    assert_eq!((code, read()), (Some(3), ["ONE\n", "somebody's\n", "ONE\n"].map(str::to_owned)), "{said}");
    fs::write(&files[1], "ONE\n").unwrap();
    let (code, said) = call(undo);
    assert_eq!((code, read()), (Some(0), ["one\n"; 3].map(str::to_owned)), "{said}");
}

/// Each site-packages has its own.
#[test]
fn of_a_package_that_is_installed_twice_each_record_is_updated() {
    let images = [Image::new("d", "1"), Image::new("d", "1")];
    let records = images.each_ref().map(|image| image.site.join("d-1.dist-info/RECORD"));
    for (image, record) in images.iter().zip(&records) {
        fs::create_dir(image.site.join("d")).unwrap();
        fs::write(image.site.join("d/x.py"), "one\n").unwrap();
        fs::write(record, "d/x.py,sha256=of-one,4\nd-1.dist-info/RECORD,,\n").unwrap();
    }
    let recipe = images[0].recipe("d", &["x.py"]);
    let before = records.each_ref().map(|record| fs::read(record).unwrap());
    let other = images[1].site.to_str().unwrap();
    let call = |verb| images[0].call(&[verb, "--recipe", recipe.to_str().unwrap(), "--site-packages", other]);
    let (code, said) = call("patch");
    assert!(code == Some(0) && !said.contains("no RECORD"), "{said}");
    for (image, record) in images.iter().zip(&records) {
        assert_eq!(fs::read_to_string(image.site.join("d/x.py")).unwrap(), "ONE\n");
        assert!(!fs::read_to_string(record).unwrap().contains("of-one"), "{said}");
    }
    assert_eq!(call("undo").0, Some(0));
    assert_eq!(records.each_ref().map(|record| fs::read(record).unwrap()), before);
}
