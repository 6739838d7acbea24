//! The loader's own list of mapped objects, with file identity and SONAME. Only reads.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use crate::wire::{Object, Raw};

/// Every object that this process has loaded from a file that still exists, in load order.
pub fn objects() -> Vec<Object> {
    let mut seen: Vec<(Vec<u8>, Option<String>)> = Vec::new();
    // SAFETY: the callback gets back the pointer given here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut seen).cast()) };
    seen.into_iter()
        .filter_map(|(path, soname)| {
            let meta = std::fs::metadata(OsStr::from_bytes(&path)).ok()?;
            Some(Object { path: Raw::new(&path), dev: meta.dev(), ino: meta.ino(), soname, module: false })
        })
        .collect()
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, seen: *mut c_void) -> c_int {
    // SAFETY: the loader hands a valid `info`, and `seen` is the vector of `objects`.
    let (info, seen) = unsafe { (&*info, &mut *seen.cast::<Vec<(Vec<u8>, Option<String>)>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: a non-null name is a C string that lives as long as the object.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    // The program itself has an empty name and the vdso no file.
    if name.contains(&b'/') {
        // SAFETY: the headers of a mapped object stay mapped while the loader's lock is held, as it is here.
        seen.push((name.to_vec(), unsafe { soname(info) }));
    }
    0
}

/// # Safety
/// `info` describes an object that is mapped.
unsafe fn soname(info: &libc::dl_phdr_info) -> Option<String> {
    // SAFETY: the loader gives `dlpi_phnum` headers at `dlpi_phdr`.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let (mut strings, mut offset) = (None, None);
    let mut at = (info.dlpi_addr + dynamic.p_vaddr) as *const [u64; 2];
    loop {
        // SAFETY: the table is mapped and ends with DT_NULL.
        let [tag, value] = unsafe { at.read() };
        match tag {
            0 => break,
            5 => strings = Some(value),
            14 => offset = Some(value),
            _ => {}
        }
        // SAFETY: the loop ends at DT_NULL, so the next entry exists.
        at = unsafe { at.add(1) };
    }
    let (strings, offset) = (strings?, offset?);
    // glibc relocates DT_STRTAB in place, unless the dynamic section is read-only.
    let strings = if strings < info.dlpi_addr { strings + info.dlpi_addr } else { strings };
    // SAFETY: DT_SONAME is the offset of a C string in the string table.
    let name = unsafe { CStr::from_ptr((strings + offset) as *const _) };
    Some(String::from_utf8_lossy(name.to_bytes()).into_owned())
}
