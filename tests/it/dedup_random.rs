//! Trees that nobody thought of: random files, copies, hard links and symlinks under a few names. Whatever they are, the
//! plan can be carried out and taken back, no path gives other bytes than before, and nothing is left to do.

use proptest::prelude::*;
use proptest::sample::select;

use crate::dedup_plan::{options, there_and_back};
use crate::sdk_tree::SdkTree;

#[derive(Clone, Debug)]
enum Kind {
    Library(u8),
    Copy(usize),
    HardLink(usize),
    /// To the how manieth path, whether or not something is there; absolute or relative.
    Symlink(usize, bool),
    Private(u8),
}

fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for directory in ["lib", "lib/llvm/lib", "share/tests"] {
        for tree in ["core", "libraries", "devel"] {
            for name in ["libX.so", "libX.so.3", "libX.so.3.5"] {
                paths.push(format!("{tree}/{directory}/{name}"));
            }
        }
    }
    paths
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => (1..3_u8).prop_map(Kind::Library),
        1 => (1..3_u8).prop_map(Kind::Private),
        3 => any::<usize>().prop_map(Kind::Copy),
        4 => any::<usize>().prop_map(Kind::HardLink),
        3 => (0..27_usize, any::<bool>()).prop_map(|(to, absolute)| Kind::Symlink(to, absolute)),
    ]
}

/// The lines of a tree; copies and hard links are of files that are there by then.
fn lines(entries: &[(String, Kind)]) -> Vec<String> {
    let (mut files, mut lines): (Vec<&str>, _) = (Vec::new(), Vec::new());
    let all = paths();
    for (path, kind) in entries {
        let earlier = |at: usize| files.get(at % files.len().max(1)).copied();
        match kind {
            Kind::Symlink(to, absolute) => {
                let up = "../".repeat(path.split('/').count() - 1);
                let target = all[to % all.len()].replacen("", "_rocm_sdk_", 1);
                let relative = format!("{up}{target}");
                let target = if *absolute { format!("@{}", all[to % all.len()]) } else { relative };
                lines.push(format!("{path} symlink {target}"));
                continue;
            }
            Kind::Copy(at) | Kind::HardLink(at) if earlier(*at).is_some() => {
                let how = if matches!(kind, Kind::Copy(_)) { "copy" } else { "hardlink" };
                lines.push(format!("{path} {how} {}", earlier(*at).unwrap()));
            }
            Kind::Library(seed) | Kind::Private(seed) => {
                lines.push(format!("{path} library libX.so.3 {seed}"));
                if matches!(kind, Kind::Private(_)) {
                    lines.push(format!("mode {path} 600"));
                }
            }
            Kind::Copy(_) | Kind::HardLink(_) => lines.push(format!("{path} library libX.so.3 1")),
        }
        files.push(path);
    }
    lines
}

/// A few for each run; more by `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_of_random_trees_lose_nothing(
        entries in proptest::collection::btree_map(select(paths()), kind(), 1..14)
            .prop_flat_map(|map| Just(map.into_iter().collect::<Vec<_>>()).prop_shuffle())
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = SdkTree::builder().line("devel/include/x.h text x").line("core/include/x.h text x");
        for line in lines(&entries) {
            builder = builder.line(line);
        }
        let tree = builder.build(dir.path());
        there_and_back(&tree, &options(), |_| {});
    }
}
