//! Lets go of large files that were removed, beside the work that goes on: the kernel frees pages and blocks of a removed
//! file when its last holder lets go, and that takes as long as all else in a merge. Opens and removes nothing itself.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// As many files may wait to be let go of; what comes then is let go of at once, so that few stay open.
const WAITING: usize = 16;

/// The thread that lets go. It ends, with all done, when this is dropped.
#[derive(Debug, Default)]
pub struct Freeing {
    thread: Option<(SyncSender<OwnedFd>, JoinHandle<()>)>,
}

impl Freeing {
    /// Lets go of `file` soon; at once where the system has no thread to give.
    pub fn let_go(&mut self, file: OwnedFd) {
        if self.thread.is_none() {
            let (sender, files) = sync_channel::<OwnedFd>(WAITING);
            let thread = Builder::new().spawn(move || files.into_iter().for_each(drop));
            self.thread = thread.ok().map(|thread| (sender, thread));
        }
        if let Some((sender, _)) = &self.thread {
            // One that doesn't fit comes back in the error, and is let go of with it.
            drop(sender.try_send(file));
        }
    }

    /// Waits until the space of all that was let go of is free.
    pub fn wait(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn after_waiting_nothing_is_held_any_more_however_much_it_was() {
        let mut freeing = Freeing::default();
        for count in [1, 3 * WAITING] {
            let (mut end, held) = std::io::pipe().unwrap();
            for _ in 0..count {
                freeing.let_go(held.try_clone().unwrap().into());
            }
            drop(held);
            freeing.wait();
            rustix::io::ioctl_fionbio(&end, true).unwrap();
            // A pipe that somebody holds would block.
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
    }
}
