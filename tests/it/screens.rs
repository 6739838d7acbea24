//! What people see: the real program in a real terminal of 80 and 120 columns, against `tests/it/screens/*.txt`.
//! `BLESS=1 cargo test --test it screens` rewrites the files; read the diff before committing it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use rocm_fixup::patch::sha::Sha256;
use tempfile::TempDir;

use crate::python_support::{distribution, python, version};
use crate::sdk_tree::{Builder, Form, SdkTree};

/// An SDK that a builder has split, at a path whose length doesn't depend on the machine.
struct Scene {
    dir: TempDir,
    tree: SdkTree,
}

impl Scene {
    fn new(builder: Builder, form: Form) -> Self {
        let dir = TempDir::new_in("/tmp").unwrap();
        let tree = builder.build(dir.path());
        tree.reshape(form);
        Self { dir, tree }
    }

    /// The directory becomes a virtual environment, so that checks can run in it.
    fn with_python(self) -> Self {
        let real = python().canonicalize().unwrap();
        let (major, minor) = version(&real);
        let home = real.parent().unwrap().display();
        std::fs::write(
            self.dir.path().join("pyvenv.cfg"),
            format!("home = {home}\ninclude-system-site-packages = false\nversion = {major}.{minor}\n"),
        )
        .unwrap();
        std::fs::create_dir(self.dir.path().join("bin")).unwrap();
        symlink(real, self.dir.path().join("bin/python3")).unwrap();
        // The screens name one version, whichever this machine has.
        let lib = self.dir.path().join(format!("lib/python{major}.{minor}"));
        if !lib.exists() {
            symlink("python3.12", lib).unwrap();
        }
        self
    }

