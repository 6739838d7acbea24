//! In which order the runs of several journals were made. No I/O.

use jiff::Timestamp;

use super::Run;

/// The runs of all journals, oldest first, each with the index of its journal. Each journal brings its own in the order of
/// their numbers, which nothing changes: a clock can go back, so that a run never counts as older than one before it in its
/// journal. Only between journals the time decides.
#[must_use]
pub fn in_order(journals: Vec<Vec<Run>>) -> Vec<(usize, Run)> {
    let mut runs: Vec<(Option<Timestamp>, usize, Run)> = Vec::new();
    for (index, journal) in journals.into_iter().enumerate() {
        let mut latest = None;
        for run in journal {
            latest = latest.max(run.record.started.parse().ok());
            runs.push((latest, index, run));
        }
    }
    // Stable: runs of one time stay in the order of journals and numbers.
    runs.sort_by_key(|(time, ..)| *time);
    runs.into_iter().map(|(_, index, run)| (index, run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Record;
    use crate::model::Plan;

    fn run(id: &str, started: &str) -> Run {
        let record = Record {
            id: id.to_owned(),
            command: "dedup".to_owned(),
            recipe: None,
            started: started.to_owned(),
            version: String::new(),
            site_packages: "/site".into(),
            continues: false,
            plan: Plan::default(),
        };
        Run { record, ended: None, undoing: false, moved: false }
    }

    fn order(journals: &[&[&str]]) -> Vec<(usize, String)> {
        let numbered =
            |times: &&[&str]| times.iter().enumerate().map(|(n, t)| run(&n.to_string(), t)).collect();
        let ordered = in_order(journals.iter().map(numbered).collect());
        ordered.into_iter().map(|(journal, run)| (journal, run.record.id)).collect()
    }

    #[test]
    fn the_number_decides_within_a_journal_and_the_time_between_journals() {
        let expected = |pairs: &[(usize, &str)]| -> Vec<(usize, String)> {
            pairs.iter().map(|(journal, id)| (*journal, (*id).to_owned())).collect()
        };
        let day = |n: u32| format!("2026-11-{n:02}T00:00:00Z");
        let (one, two, three) = (day(1), day(2), day(3));
        assert_eq!(order(&[&[&three, &one]]), expected(&[(0, "0"), (0, "1")]), "the clock went back");
        assert_eq!(order(&[&[&one, &three], &[&two]]), expected(&[(0, "0"), (1, "0"), (0, "1")]));
        assert_eq!(order(&[&[&two, &one], &[&three]]), expected(&[(0, "0"), (0, "1"), (1, "0")]));
        assert_eq!(order(&[&[&three], &[&two, &one]]), expected(&[(1, "0"), (1, "1"), (0, "0")]));
        assert_eq!(
            order(&[&[&two, "x", &one], &[&two]]),
            expected(&[(0, "0"), (0, "1"), (0, "2"), (1, "0")])
        );
        // As texts the later one of these comes first.
        let (whole, half) = ("2026-11-01T00:00:05Z", "2026-11-01T00:00:05.5Z");
        assert_eq!(order(&[&[half], &[whole]]), expected(&[(1, "0"), (0, "0")]));
    }
}
