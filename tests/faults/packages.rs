//! An installed package, and patches of it: as a folder for `patch --from`, and as a recipe for `run`.

use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use sha2::Digest as _;

const SOURCE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// Changes one file, makes one and removes one.
const PATCH: &str = "\
--- a/demo/a.py
+++ b/demo/a.py
@@ -2,5 +2,6 @@
 two
 three
-four
+FOUR
+and more
 five
 six
--- /dev/null
+++ b/demo/new.py
@@ -0,0 +1,2 @@
+brand
+new
--- a/demo/old.py
+++ /dev/null
@@ -1,7 +0,0 @@
-one
-two
-three
-four
-five
-six
-seven
";

/// Installs `demo` 1.0 with bytecode and RECORD below `site`; its patches and a recipe go to `beside`.
pub fn install(site: &Path, beside: &Path) -> std::io::Result<()> {
    let write = |path: &str, text: &str| {
        let path = site.join(path);
        fs::create_dir_all(path.parent().unwrap())?;
        fs::write(path, text)
    };
    write("demo/a.py", SOURCE)?;
    write("demo/old.py", SOURCE)?;
    write("demo/__pycache__/a.cpython-312.pyc", "compiled")?;
    write("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")?;
    let hash = BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(SOURCE));
    let rows = ["demo/a.py", "demo/old.py"].map(|path| format!("{path},sha256={hash},{}\n", SOURCE.len()));
    let rest =
        "demo/__pycache__/a.cpython-312.pyc,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/RECORD,,\n";
    write("demo-1.0.dist-info/RECORD", &(rows.concat() + rest))?;
    fs::create_dir_all(beside.join("patches"))?;
    fs::write(beside.join("patches/demo.patch"), PATCH)?;
    fs::write(beside.join("patches/recipe.toml"), recipe())
}

fn recipe() -> String {
    let sum = |text: &str| {
        sha2::Sha256::digest(text).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    };
    let changed = SOURCE.replace("four", "FOUR\nand more");
    format!(
        "name = \"faults\"\ndescription = \"For the fault tests\"\n\n[[patch]]\nname = \"demo\"\n\
         reason = \"to be interrupted\"\ntarget = {{ distribution = \"demo\", roots = [\"demo\"] }}\nstrip = 2\n\
         [[patch.variant]]\nversions = \"==1.0\"\nfile = \"demo.patch\"\nfiles = [\n\
         {{ path = \"a.py\", before = \"{old}\", after = \"{}\", size = {size} }},\n\
         {{ path = \"new.py\", after = \"{}\" }},\n\
         {{ path = \"old.py\", before = \"{old}\", size = {size} }},\n]\n",
        sum(&changed),
        sum("brand\nnew\n"),
        old = sum(SOURCE),
        size = SOURCE.len(),
    )
}
