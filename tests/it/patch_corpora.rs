//! Public corpora: each patch is accepted or refused cleanly, and stays so.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rocm_fixup::patch::lint::{Mistake, Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};

/// Changed files at the lowest strip level at which the names make sense.
fn accepted(bytes: &[u8]) -> Result<usize, Mistake> {
    let linted = lint(bytes, Origin::User)?;
    let levels = [Strip::FromHeader, Strip::Exactly(0), Strip::Exactly(1)];
    let mut all = levels.iter().map(|&level| parse(&linted, level).map(|files| files.len()));
    all.find(Result::is_ok).unwrap_or_else(|| parse(&linted, Strip::FromHeader).map(|files| files.len()))
}

#[test]
fn corpora_have_the_verdicts_that_they_had() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/corpora");
    let mut found = String::new();
    for folder in ["unidiff", "whatthepatch"] {
        let mut paths: Vec<_> = fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths.iter().filter(|p| !p.ends_with("LICENSE")) {
            let name = path.file_name().unwrap().to_str().unwrap();
            match accepted(&fs::read(path).unwrap()) {
                Ok(files) => writeln!(found, "{folder}/{name}: {files} changed"),
                Err(mistake) => writeln!(found, "{folder}/{name}: {} at {}", mistake.rule, mistake.line),
            }
            .unwrap();
        }
    }
    let golden = root.join("verdicts.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(golden).unwrap());
}
