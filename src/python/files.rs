//! Files without a name for question and answer, and the places that a module can be loaded from. Leaves nothing
//! behind: a temporary file lives only as long as its value.

#![expect(
    clippy::disallowed_methods,
    reason = "a module that must be loaded where /proc is missing needs a real file"
)]

use std::env::{current_exe, temp_dir};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use rustix::fs::{MemfdFlags, memfd_create};

/// An unnamed file that holds `bytes`, to be read from its beginning.
///
/// # Errors
/// If neither memory nor any temporary directory takes it.
pub fn unnamed(bytes: &[u8]) -> Result<File> {
    let memory = memfd_create("rocm-fixup", MemfdFlags::CLOEXEC).map(File::from).map_err(io::Error::from);
    let mut file = memory.or_else(|error| {
        let mut last = error;
        for dir in places() {
            match Temporary::new(&dir) {
                Ok((_gone_at_once, file)) => return Ok(file),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    let made = file.as_mut().map_err(|e| io::Error::new(e.kind(), e.to_string())).and_then(|file| {
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(0))
    });
    made.context("can't make a temporary file for the interpreter")?;
    file.context("can't make a temporary file for the interpreter")
}

/// Everything in `file`, up to `most` bytes.
///
/// # Errors
/// Those of reading.
pub fn contents(file: &mut File, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).context("can't read the interpreter's answer")?;
    file.take(most).read_to_end(&mut bytes).context("can't read the interpreter's answer")?;
    Ok(bytes)
}

/// The text in `file`, up to its first NUL and up to `most` bytes: it may be far longer than what was written into it.
///
/// # Errors
/// Those of reading.
pub fn text(file: &mut File, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).context("can't read the interpreter's answer")?;
    BufReader::new(file.take(most))
        .read_until(0, &mut bytes)
        .context("can't read the interpreter's answer")?;
    bytes.pop_if(|last| *last == 0);
    Ok(bytes)
}

/// Where temporary files may go, best first.
fn places() -> Vec<PathBuf> {
    let mut places = vec![temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into(), "/run".into()];
    places.extend(current_exe().ok().and_then(|exe| Some(exe.parent()?.to_path_buf())));
    places.dedup();
    places
}

/// The module in a form that `dlopen` can name.
pub enum Loadable {
    /// In memory; the child names it by its own descriptor.
    Memory(OwnedFd),
    OnDisk(Temporary),
}

/// The ways to make a module loadable, best first. Lazily: the next is made only if the one before didn't load.
pub fn loadable(module: &'static [u8], in_memory: bool) -> impl Iterator<Item = Loadable> {
    let memory = (in_memory && Path::new("/proc/self/fd").exists()).then(|| {
        let file = memfd_create("rocm-fixup-probe", MemfdFlags::CLOEXEC).ok()?;
        let mut file = File::from(file);
        file.write_all(module).ok()?;
        Some(Loadable::Memory(file.into()))
    });
    let disk = places().into_iter().filter_map(move |dir| {
        let (named, mut file) = Temporary::new(&dir).ok()?;
        file.write_all(module).ok()?;
        Some(Loadable::OnDisk(named))
    });
    memory.flatten().into_iter().chain(disk)
}

/// A file that is removed when the value goes.
pub struct Temporary(PathBuf);

impl Temporary {
    /// # Errors
    /// Those of making a new file in `dir`.
    fn new(dir: &Path) -> io::Result<(Self, File)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".rocm-fixup-{}-{count}-{:x}.so", std::process::id(), now.as_nanos()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok((Self(path), file))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
