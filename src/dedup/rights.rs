//! Whether a link may stand for a file: nobody may lose access by it, no group and not everybody may get to write it, and no
//! attribute may get lost. No I/O.

use crate::model::{Meta, Place};
use crate::scan::Inventory;

const READ: u32 = 0o444;
const SEARCH: u32 = 0o111;
/// The user may be another: whoever has the owner's file has what is loaded in any case.
const OTHERS_WRITE: u32 = 0o022;
const SET_ID: u32 = 0o6000;

/// Why `owner` can't stand for `copy`, if so. Both metas with their extended attributes.
pub fn refusal(copy: &Meta, owner: &Meta) -> Option<String> {
    if copy.mode & SET_ID != owner.mode & SET_ID {
        return Some(format!(
            "set-user-ID or set-group-ID bits differ: mode {:04o}, owner {:04o}",
            copy.mode, owner.mode
        ));
    }
    if copy.xattrs != owner.xattrs {
        let odd = copy
            .xattrs
            .iter()
            .chain(&owner.xattrs)
            .find(|one| !(copy.xattrs.contains(one) && owner.xattrs.contains(one)));
        return Some(format!("extended attribute {} differs", odd.map_or("?", |one| &one.name)));
    }
    let how = if less(copy, owner, READ) {
        "less readable"
    } else if owner.mode & !copy.mode & OTHERS_WRITE != 0 {
        "writable for more"
    } else {
        return None;
    };
    let who = |meta: &Meta| format!("mode {:04o} of {}:{}", meta.mode, meta.uid, meta.gid);
    Some(format!("the owner's file is {how}: {}, the copy has {}", who(owner), who(copy)))
}

/// Why the owner's file can't be reached by all who reach the copy, if so.
pub fn unreachable(inventory: &Inventory, copy: &Place, owner: &Place) -> Option<String> {
    let (copies, owners) = (way(inventory, copy), way(inventory, owner));
    let all = |way: &[&Meta]| way.iter().fold(SEARCH, |bits, meta| bits & meta.mode);
    let (copy_bits, owner_bits) = (all(&copies), all(&owners));
    let mut ids = copies.iter().chain(&owners).map(|meta| (meta.uid, meta.gid));
    let first = ids.next();
    let one_owner = ids.all(|id| Some(id) == first);
    let wanted = if one_owner { copy_bits } else { SEARCH };
    // Where directories have several owners, bits of user and group mean nothing in common; equal ways are fine.
    let same_way = copies.len() == owners.len()
        && copies
            .iter()
            .zip(&owners)
            .all(|(a, b)| (a.mode & SEARCH, a.uid, a.gid) == (b.mode & SEARCH, b.uid, b.gid));
    (!same_way && wanted & !owner_bits != 0).then(|| {
        format!("the owner's directories are less open: search bits {owner_bits:04o}, of the copy's {copy_bits:04o}")
    })
}

/// With the same user and group each bit counts; else everybody must have all that anybody could have had.
fn less(copy: &Meta, owner: &Meta, bits: u32) -> bool {
    let same = (copy.uid, copy.gid) == (owner.uid, owner.gid);
    let wanted = if same { copy.mode & bits } else { bits };
    wanted & !owner.mode != 0
}

