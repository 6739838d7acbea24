//! Plain patches whose place is not unique: applied once, a second run finds them there, and a revert takes them back,
//! by the command and to the byte. What can't be told stays a conflict.

use std::fs;

use crate::patch_cli::{Site, code, state};

const BLOCK: &str = "begin\n  a1\n  a2\n  b\n  c1\n  c2\nend\n";

/// Puts `text` in `demo/a.py` and a diff to `after` beside it.
fn site(before: &str, after: &str) -> (Site, std::path::PathBuf) {
    let site = Site::new();
    fs::write(site.at("demo/a.py"), before).unwrap();
    let folder = site.patch_to("p", "demo/a.py", after);
    (site, folder)
}

fn text(site: &Site) -> String {
    fs::read_to_string(site.at("demo/a.py")).unwrap()
}

/// Applies, applies, reverts, reverts, applies.
fn there_and_back(before: &str, after: &str) {
    let (site, folder) = site(before, after);
    let call = |more: &[&str], expected: &str| {
        let output = site.run(&folder, more);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((code(&output), state(&output).as_str()), (0, expected), "{more:?}\n{after}\n{said}");
    };
    call(&[], "applied");
    assert_eq!(text(&site), after);
    call(&[], "already");
    assert_eq!(text(&site), after);
    call(&["--revert"], "reverted");
    assert_eq!(text(&site), before);
    call(&["--revert"], "pending");
    assert_eq!(text(&site), before);
    call(&[], "applied");
    assert_eq!(text(&site), after);
}

/// `text` with the `n`th `old` changed.
fn changed(text: &str, n: usize, old: &str, new: &str) -> String {
    let at = text.match_indices(old).nth(n).unwrap().0;
    format!("{}{new}{}", &text[..at], &text[at + old.len()..])
}

#[test]
fn one_of_several_equal_blocks() {
    for blocks in 2..4 {
        let before = format!("# top\n{}# end\n", BLOCK.repeat(blocks));
        for n in 0..blocks {
            there_and_back(&before, &changed(&before, n, "  b\n", "  B\n"));
            there_and_back(&before, &changed(&before, n, "  b\n", "  b\n  b2\n"));
        }
    }
}

#[test]
fn blocks_far_from_the_ends() {
    let filler = |name: &str| (0..6).map(|n| format!("{name} {n}\n")).collect::<String>();
    let before = [filler("x"), BLOCK.into(), filler("y"), BLOCK.into(), filler("z")].concat();
    for n in 0..2 {
        there_and_back(&before, &changed(&before, n, "  b\n", "  B\n"));
        there_and_back(&before, &changed(&before, n, "  b\n", "  b\n  new\n"));
    }
    // Two hunks, each of which would fit the other's place.
    let both = changed(&changed(&before, 1, "  b\n", "  B\n"), 0, "  b\n", "  B\n");
    there_and_back(&before, &both);
}

#[test]
fn a_file_that_is_one_text_twice() {
    let once: String = (0..20).map(|n| format!("line {n}\n")).collect();
    let before = once.repeat(2);
    for n in 0..2 {
        let far = changed(&changed(&before, n, "line 15\n", "LINE 15\n"), n, "line 4\n", "LINE 4\n");
        there_and_back(&before, &far);
        there_and_back(&before, &changed(&before, n, "line 0\n", "line 0\nnew\n"));
    }
}

#[test]
fn what_can_not_be_told_is_still_a_conflict_and_untouched() {
    // The patch would turn one of two equal lines into what the other place looks like: both sides stand where they say.
    let before = format!("{}{}", "a\n".repeat(8), "b\n");
    let (site, folder) = site(&before, &format!("{}{}", "a\n".repeat(9), "b\n"));
    // Made, and moved away from its line by a new head: neither side is where the patch says.
    let filler = |name: &str| (0..6).map(|n| format!("{name} {n}\n")).collect::<String>();
    let twice = [filler("x"), BLOCK.into(), filler("y"), BLOCK.into(), filler("z")].concat();
    let after = changed(&twice, 0, "  b\n", "  B\n");
    let (moved, patches) = self::site(&twice, &after);
    fs::write(moved.at("demo/a.py"), format!("head\n{after}")).unwrap();
    // Made at another place by other hands, and not made where the patch says.
    let (swapped, others) = self::site(&twice, &after);
    fs::write(swapped.at("demo/a.py"), changed(&twice, 1, "  b\n", "  B\n")).unwrap();
    for (site, folder) in [(site, folder), (moved, patches), (swapped, others)] {
        let before = text(&site);
        for more in [&[][..], &["--revert"]] {
            let output = site.run(&folder, more);
            assert_eq!(text(&site), before);
            assert_eq!((code(&output), state(&output).as_str()), (3, "conflict"), "{before}");
        }
    }
}
