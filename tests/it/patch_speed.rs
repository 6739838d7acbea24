//! No patch and no file make the judgement slow. The limits are wide, for unoptimised builds on busy machines; a
//! quadratic search would miss them by far. An optimised build's figures: `cargo test --release speed -- --nocapture`.

use std::time::{Duration, Instant};

use rocm_fixup::patch::lint::{Origin, SIZE_CAP, lint};
use rocm_fixup::patch::parse::{Strip, parse};
use rocm_fixup::patch::sha::Sha256;
use rocm_fixup::patch::verdict::{Known, Verdict, judge};

/// Unoptimised, a sixteenth of the size must do.
const SIZE: usize = if cfg!(debug_assertions) { SIZE_CAP / 16 } else { SIZE_CAP };

const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 1 });

fn timed(what: &str, patch: &str, file: &[u8], known: Option<Known>) -> Verdict {
    let start = Instant::now();
    let linted = lint(patch.as_bytes(), Origin::User).unwrap();
    let files = parse(&linted, Strip::FromHeader).unwrap();
    let verdict = judge(Some(file), &files[0], known);
    let took = start.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(took < LIMIT, "{what}: {took:?}");
    verdict
}

#[test]
fn speed_of_a_large_file() {
    let mut file = String::new();
    let mut n = 0;
    while file.len() < SIZE - 200 {
        file.push_str(&format!("    some_function_name(argument_{n}, other);\n"));
        n += 1;
    }
    let at = n / 2;
    let line = |n: usize| format!("    some_function_name(argument_{n}, other);\n");
    let patch = |stated: usize| {
        format!(
            "--- a/x\n+++ b/x\n@@ -{stated},3 +{stated},3 @@\n {}-{}+changed\n {}",
            line(at - 1),
            line(at),
            line(at + 1)
        )
    };
    let verdict = timed("large, exact", &patch(at), file.as_bytes(), None);
    let Verdict::Apply { content: Some(after), offset: 0, .. } = verdict else { panic!() };
    let known = Some(Known { before: Some(Sha256::of(file.as_bytes())), after: Some(Sha256::of(&after)) });
    timed("large, known", &patch(at), file.as_bytes(), known);
    timed("large, already", &patch(at), &after, known);
    let verdict = timed("large, far away", &patch(3), file.as_bytes(), None);
    assert!(matches!(verdict, Verdict::Apply { .. }));
    let verdict = timed("large, conflict", &patch(at).replace("other", "another"), file.as_bytes(), None);
    assert!(matches!(verdict, Verdict::Conflict(_)));
}

#[test]
fn speed_of_what_is_made_to_be_slow() {
    // Equal lines, and a long hunk that fits everywhere but for its last line.
    let file = "a\n".repeat(SIZE / 2);
    let hunk = |lines: usize, last: &str| {
        let context = " a\n".repeat(lines);
        format!("@@ -9,{0} +9,{0} @@\n{context}-b\n+c\n{context} {last}\n", 2 * lines + 2)
    };
    timed("equal lines", &format!("--- a/x\n+++ b/x\n{}", hunk(SIZE / 160, "z")), file.as_bytes(), None);
    // Many hunks, each of which has to be looked for in the whole file.
    let mut patch = String::from("--- a/x\n+++ b/x\n");
    let mut lines: Vec<String> = Vec::new();
    for n in 0..SIZE / 800 {
        patch.push_str(&format!(
            "@@ -{0},3 +{0},3 @@\n before {n}\n-old {n}\n+new {n}\n after {n}\n",
            10 + 4 * n
        ));
        lines.push(format!("before {n}\nold {n}\nafter {n}\nfill\nfill\n"));
    }
    let mut file = lines.concat();
    file.push_str(&"tail\n".repeat((SIZE - file.len()) / 5));
    timed("many hunks that drift", &patch, file.as_bytes(), None);
    // Empty lines only.
    let file = "\n".repeat(SIZE);
    timed("empty lines", "--- a/x\n+++ b/x\n@@ -9,3 +9,4 @@\n \n \n+x\n \n", file.as_bytes(), None);
}
