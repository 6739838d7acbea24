//! Any bytes as RECORD: edits answer, rows of other files stay, and a changed row changes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_fixup::pyenv::{Edit, Record};

fuzz_target!(|record: &[u8]| {
    let Some(parsed) = Record::new(record) else { return };
    assert_eq!(parsed.edited(&[]), record);
    let path: &[u8] = b"p/a.py";
    let one = parsed.edited(&[(path, Edit::Changed(b"1"))]);
    let Some(one) = Record::new(&one) else { panic!("rows were joined") };
    let two = one.edited(&[(path, Edit::Changed(b"2"))]);
    let Some(two) = Record::new(&two) else { panic!("rows were joined") };
    assert_eq!(two.edited(&[(path, Edit::Changed(b"1"))]), one.edited(&[]));
    if !parsed.has(path) {
        let with = parsed.edited(&[(path, Edit::Created(b"1"))]);
        let Some(with) = Record::new(&with) else { panic!("rows were joined") };
        assert_eq!(with.edited(&[(path, Edit::Deleted)]), record);
    }
});
