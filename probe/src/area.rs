//! Where answers go: memory shared with whoever reads it. The imported code may close any descriptor and open its own
//! under that number, as daemons do, or fork: what is said here must neither land in a file of its own nor come from
//! another process than the one that was asked.

use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

/// Text, written from the beginning on; it ends at the first NUL.
pub struct Area {
    base: *mut u8,
    size: usize,
    at: AtomicUsize,
    /// The process that may write.
    owner: AtomicI32,
}

// SAFETY: each write takes a range of its own, and nothing is read before the writer has ended.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// The file behind `fd`, which is closed: it is made as long as it may be, at most `most` bytes.
    ///
    /// # Errors
    /// The system's words.
    pub fn of_file(fd: RawFd, most: u64) -> io::Result<Self> {
        // Beyond the first limit the system would not refuse but kill. What counts as memory is the module's.
        let size = most.min(limit(libc::RLIMIT_FSIZE)?).min(limit(libc::RLIMIT_AS)? / 16) as usize;
        // SAFETY: plain calls on a descriptor that was handed to this process.
        unsafe {
            if libc::ftruncate(fd, size as libc::off_t) != 0 {
                return Err(io::Error::last_os_error());
            }
            let area = Self::map(size, libc::MAP_SHARED, fd);
            libc::close(fd);
            area
        }
    }

    /// For forked children.
    ///
    /// # Errors
    /// The system's words.
    pub fn anonymous(size: usize) -> io::Result<Self> {
        Self::map(size, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    fn map(size: usize, flags: libc::c_int, fd: RawFd) -> io::Result<Self> {
        // SAFETY: a new mapping anywhere; the Area owns it.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let area = Self { base: base.cast(), size, at: AtomicUsize::new(0), owner: AtomicI32::new(0) };
        area.belongs_to_this_process();
        Ok(area)
    }

    /// From now on this process writes, and none that it forks.
    pub fn belongs_to_this_process(&self) {
        // SAFETY: a plain call.
        self.owner.store(unsafe { libc::getpid() }, SeqCst);
    }

    /// Async-signal-safe. What has no room is lost, and all that comes after it, so that the end is missed.
    pub fn write(&self, bytes: &[u8]) {
        // SAFETY: a plain call.
        if unsafe { libc::getpid() } != self.owner.load(SeqCst) {
            return;
        }
        let at = self.at.fetch_add(bytes.len(), SeqCst);
        if at.saturating_add(bytes.len()) < self.size {
            // SAFETY: the range is inside of the mapping, and nobody else was given it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
        }
    }

    /// What was written; for after its writer's end.
    pub fn text(&self) -> Vec<u8> {
        // SAFETY: the mapping is as long as `size`, and lives as long as `self`.
        let all = unsafe { std::slice::from_raw_parts(self.base, self.size) };
        all.iter().copied().take_while(|byte| *byte != 0).collect()
    }
}

/// In bytes.
fn limit(of: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain call with a pointer to a local.
    let done = unsafe { libc::getrlimit(of, &raw mut limit) };
    if done == 0 { Ok(limit.rlim_cur) } else { Err(io::Error::last_os_error()) }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.base.cast(), self.size) };
    }
}
