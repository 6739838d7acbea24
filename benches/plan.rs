//! Times the planner alone, in this process: `cargo bench --bench plan -- DIR` with DIR/site-packages as made by
//! `benches/generate`. The whole program against others is measured by `benches/run`.
#![allow(clippy::disallowed_macros, clippy::unwrap_used, reason = "a program of its own")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use rocm_fixup::dedup::{Options, plan};
use rocm_fixup::model::{Role, Tree};

fn trees(site_packages: &Path) -> Vec<Tree> {
    let mut trees = Vec::new();
    for (role, name) in [
        (Role::Core, "_rocm_sdk_core"),
        (Role::Libraries, "_rocm_sdk_libraries"),
        (Role::Devel, "_rocm_sdk_devel"),
    ] {
        trees.push(Tree {
            role,
            name: name.into(),
            path: site_packages.join(name),
            site_packages: site_packages.into(),
            distribution: None,
        });
    }
    trees
}

fn main() {
    let Some(directory) = std::env::args_os().skip(1).find(|word| word != "--bench").map(PathBuf::from)
    else {
        println!("no directory given: nothing to measure");
        return;
    };
    let trees = trees(&directory.join("site-packages").canonicalize().unwrap());
    for hash in [false, true] {
        let options = Options { hash, ..Options::default() };
        let mut seconds = Vec::new();
        for _ in 0..6 {
            let start = Instant::now();
            let planned = plan(&trees, &options, &|_| {}).unwrap();
            seconds.push(start.elapsed().as_secs_f64());
            if seconds.len() == 1 {
                let (linked, conflicts) = (planned.linked.len(), planned.conflicts.len());
                println!(
                    "{linked} links, {conflicts} conflicts, {} bytes freed, {:?}",
                    planned.bytes_freed, planned.reads
                );
            }
        }
        seconds.remove(0);
        seconds.sort_by(f64::total_cmp);
        println!("hash {hash}: median {:.3} s of {seconds:.3?}", seconds[2]);
    }
}
