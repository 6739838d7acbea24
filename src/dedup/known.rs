//! What is known of the files beyond the inventory: ELF headers, comparisons, extended attributes. The questions that
//! can't be answered yet are remembered; only `find_out` opens files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::{Progress, Reads};
use crate::compare::{self, Counters, Pair, Side, Verdict};
use crate::elf;
use crate::model::{Digest, Place, Xattr};
use crate::scan::{FileRecord, Inventory};
use crate::{spread, stat};

/// Device and inode.
pub type Inode = (u64, u64);

pub fn inode(file: &FileRecord) -> Inode {
    (file.id.dev, file.id.ino)
}

/// What a file is to a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headers {
    Library { soname: Option<Vec<u8>> },
    Program,
    NotElf(String),
    Unreadable(String),
}

#[derive(Debug, Default)]
pub struct Known {
    pub headers: HashMap<Inode, Headers>,
    pub verdicts: HashMap<(Inode, Inode), Verdict>,
    pub digests: HashMap<Inode, Digest>,
    pub xattrs: HashMap<Inode, Result<Vec<Xattr>, String>>,
    /// Links to files that an installed package says to have, and that are gone.
    pub lost: BTreeMap<Place, PathBuf>,
    wanted: Wanted,
    counters: Counters,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub headers: BTreeMap<Inode, Place>,
    /// (kept, copy).
    pub pairs: BTreeMap<(Inode, Inode), (Place, Place)>,
    pub xattrs: BTreeMap<Inode, Place>,
}

impl Known {
    pub fn headers(&mut self, file: &FileRecord) -> Option<Headers> {
        let known = self.headers.get(&inode(file)).cloned();
        if known.is_none() {
            self.wanted.headers.entry(inode(file)).or_insert_with(|| file.place.clone());
        }
        known
    }

    /// The verdict on a pair; with `digest`, an equal pair's digest must be known as well.
    pub fn verdict(&mut self, kept: &FileRecord, copy: &FileRecord, digest: bool) -> Option<Verdict> {
        let key = (inode(kept), inode(copy));
        if key.0 == key.1 {
            return Some(Verdict::Equal { digest: None });
        }
        if kept.id.size != copy.id.size {
            return Some(Verdict::Differ { at: None });
        }
        let known = match self.verdicts.get(&key).cloned() {
            Some(Verdict::Equal { .. }) => {
                let hash = self.digests.get(&key.0).copied();
                (hash.is_some() || !digest).then_some(Verdict::Equal { digest: hash })
            }
            other => other,
        };
        if known.is_none() {
            self.wanted.pairs.entry(key).or_insert_with(|| (kept.place.clone(), copy.place.clone()));
        }
        known
    }

    /// The verdict on a file that is going to be copied: `Equal` with its digest, unless it can't be read.
    pub fn whole(&mut self, file: &FileRecord) -> Option<Verdict> {
        let key = (inode(file), inode(file));
        if let Some(digest) = self.digests.get(&key.0) {
            return Some(Verdict::Equal { digest: Some(*digest) });
        }
        let known = self.verdicts.get(&key).cloned();
        if known.is_none() {
            self.wanted.pairs.entry(key).or_insert_with(|| (file.place.clone(), file.place.clone()));
        }
        known
    }

    pub fn xattrs(&mut self, file: &FileRecord) -> Option<Result<Vec<Xattr>, String>> {
        let known = self.xattrs.get(&inode(file)).cloned();
        if known.is_none() {
            self.wanted.xattrs.entry(inode(file)).or_insert_with(|| file.place.clone());
        }
        known
    }

    /// Whether anything was asked in this round that isn't known yet.
    pub fn asks(&self) -> bool {
        self.wanted != Wanted::default()
    }

    /// Takes the open questions.
    pub fn take_wanted(&mut self) -> Wanted {
        std::mem::take(&mut self.wanted)
    }

    /// Answers the open questions; `false` if there were none.
    pub fn find_out(
        &mut self,
        inventory: &Inventory,
        hash: bool,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> bool {
        let any = self.asks();
        let wanted = self.take_wanted();
        self.headers.extend(answers(wanted.headers, |place| read_headers(inventory, place)));
        self.xattrs.extend(answers(wanted.xattrs, |place| {
            let read = stat::open_regular(&inventory.absolute(place)).and_then(|file| stat::xattrs(&file));
            read.map_err(|error| error.to_string())
        }));
        self.compare(inventory, wanted.pairs, hash, progress);
        any
    }

    fn compare(
        &mut self,
        inventory: &Inventory,
        wanted: BTreeMap<(Inode, Inode), (Place, Place)>,
        hash: bool,
        progress: &(dyn Fn(Progress) + Sync),
    ) {
        let side = |place: &Place| {
            let id = inventory.files.get(place)?.id;
            Some(Side { path: inventory.absolute(place), id })
        };
        // Each kept file is hashed once, however many copies it has.
        let mut hashed: HashSet<Inode> = self.digests.keys().copied().collect();
        let (mut keys, mut pairs) = (Vec::new(), Vec::new());
        for (key, (kept, copy)) in &wanted {
            if let (Some(kept), Some(copy)) = (side(kept), side(copy)) {
                keys.push(*key);
                pairs.push(Pair { kept, copy, hash: hash && hashed.insert(key.0) });
            }
        }
        if pairs.is_empty() {
            return;
        }
        progress(Progress::Total(pairs.iter().map(|pair| pair.kept.id.size).sum()));
        let verdicts = compare::compare(&pairs, &self.counters, &|bytes| progress(Progress::Done(bytes)));
        for (key, verdict) in keys.into_iter().zip(verdicts) {
            if let Verdict::Equal { digest: Some(digest) } = verdict {
                self.digests.insert(key.0, digest);
            }
            self.verdicts.insert(key, verdict);
        }
    }

    pub fn reads(&self) -> Reads {
        Reads {
            opens: self.counters.opens.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
        }
    }
}

/// What `look` says of the wanted places, by inode.
fn answers<R: Send + Sync>(
    wanted: BTreeMap<Inode, Place>,
    look: impl Fn(&Place) -> R + Sync,
) -> impl Iterator<Item = (Inode, R)> {
    let (inodes, places): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
    inodes.into_iter().zip(spread::map(&places, look))
}

fn read_headers(inventory: &Inventory, place: &Place) -> Headers {
    let read = || -> io::Result<Headers> {
        let file = stat::open_regular(&inventory.absolute(place))?;
        let same = inventory
            .files
            .get(place)
            .is_some_and(|record| file.metadata().is_ok_and(|now| stat::file_id(&now) == record.id));
        if !same {
            return Err(io::Error::other("it has changed since it was looked at"));
        }
        Ok(match elf::read_or_fail(&file)? {
            Err(elf::NotElf(why)) => Headers::NotElf(why),
            Ok(facts) if facts.executable => Headers::Program,
            Ok(facts) if facts.dynamic => Headers::Library { soname: facts.soname },
            Ok(_) => Headers::NotElf("an ELF file, but no shared object".into()),
        })
    };
    read().unwrap_or_else(|error| Headers::Unreadable(error.to_string()))
}

/// All names by inode.
pub type Names<'a> = BTreeMap<Inode, BTreeSet<&'a Place>>;
