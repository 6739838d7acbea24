//! On a fatal signal or an early `exit`, copies `/proc/self/maps` behind the answer, so that the binary can say which
//! files were mapped. Then the process dies as it would have. Only async-signal-safe calls in the handler.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crate::area::Area;

/// The answer while somebody watches, else null. Forked children inherit the handlers, but write nothing.
static ANSWER: AtomicPtr<Area> = AtomicPtr::new(null_mut());

const FATAL: [c_int; 7] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// From now on a crash leaves its map at `answer`.
pub fn watch(answer: &'static Area) {
    const STACK: usize = 64 * 1024;
    let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: plain calls with valid pointers; the stack is leaked, so it outlives every signal.
    unsafe {
        ANSWER.store(std::ptr::from_ref(answer).cast_mut(), SeqCst);
        libc::sigaltstack(&raw const stack, null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
        for signal in FATAL {
            libc::sigaction(signal, &raw const action, null_mut());
        }
        libc::atexit(on_exit);
    }
}

/// The answer is complete: from now on nothing is added to it.
pub fn calm() {
    ANSWER.store(null_mut(), SeqCst);
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
    // SAFETY: what is stored there is static.
    let Some(answer) = (unsafe { ANSWER.swap(null_mut(), SeqCst).as_ref() }) else { return };
    // SAFETY: open, read and close are async-signal-safe; the buffer is on this stack.
    unsafe {
        let maps = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if maps < 0 {
            return;
        }
        answer.write(b"\n!maps\n");
        let mut buffer = [0u8; 4096];
        while let got @ 1.. = libc::read(maps, buffer.as_mut_ptr().cast(), buffer.len()) {
            answer.write(&buffer[..got as usize]);
        }
        libc::close(maps);
    }
}
