//! Reads what a loader would read first of an ELF file: type, interpreter, SONAME, needed libraries and versions.
//! Never maps a file, and reads at most [`BUDGET`] bytes of it whatever its headers claim.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;

use object::elf;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, Pod};

/// Real libraries need some kilobytes; a header that asks for more than this is hostile.
pub const BUDGET: u64 = 4 << 20;
/// Names longer than this are no file names (NAME_MAX is 255; version names are of the same order).
const LONGEST_NAME: u64 = 4096;
/// Entries of one list (needed libraries, versions).
const MOST_ENTRIES: usize = 4096;

/// What the program headers and the dynamic section say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `ET_DYN`: a shared object, or a position-independent executable.
    pub dynamic: bool,
    /// It can be run: it has a `PT_INTERP`, is `ET_EXEC`, or says `DF_1_PIE`. libc.so.6 and the like count too.
    pub executable: bool,
    pub soname: Option<Vec<u8>>,
    pub needed: Vec<Vec<u8>>,
    /// Where it looks for them first (`DT_RUNPATH`, else `DT_RPATH`), as written.
    pub runpath: Option<Vec<u8>>,
    /// Versions wanted of other libraries: (file, version), as in (`libc.so.6`, `GLIBC_2.39`).
    pub versions: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a file is not one that a loader would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotElf(pub String);

/// Whether it begins as all libraries and programs do, damaged ones included.
#[must_use]
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}

/// Reads the facts of an open file.
///
/// # Errors
/// [`NotElf`], for text, damaged and unreadable files alike.
pub fn read(file: &File) -> Result<Facts, NotElf> {
    read_or_fail(file).unwrap_or_else(|error| Err(NotElf(format!("can't be read: {error}"))))
}

/// The same, but a file that can't be read is no answer: it may be a library all the same.
///
/// # Errors
/// Those of `read` and `lseek`.
pub fn read_or_fail(file: &File) -> io::Result<Result<Facts, NotElf>> {
    let failed = RefCell::new(None);
    let facts = read_through(&ReadCache::new(Noting { file, failed: &failed }));
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(facts),
    }
}

fn read_through(cache: &ReadCache<Noting<'_>>) -> Result<Facts, NotElf> {
    let bounded = Bounded { cache, left: &Cell::new(BUDGET) };
    let ident = bounded.read_bytes_at(0, 16).map_err(|()| NotElf("shorter than an ELF header".into()))?;
    if !is_elf(ident) {
        return Err(NotElf("no ELF magic number".into()));
    }
    match ident[4] {
        1 => facts::<elf::FileHeader32<Endianness>>(bounded),
        2 => facts::<elf::FileHeader64<Endianness>>(bounded),
        class => Err(NotElf(format!("unknown ELF class {class}"))),
    }
}

fn facts<H: FileHeader<Endian = Endianness>>(data: Bounded<'_, '_>) -> Result<Facts, NotElf> {
    let damaged = |error: object::read::Error| NotElf(format!("damaged ELF file: {error}"));
    let header = H::parse(data).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let segments = header.program_headers(endian, data).map_err(damaged)?;
    let kind = header.e_type(endian);
    let mut facts = Facts {
        dynamic: kind == elf::ET_DYN,
        executable: kind == elf::ET_EXEC || segments.iter().any(|s| s.p_type(endian) == elf::PT_INTERP),
        ..Facts::default()
    };
    let mut entries: &[H::Dyn] = &[];
    for segment in segments {
        if let Some(found) = segment.dynamic(endian, data).map_err(damaged)? {
            entries = found;
        }
    }
    let entries: Vec<(i64, u64)> = entries
        .iter()
        .map(|entry| (entry.d_tag(endian).0, entry.d_val(endian).into()))
        .take_while(|&(tag, _)| tag != elf::DT_NULL.0)
        .collect();
    let value = |tag: elf::DynamicTag| entries.iter().find(|entry| entry.0 == tag.0).map(|entry| entry.1);
    // Addresses in the dynamic section are virtual; the loadable segments say where that is in the file.
    let offset = |address: u64| {
        segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD).find_map(|s| {
            let within = address.checked_sub(s.p_vaddr(endian).into())?;
            (within < s.p_filesz(endian).into()).then(|| within.checked_add(s.p_offset(endian).into()))?
        })
    };
    let strings = value(elf::DT_STRTAB).and_then(offset);
    let text = |at: u64| data.text(strings?.checked_add(at)?);

    facts.executable |= value(elf::DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0);
    facts.soname = value(elf::DT_SONAME).and_then(text);
    facts.runpath = value(elf::DT_RUNPATH).or_else(|| value(elf::DT_RPATH)).and_then(text);
    facts.needed = entries
        .iter()
        .filter(|entry| entry.0 == elf::DT_NEEDED.0)
        .take(MOST_ENTRIES)
        .filter_map(|entry| text(entry.1))
        .collect();
    if let (Some(start), Some(count)) = (value(elf::DT_VERNEED).and_then(offset), value(elf::DT_VERNEEDNUM)) {
        facts.versions = versions(data, endian, start, count, text);
    }
    Ok(facts)
}

