//! On a fatal signal or an early `exit`, copies `/proc/self/maps` behind the answer, so that the binary can say which
//! files were mapped. Then the process dies as it would have. Only async-signal-safe calls in the handler.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// The answer's descriptor while somebody watches, else -1.
static ANSWER: AtomicI32 = AtomicI32::new(-1);
/// The process that is watched; forked children inherit the handlers, but are none of our business.
static WATCHED: AtomicI32 = AtomicI32::new(0);

const FATAL: [c_int; 7] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// From now on a crash leaves its map at `answer`.
pub fn watch(answer: c_int) {
    const STACK: usize = 64 * 1024;
    let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: plain calls with valid pointers; the stack is leaked, so it outlives every signal.
    unsafe {
        WATCHED.store(libc::getpid(), SeqCst);
        ANSWER.store(answer, SeqCst);
        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
        for signal in FATAL {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        libc::atexit(on_exit);
    }
}

/// The answer is complete: from now on nothing is added to it.
pub fn calm() {
    ANSWER.store(-1, SeqCst);
}

extern "C" fn on_exit() {
    copy_maps();
}

extern "C" fn on_signal(signal: c_int) {
    copy_maps();
    // SA_RESETHAND put the default back; the signal is blocked until this handler returns, and then kills.
    // SAFETY: raise is async-signal-safe.
    unsafe { libc::raise(signal) };
}

fn copy_maps() {
    // SAFETY: getpid, open, read, write and close are async-signal-safe; the buffer is on this stack.
    unsafe {
        if libc::getpid() != WATCHED.load(SeqCst) {
            return;
        }
        let answer = ANSWER.swap(-1, SeqCst);
        if answer < 0 {
            return;
        }
        let maps = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if maps < 0 {
            return;
        }
        let mark = b"\n!maps\n";
        libc::write(answer, mark.as_ptr().cast(), mark.len());
        let mut buffer = [0u8; 4096];
        loop {
            let got = libc::read(maps, buffer.as_mut_ptr().cast(), buffer.len());
            if got <= 0 || libc::write(answer, buffer.as_ptr().cast(), got as usize) != got {
                break;
            }
        }
        libc::close(maps);
    }
}