/// The directories from the tree's root down to the one that holds `place`.
fn way<'a>(inventory: &'a Inventory, place: &Place) -> Vec<&'a Meta> {
    let mut way: Vec<&Meta> = place
        .path
        .parent()
        .ancestors()
        .filter_map(|directory| inventory.permissions(place.root, directory))
        .collect();
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::model::{RelPath, Xattr};

    fn meta(mode: u32, uid: u32) -> Meta {
        Meta { mode, uid, gid: 0, xattrs: Vec::new() }
    }

    #[test]
    fn nobody_loses_access_and_no_more_may_write() {
        let cases = [
            ((0o644, 0), (0o644, 0), true),
            ((0o600, 0), (0o644, 0), true),
            ((0o644, 0), (0o600, 0), false),
            ((0o755, 0), (0o644, 0), true),
            ((0o440, 0), (0o400, 0), false),
            ((0o600, 1), (0o644, 0), true),
            ((0o600, 1), (0o640, 0), false),
            ((0o4755, 0), (0o755, 0), false),
            ((0o755, 0), (0o2755, 0), false),
            ((0o644, 0), (0o664, 0), false),
            ((0o664, 0), (0o666, 0), false),
            ((0o666, 0), (0o644, 0), true),
            ((0o664, 0), (0o664, 0), true),
            ((0o444, 0), (0o644, 0), true),
            ((0o644, 0), (0o646, 1), false),
        ];
        for (copy, owner, fine) in cases {
            assert_eq!(
                refusal(&meta(copy.0, copy.1), &meta(owner.0, owner.1)).is_none(),
                fine,
                "{copy:?} {owner:?}"
            );
        }
    }

    #[test]
    fn attributes_must_be_equal() {
        let with = |value: &[u8]| {
            let xattrs = vec![Xattr { name: "security.capability".into(), value: value.to_vec() }];
            Meta { xattrs, ..meta(0o755, 0) }
        };
        assert_eq!(refusal(&with(b"1"), &with(b"1")), None);
        for owner in [with(b"2"), meta(0o755, 0)] {
            let text = "extended attribute security.capability differs".to_owned();
            assert_eq!(refusal(&with(b"1"), &owner), Some(text.clone()));
            assert_eq!(refusal(&owner, &with(b"1")), Some(text));
        }
    }

    /// Directories from the root down, each with mode and owner.
    type Way = &'static [(u32, u32)];

    /// Whether one of devel's (0) ways to a `libX.so` can be replaced by core's (1).
    fn reached(copies: Way, owners: Way) -> bool {
        let names = ["", "lib", "lib/deep"];
        let way = |dirs: Way| {
            names
                .iter()
                .zip(dirs)
                .map(|(name, (mode, uid))| (OsString::from(name), meta(*mode, *uid)))
                .collect()
        };
        let inventory = Inventory { directories: vec![way(copies), way(owners)], ..Inventory::default() };
        let place = |root, dirs: Way| Place {
            root,
            path: RelPath::new(format!("{}/libX.so", names[dirs.len() - 1])).unwrap(),
        };
        unreachable(&inventory, &place(0, copies), &place(1, owners)).is_none()
    }

    #[test]
    fn who_reaches_the_copy_reaches_the_owners_file() {
        let cases: [(Way, Way, bool); 10] = [
            (&[(0o755, 0), (0o755, 0)], &[(0o755, 0), (0o755, 0)], true),
            (&[(0o755, 0), (0o755, 0)], &[(0o755, 0), (0o700, 0)], false),
            (&[(0o755, 0), (0o755, 0)], &[(0o700, 0), (0o755, 0)], false),
            (&[(0o755, 0), (0o700, 0)], &[(0o755, 0), (0o755, 0)], true),
            // One owner of all: what the copy's ways withhold needn't be given.
            (&[(0o755, 0), (0o700, 0), (0o755, 0)], &[(0o755, 0), (0o700, 0)], true),
            // Several owners: equal ways, up to bits that don't search.
            (&[(0o755, 0), (0o700, 1)], &[(0o755, 0), (0o700, 1)], true),
            (&[(0o755, 0), (0o700, 1)], &[(0o755, 0), (0o500, 1)], true),
            (&[(0o755, 0), (0o700, 1)], &[(0o755, 0), (0o700, 2)], false),
            (&[(0o755, 0), (0o711, 1)], &[(0o755, 0), (0o701, 1)], false),
            (&[(0o755, 0), (0o700, 1)], &[(0o755, 0), (0o755, 2)], true),
        ];
        for (copies, owners, fine) in cases {
            assert_eq!(reached(copies, owners), fine, "{copies:?} {owners:?}");
        }
    }
}