    fn file(&self, name: &str, text: &str) {
        let file = self.tree.site_packages.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn run(&self, arguments: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-fixup"));
        let done = command.args(self.place()).args(arguments.split(' ')).output().unwrap();
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Both widths of one command, each on the state that it finds.
    fn screen(&self, name: &str, arguments: &str) {
        let mut text = String::new();
        for columns in [80, 120] {
            let shown = terminal(&self.place().join(" "), arguments, columns);
            text += &self.filtered(&format!("$ rocm-fixup {arguments}    # {columns} columns\n{shown}"));
            text.push('\n');
        }
        golden(name, &text);
    }

    fn filtered(&self, text: &str) -> String {
        let top = self.dir.path().canonicalize().unwrap();
        // As long as `/tmp/.tmpXXXXXX`: lines are broken by what the path really is.
        let text = text.replace(top.to_str().unwrap(), "/srv/some-image");
        let glibc = |line: &str| match line.split_once("glibc          ") {
            Some(("", _)) => "glibc          2.36\n".to_owned(),
            _ => line.to_owned(),
        };
        let text: String = text.split_inclusive('\n').map(glibc).collect();
        // How long a check takes differs, with one digit before the point.
        let mut parts = text.split(" s)");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, next| {
            let text = match text.rsplit_once('(') {
                Some((before, seconds)) if seconds.parse::<f64>().is_ok() => format!("{before}(0.1"),
                _ => text,
            };
            text + " s)" + next
        })
    }

    /// The options that name the image.
    fn place(&self) -> [String; 2] {
        let python = self.dir.path().join("bin/python3");
        if python.exists() {
            return ["--python".to_owned(), python.to_str().unwrap().to_owned()];
        }
        ["--site-packages".to_owned(), self.tree.site_packages.to_str().unwrap().to_owned()]
    }
}

/// stdout and stderr as a terminal of that width shows them, without colours, and the exit code.
fn terminal(place: &str, arguments: &str, columns: u32) -> String {
    let program = env!("CARGO_BIN_EXE_rocm-fixup");
    let line = format!("stty cols {columns} rows 40; '{program}' {place} {arguments}; echo \"exit code $?\"");
    let done =
        Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap().replace("\r\n", "\n");
    // A progress bar goes back to the start of its line and clears it.
    let shown = text.split_inclusive('\n').map(|line| line.rsplit('\r').next().unwrap_or(line));
    let text = rocm_fixup::console::plain(&shown.collect::<String>());
    for line in text.lines() {
        let words = line.split_whitespace().count();
        let width = unicode_width::UnicodeWidthStr::width(line);
        assert!(width <= columns as usize || words <= 3, "wider than {columns}: {line}");
    }
    text
}

fn golden(name: &str, text: &str) {
    let file = PathBuf::from(format!("tests/it/screens/{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(file, text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(expected == text, "{} differs; it is now:\n{text}", file.display());
}

#[test]
fn a_split_image_and_its_fix() {
    let scene = Scene::new(Builder::standard(), Form::Split);
    scene.screen("status-pending", "status");
    scene.screen("dedup-dry-run", "dedup --dry-run");
    scene.run("dedup");
    scene.screen("status-sound", "status");
    scene.screen("undo-dry-run", "undo --dry-run");
    scene.screen("locate", "locate");
}

#[test]
fn a_refusal_names_what_it_refuses() {
    let builder = Builder::standard()
        .line("devel/lib/libhsa-runtime64.so.1 library libhsa-runtime64.so.1 2")
        .line("core/lib/libhsa-runtime64.so.1 library libhsa-runtime64.so.1 1");
    let scene = Scene::new(builder, Form::Split);
    scene.screen("refusal", "dedup --dry-run");
    scene.screen("refusal-of-status", "status");
}

#[test]
fn nothing_to_do_is_one_line_and_an_error_ends_in_a_hint() {
    let dir = TempDir::new_in("/tmp").unwrap();
    let tree = SdkTree::builder().line("torch/__init__.py text x").build(dir.path());
    let scene = Scene { dir, tree };
    scene.screen("no-sdk", "dedup");
    scene.screen("no-sdk-required", "dedup --require-sdk");
}

/// A recipe of everything, and packages that it fits.
fn full(scene: &Scene) {
    let (before, after) = ("def kernel():\n    pdl_sync()\n", "def kernel():\n    pass\n");
    scene.file("kernels/__init__.py", before);
    scene.file("torch.py", "__version__ = '2.10.0+rocm10.0.0'\n");
    distribution(&scene.tree.site_packages, "kernels", "1.0.0", "");
    distribution(&scene.tree.site_packages, "torch", "2.10.0+rocm10.0.0", "");
    let recipe = format!(
        r#"
        name = "example"
        description = "What an image needs"
        [[patch]]
        name = "no-pdl-sync"
        reason = "pdl_sync has no meaning on AMD GPUs"
        target = {{ distribution = "kernels", roots = ["kernels"] }}
        [[patch.variant]]
        versions = "==1.0.0"
        file = "no-pdl-sync.patch"
        files = [{{ path = "__init__.py", before = "{}", after = "{}", size = {} }}]
        [[require]]
        name = "torch-rocm"
        rule = "torch+rocm"
        reason = "one pip step can replace torch by a CUDA build"
        [[require]]
        name = "pybind11-below-3.1"
        rule = "pybind11<3.1.0"
        reason = "3.1.0 raised its internals version"
        when = {{ distribution = "pybind11" }}
        [[smoke]]
        name = "torch"
        module = "torch"
        reason = "everything else needs it"
        [[smoke]]
        name = "kernels"
        module = "kernels"
        preload = ["torch"]
        reason = "the model's kernels"
        "#,
        Sha256::of(before.as_bytes()),
        Sha256::of(after.as_bytes()),
        after.len(),
    );
    let patch =
        "--- a/__init__.py\n+++ b/__init__.py\n@@ -1,2 +1,2 @@\n def kernel():\n-    pdl_sync()\n+    pass\n";
    std::fs::write(scene.dir.path().join("example.toml"), recipe).unwrap();
    std::fs::write(scene.dir.path().join("no-pdl-sync.patch"), patch).unwrap();
}

#[test]
fn a_run_of_all_steps() {
    let scene = Scene::new(Builder::standard(), Form::Split).with_python();
    full(&scene);
    let recipe = format!("--recipe {}", scene.dir.path().join("example.toml").display());
    scene.screen("status-before-run", &format!("status {recipe}"));
    scene.screen("run-dry-run", &format!("run --dry-run {recipe}"));
    // The first width does the work, the second finds it done.
    scene.screen("run", &format!("run {recipe}"));
    scene.screen("status-after-run", &format!("status {recipe}"));
    scene.run("undo --all");
    scene.file("kernels/__init__.py", "def kernel():\n    other()\n");
    scene.screen("run-refused", &format!("run {recipe}"));
}

#[test]
fn a_failed_check_shows_what_was_seen() {
    let scene = Scene::new(Builder::standard(), Form::Symlinks).with_python();
    scene.file("works.py", "");
    let orders = "import os, sys\nsys.stderr.write('::error::x\\nloading\\x1b[31m\\n##[error]y\\n')\nsys.stderr.flush()\n";
    scene.file("dies.py", &format!("{orders}os.abort()\n"));
    scene.file("lacks.py", "import ctypes\nctypes.CDLL('libhipblaslt.so.1')\n");
    scene.screen("smoke", "smoke works");
    scene.screen("smoke-failed", "smoke works dies lacks nowhere");
    distribution(&scene.tree.site_packages, "works", "1.0", "");
    scene.screen("require-failed", "require torch+rocm 'works>=1.0'");
}
