//! Equality and digests over sizes around the unit; look-alikes; files that move; sparse giants; memory.
#![expect(clippy::disallowed_methods, reason = "tests make their own input")]

use std::path::Path;

use super::*;

fn side(path: &Path) -> Side {
    Side { path: path.to_path_buf(), id: stat::file_id(&path.symlink_metadata().unwrap()) }
}

fn pair(dir: &Path, name: &str, kept: &[u8], copy: &[u8]) -> Pair {
    let (a, b) = (dir.join(format!("{name}.a")), dir.join(format!("{name}.b")));
    std::fs::write(&a, kept).unwrap();
    std::fs::write(&b, copy).unwrap();
    Pair { kept: side(&a), copy: side(&b), hash: true }
}

fn bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn run(pairs: &[Pair]) -> Vec<Verdict> {
    compare_on(3, pairs, &Counters::default(), &|_| {})
}

#[test]
fn buffers_begin_where_a_page_does_wherever_their_space_lies() {
    let mut space = vec![0; 3 * ALIGNED + 2 * BUFFER];
    for from in [0, 1, 16, 64, ALIGNED - 1, ALIGNED] {
        let buffers = Buffers::within(&mut space[from..]);
        for buffer in [buffers.kept, buffers.copy] {
            assert_eq!((buffer.as_ptr().align_offset(ALIGNED), buffer.len()), (0, BUFFER), "{from}");
        }
    }
}

#[test]
fn digests_equal_the_plain_hash() {
    let dir = tempfile::tempdir().unwrap();
    let unit = UNIT as usize;
    let sizes = [
        0,
        1,
        1023,
        1024,
        1025,
        BUFFER - 1,
        BUFFER + 1,
        unit - 1,
        unit,
        unit + 1,
        unit + 1024,
        2 * unit,
        2 * unit + 1,
        3 * unit,
        5 * unit + 17,
        8 * unit - 3,
    ];
    let all = bytes(8 * unit);
    let pairs: Vec<Pair> =
        sizes.iter().map(|&size| pair(dir.path(), &size.to_string(), &all[..size], &all[..size])).collect();
    for (size, verdict) in sizes.iter().zip(run(&pairs)) {
        assert_eq!(verdict, Verdict::Equal { digest: Some(Digest::of(&all[..*size])) }, "{size}");
    }
}

#[test]
fn one_bit_anywhere_is_seen_and_large_look_alikes_are_seen_early() {
    let dir = tempfile::tempdir().unwrap();
    let good = bytes(6 * UNIT as usize + 10);
    let places = [0, 1, good.len() / 3, good.len() / 2, good.len() - 4096, good.len() - 1];
    let pairs: Vec<Pair> = places
        .iter()
        .map(|&at| {
            let mut bad = good.clone();
            bad[at] ^= 1;
            pair(dir.path(), &at.to_string(), &good, &bad)
        })
        .collect();
    for (at, verdict) in places.iter().zip(run(&pairs)) {
        assert_eq!(verdict, Verdict::Differ { at: Some(*at as u64) });
    }
    let counters = Counters::default();
    compare_on(1, &pairs[5..], &counters, &|_| {});
    assert!(counters.bytes.into_inner() <= 2 * BUFFER as u64);
}

#[test]
fn unequal_sizes_need_no_reading_and_progress_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let pairs =
        [pair(dir.path(), "x", b"long", b"longer"), pair(dir.path(), "y", &bytes(9 << 20), &bytes(9 << 20))];
    let (counters, done) = (Counters::default(), AtomicU64::new(0));
    let verdicts = compare_on(2, &pairs, &counters, &|n| {
        done.fetch_add(n, Ordering::Relaxed);
    });
    assert_eq!(verdicts[0], Verdict::Differ { at: None });
    assert!(matches!(verdicts[1], Verdict::Equal { digest: Some(_) }));
    assert_eq!(counters.opens.into_inner(), 2);
    assert_eq!(counters.bytes.into_inner(), 2 * (9 << 20));
    assert_eq!(done.into_inner(), 9 << 20);
}

#[test]
fn moved_shrunk_missing_and_linked_files_are_no_equals() {
    let dir = tempfile::tempdir().unwrap();
    let path = |pair: &Pair| pair.copy.path.clone();
    let names = ["rewritten", "shrunk", "gone", "link", "pipe"];
    let pairs = names.map(|name| pair(dir.path(), name, b"same bytes", b"same bytes"));
    std::fs::write(path(&pairs[0]), b"same bytes").unwrap();
    std::fs::OpenOptions::new().write(true).open(path(&pairs[1])).unwrap().set_len(3).unwrap();
    for gone in &pairs[2..] {
        std::fs::remove_file(path(gone)).unwrap();
    }
    std::os::unix::fs::symlink(&pairs[3].kept.path, path(&pairs[3])).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path(&pairs[4])).status().unwrap().success());
    let verdicts = run(&pairs);
    for at in 0..3 {
        assert_eq!(verdicts[at], Verdict::Changed { path: path(&pairs[at]) }, "{}", names[at]);
    }
    for at in 3..5 {
        assert!(matches!(&verdicts[at], Verdict::Unreadable { path: p, .. } if *p == path(&pairs[at])));
    }
}

/// It is cut while it is being read: from the progress callback, after the first unit.
#[test]
fn a_file_that_shrinks_meanwhile_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let pair = pair(dir.path(), "x", &bytes(12 << 20), &bytes(12 << 20));
    let cut = |_| std::fs::OpenOptions::new().write(true).open(&pair.kept.path).unwrap().set_len(5).unwrap();
    let verdicts = compare_on(1, std::slice::from_ref(&pair), &Counters::default(), &cut);
    assert_eq!(verdicts, [Verdict::Changed { path: pair.kept.path.clone() }]);
}

#[test]
fn sparse_giants_are_compared_without_reading_their_holes() {
    let dir = tempfile::tempdir().unwrap();
    let size = 20 << 30;
    let make = |name: &str, data: &[u8]| {
        let path = dir.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(data, 7 << 30).unwrap();
        side(&path)
    };
    let (a, b, c) = (make("a", b"data"), make("b", b"data"), make("c", b"date"));
    let pairs = [Pair { kept: a.clone(), copy: b, hash: false }, Pair { kept: a, copy: c, hash: false }];
    let counters = Counters::default();
    let verdicts = compare_on(2, &pairs, &counters, &|_| {});
    assert_eq!(verdicts, [Verdict::Equal { digest: None }, Verdict::Differ { at: Some((7 << 30) + 3) }]);
    assert!(counters.bytes.into_inner() < 64 << 20);
}

#[test]
fn the_hash_of_a_hole_is_that_of_its_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zeros");
    std::fs::File::create(&path).unwrap().set_len(HOLES_FROM).unwrap();
    let mut plain = blake3::Hasher::new();
    let zeros = vec![0; 16 << 20];
    for _ in 0..HOLES_FROM >> 24 {
        plain.update(&zeros);
    }
    let other = dir.path().join("other");
    std::fs::File::create(&other).unwrap().set_len(HOLES_FROM).unwrap();
    let counters = Counters::default();
    let verdicts =
        compare_on(2, &[Pair { kept: side(&path), copy: side(&other), hash: true }], &counters, &|_| {});
    assert_eq!(verdicts, [Verdict::Equal { digest: Some(Digest(*plain.finalize().as_bytes())) }]);
    assert_eq!(counters.bytes.into_inner(), 0);
}
