//! `recipe check` and the patch files: what a recipe says of them that isn't so is told where it says it.

use std::fs;
use std::path::Path;

use rocm_fixup::patch::lint::Origin;
use rocm_fixup::patch::sha::Sha256;
use rocm_fixup::recipe::{check_patches, read};

use crate::cli::tool;

const CHANGES: &str = "--- a/x.py\n+++ b/x.py\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
const MAKES: &str = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+new\n";
const DELETES: &str = "--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";
const REPLACES: &str = "--- a/one.py\n+++ b/one.py\n@@ -1 +1 @@\n-one\n+ONE\n";

/// A recipe whose only variant has these `files`, from line 10 on.
fn recipe(files: &[&str]) -> String {
    let head = "name = \"x\"\ndescription = \"y\"\n[[patch]]\nname = \"p\"\nreason = \"r\"\nfile = \"p.patch\"\n\
                target = { distribution = \"d\", roots = [\"d\"] }\n[[patch.variant]]\nversions = \"==1\"\nfiles = [\n";
    format!("{head}{}\n]\n", files.join(",\n"))
}

fn mistakes(patch: &str, files: &[&str]) -> Vec<(usize, usize, String)> {
    let text = recipe(files);
    let found = check_patches(&text, &read(&text).unwrap(), &|_| Ok(patch.into()), Origin::User);
    found.into_iter().map(|m| (m.line, m.column, m.text)).collect()
}

fn hash(text: &str) -> String {
    Sha256::of(text.as_bytes()).to_string()
}

/// An entry of `files`; what is empty isn't in it.
fn entry(path: &str, before: &str, after: &str, size: &str) -> String {
    let mut text = format!("{{ path = \"{path}\"");
    for (key, value) in [("before", before), ("after", after)] {
        if !value.is_empty() {
            text += &format!(", {key} = \"{}\"", hash(value));
        }
    }
    if size.is_empty() { text + " }" } else { format!("{text}, size = {size} }}") }
}

#[test]
fn what_is_right_is_right() {
    let patch = [CHANGES, MAKES, DELETES, REPLACES].concat();
    let files = [
        entry("x.py", "some", "other", "100"),
        entry("new.py", "", "new\n", ""),
        entry("old.py", "old\n", "", "4"),
        entry("one.py", "one\n", "ONE\n", "4"),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(mistakes(&patch, &files), []);
}

#[test]
fn files_of_the_recipe_and_not_of_the_patch_and_the_reverse() {
    let patch = [CHANGES, MAKES].concat();
    let found = mistakes(&patch, &[&entry("x.py", "a", "b", ""), &entry("y.py", "a", "b", "")]);
    let expected = [
        (10, 9, "`p.patch` changes `new.py` too".to_owned()),
        (12, 10, "`p.patch` doesn't change `y.py`".to_owned()),
    ];
    assert_eq!(found, expected);
}

#[test]
fn hashes_and_sizes_that_the_patch_contradicts() {
    let of = |patch: &str, file: String| {
        let found = mistakes(patch, &[&file]);
        assert_eq!(found.len(), 1, "{found:?}");
        let (line, column, text) = found.into_iter().next().unwrap();
        assert_eq!(line, 11);
        let place = file[column - 1..].to_owned();
        (place.split([' ', '}']).next().unwrap().trim_matches(['"', ',']).to_owned(), text)
    };
    let cases = [
        (MAKES, entry("new.py", "x", "new\n", ""), hash("x"), "there is none before it"),
        (MAKES, entry("new.py", "", "NEW\n", ""), hash("NEW\n"), &hash("new\n")[..]),
        (MAKES, entry("new.py", "", "new\n", "4"), "4".into(), "there is none before it"),
        (DELETES, entry("old.py", "old\n", "x", ""), hash("x"), "there is none after it"),
        (DELETES, entry("old.py", "OLD\n", "", ""), hash("OLD\n"), &hash("old\n")),
        (DELETES, entry("old.py", "old\n", "", "5"), "5".into(), "it is 4"),
        (REPLACES, entry("one.py", "one\n", "two\n", ""), hash("two\n"), &hash("ONE\n")),
        (REPLACES, entry("one.py", "one\n", "ONE\n", "3"), "3".into(), "it is 4"),
        (CHANGES, entry("x.py", "a", "b", "13"), "13".into(), "alone holds 14 bytes"),
        (CHANGES, entry("x.py", "a", "", ""), "{".into(), "missing key `after`"),
        (CHANGES, entry("x.py", "", "b", ""), "{".into(), "missing key `before`"),
    ];
    for (patch, file, at, words) in cases {
        let (place, text) = of(patch, file);
        assert_eq!(place, at, "{text}");
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(mistakes(CHANGES, &[&entry("x.py", "a", "b", "14")]), []);
}

#[test]
fn the_command_says_file_line_and_column_and_finds_the_programs_own_recipes_right() {
    let dir = tempfile::tempdir().unwrap();
    let check = |file: &Path| tool(&["recipe", "check"]).arg(file).output().unwrap();
    let file = dir.path().join("my.toml");
    fs::write(&file, recipe(&[&entry("y.py", "a", "b", "")])).unwrap();
    let said = |file: &Path| {
        let output = check(file);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said(&file);
    assert!(code == Some(2) && text.contains("line 6, column 8: can't read `"), "{text}");
    fs::write(dir.path().join("p.patch"), "<html>").unwrap();
    let (code, text) = said(&file);
    assert!(code == Some(2) && text.contains("line 6, column 8: can't use `p.patch`"), "{text}");
    fs::write(dir.path().join("p.patch"), CHANGES).unwrap();
    let (code, text) = said(&file);
    assert!(
        code == Some(2) && text.contains("my.toml: line 11, column 10: `p.patch` doesn't change `y.py`"),
        "{text}"
    );
    fs::write(&file, recipe(&[&entry("x.py", "a", "b", "")])).unwrap();
    assert_eq!(check(&file).status.code(), Some(0));
    for recipe in ["miles-rocm10", "vllm-rocm"] {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("patches/{recipe}.toml"));
        assert_eq!(said(&own), (Some(0), String::new()));
        assert_eq!(said(Path::new(recipe)), (Some(0), String::new()));
    }
}
