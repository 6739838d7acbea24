//! What somebody changes between the plan and the change, or between the change and undo: each thing that is looked at
//! again refuses by itself. Made where a mutant of the code lived.

use std::fs;
use std::os::unix::fs::FileExt as _;

use crate::apply::split_pair;
use crate::snapshot::snapshot;

/// As a tool leaves it that puts times back: only the ctime tells.
#[test]
fn a_file_of_the_same_size_and_mtime_has_changed_all_the_same() {
    for name in ["d/x", "core/x"] {
        let (site, plan) = split_pair();
        let file = fs::File::options().write(true).open(site.at(name)).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"LIBRARY", 0).unwrap();
        file.set_modified(time).unwrap();
        let before = snapshot(&site.path);
        let (_, outcome) = site.run(plan);
        assert_eq!(outcome.refused.len(), 1, "{name}: {outcome:?}");
        assert_eq!(snapshot(&site.path), before, "{name}");
    }
}
