//! Keeps the module loadable on glibc 2.17: asks for the old versions of symbols that newer glibcs only moved, and
//! brings own system calls for those that they added. Defines symbols; nothing here is called by name.
//!
//! Works only while std's references lie in the same object as the directives, that is with fat LTO and one codegen
//! unit (`profile.probe`). `tests/it/shape.rs` reads the floor off the built file.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

#[cfg(target_arch = "x86_64")]
macro_rules! base {
    () => {
        "GLIBC_2.2.5"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! base {
    () => {
        "GLIBC_2.17"
    };
}

macro_rules! old_version {
    ($($name:literal)*) => { $(std::arch::global_asm!(concat!(".symver ", $name, ",", $name, "@", base!()));)* };
}

old_version! { "dlopen" "dlerror" "dlsym" "pthread_key_create" "pthread_key_delete" "pthread_setspecific" }

/// # Safety
/// As `stat(2)`: `path` is a C string and `out` has room for a `struct stat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, out: *mut libc::stat64) -> c_int {
    // SAFETY: the kernel checks both pointers; the layouts of `stat` and `stat64` agree on 64-bit Linux.
    unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, out, 0) as c_int }
}

/// # Safety
/// As `fstat(2)`: `out` has room for a `struct stat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(fd: c_int, out: *mut libc::stat64) -> c_int {
    // SAFETY: the kernel checks the pointer.
    unsafe { libc::syscall(libc::SYS_fstat, fd as c_long, out) as c_int }
}

/// # Safety
/// As `statx(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut libc::statx,
) -> c_int {
    // SAFETY: the kernel checks both pointers.
    unsafe { libc::syscall(libc::SYS_statx, dir, path, flags, mask, out) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn gettid() -> libc::pid_t {
    // SAFETY: gettid has no arguments and can't fail.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// # Safety
/// As `getrandom(2)`: `out` has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(out: *mut c_void, len: usize, flags: c_uint) -> isize {
    // SAFETY: the kernel checks the pointer.
    unsafe { libc::syscall(libc::SYS_getrandom, out, len, flags) as isize }
}