/// Said by position-independent executables, also by static ones, which have no interpreter.
const DF_1_PIE: u64 = 0x0800_0000;

/// Walks the version needs. Entries that lie outside the file end the walk: they would end the loader's too.
fn versions(
    data: Bounded<'_, '_>,
    endian: Endianness,
    start: u64,
    count: u64,
    text: impl Fn(u64) -> Option<Vec<u8>>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = start;
    for _ in 0..count.min(MOST_ENTRIES as u64) {
        let Ok(need) = data.read_at::<elf::Verneed<Endianness>>(at) else { break };
        let file = text(need.vn_file.get(endian).into()).unwrap_or_default();
        let mut aux = at.saturating_add(need.vn_aux.get(endian).into());
        for _ in 0..need.vn_cnt.get(endian) {
            let Ok(one) = data.read_at::<elf::Vernaux<Endianness>>(aux) else { break };
            if found.len() == MOST_ENTRIES {
                return found;
            }
            if let Some(version) = text(one.vna_name.get(endian).into()) {
                found.push((file.clone(), version));
            }
            match one.vna_next.get(endian) {
                0 => break,
                next => aux = aux.saturating_add(next.into()),
            }
        }
        match need.vn_next.get(endian) {
            0 => break,
            next => at = at.saturating_add(next.into()),
        }
    }
    found
}

/// A file that remembers why it could not be read: `ReadCache` forgets that.
struct Noting<'a> {
    file: &'a File,
    failed: &'a RefCell<Option<io::Error>>,
}

impl Noting<'_> {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failed.replace(Some(error));
            kind.into()
        })
    }
}

impl io::Read for Noting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // `ReadCache` gives a string up that a signal interrupts, and a library without a SONAME looks like no alias.
        loop {
            match (&*self.file).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return self.note(read),
            }
        }
    }
}

impl io::Seek for Noting<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let sought = (&*self.file).seek(to);
        // An offset from a hostile header is no fault of the disk.
        if sought.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            return sought;
        }
        self.note(sought)
    }
}

/// A file through a cache that refuses to grow beyond a budget: `ReadCache` alone trusts sizes in headers.
#[derive(Clone, Copy)]
struct Bounded<'a, 'f> {
    cache: &'a ReadCache<Noting<'f>>,
    left: &'a Cell<u64>,
}

impl Bounded<'_, '_> {
    fn text(self, at: u64) -> Option<Vec<u8>> {
        let end = at.saturating_add(LONGEST_NAME).min(self.len().ok()?);
        self.read_bytes_at_until(at..end, 0).ok().map(<[u8]>::to_vec)
    }

    fn spend(self, size: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for Bounded<'a, '_> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // What is read of it at once, and kept.
        self.spend(256)?;
        let found = self.cache.read_bytes_at_until(range, delimiter)?;
        self.spend(found.len() as u64)?;
        Ok(found)
    }

    fn read_at<T: Pod>(self, offset: u64) -> Result<&'a T, ()> {
        let bytes = self.read_bytes_at(offset, size_of::<T>() as u64)?;
        object::pod::from_bytes(bytes).map(|(value, _)| value)
    }
}

#[cfg(test)]
#[path = "elf/tests.rs"]
mod tests;
