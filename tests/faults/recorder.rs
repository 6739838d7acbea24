//! One FUSE file that is a disk: every write and flush that a loop device sends to it is kept in order. Speaks the
//! kernel's protocol itself, so that no library and no package is needed.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::volume::command;

/// What the disk was told.
#[derive(Clone, Debug)]
pub enum Op {
    Write(u64, Vec<u8>),
    Flush,
}

#[derive(Debug)]
pub struct Recorder {
    mount: PathBuf,
    shared: Arc<Mutex<Disk>>,
}

#[derive(Debug)]
struct Disk {
    data: Vec<u8>,
    log: Vec<Op>,
}

const ROOT: u64 = 1;
const DISK: u64 = 2;

impl Recorder {
    /// Mounts `mount`, in which the file `disk` of `size` bytes is.
    pub fn new(mount: &Path, size: usize) -> Result<Self, String> {
        std::fs::create_dir_all(mount).unwrap();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let inherited = rustix::io::dup(&device).map_err(|error| error.to_string())?;
        let fd = inherited.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,max_read=131072");
        let done =
            Command::new("mount").args(["-i", "-t", "fuse", "-o", &options, "blocks"]).arg(mount).output();
        let done = done.map_err(|error| format!("mount: {error}"))?;
        if !done.status.success() {
            return Err(format!("mount: {}", String::from_utf8_lossy(&done.stderr).trim()));
        }
        let shared = Arc::new(Mutex::new(Disk { data: vec![0; size], log: Vec::new() }));
        let served = Arc::clone(&shared);
        std::thread::spawn(move || serve(&device, &served));
        Ok(Self { mount: mount.to_path_buf(), shared })
    }

    pub fn file(&self) -> PathBuf {
        self.mount.join("disk")
    }

    /// The disk as it is now; from here on the log begins.
    pub fn start(&self) -> Vec<u8> {
        let mut disk = self.shared.lock().unwrap();
        disk.log.clear();
        disk.data.clone()
    }

    /// What was written and flushed since [`Recorder::start`].
    pub fn log(&self) -> Vec<Op> {
        self.shared.lock().unwrap().log.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = command("umount", &["-l", self.mount.to_str().unwrap()]);
    }
}

fn serve(mut device: &File, disk: &Mutex<Disk>) {
    let mut buffer = vec![0_u8; 1 << 20];
    while let Ok(length) = device.read(&mut buffer) {
        let message = &buffer[..length];
        let (opcode, unique, node) = (u32_at(message, 4), u64_at(message, 8), u64_at(message, 16));
        let answer = answer(opcode, node, message.get(40..).unwrap_or_default(), disk);
        let Some(answer) = answer else { continue };
        let (error, body) = match answer {
            Ok(body) => (0_i32, body),
            Err(error) => (error, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend(u32::try_from(16 + body.len()).unwrap_or(16).to_le_bytes());
        reply.extend(error.to_le_bytes());
        reply.extend(unique.to_le_bytes());
        reply.extend(body);
        if device.write_all(&reply).is_err() {
            return;
        }
    }
}

/// `None` for what wants no answer.
fn answer(opcode: u32, node: u64, body: &[u8], disk: &Mutex<Disk>) -> Option<Result<Vec<u8>, i32>> {
    const LOOKUP: u32 = 1;
    const NOT_THERE: i32 = -2;
    const UNKNOWN: i32 = -38;
    let mut disk = disk.lock().unwrap();
    let size = disk.data.len() as u64;
    Some(Ok(match opcode {
        LOOKUP if body.split(|b| *b == 0).next() == Some(b"disk") => {
            words64(&[DISK, 0, 3600, 3600, 0], &attributes(DISK, size))
        }
        LOOKUP => return Some(Err(NOT_THERE)),
        // FORGET, BATCH_FORGET
        2 | 42 => return None,
        // GETATTR, SETATTR
        3 | 4 => words64(&[3600, 0], &attributes(node, size)),
        // OPEN, OPENDIR
        14 | 27 => words64(&[1, 0], &[]),
        // READ
        15 => {
            let (at, length) = (u64_at(body, 8), u64::from(u32_at(body, 16)));
            disk.data[index(at, size)..index(at + length, size)].to_vec()
        }
        // WRITE
        16 => {
            let (at, length) = (u64_at(body, 8), u64::from(u32_at(body, 16)));
            let bytes = body[40..40 + index(length, size)].to_vec();
            disk.data[index(at, size)..index(at + length, size)].copy_from_slice(&bytes);
            disk.log.push(Op::Write(at, bytes));
            words64(&[length], &[])
        }
        // STATFS
        17 => words64(&[size / 4096, 0, 0, 1, 0, 4096 | 255 << 32, 4096, 0, 0, 0], &[]),
        // FSYNC
        20 => {
            disk.log.push(Op::Flush);
            Vec::new()
        }
        // RELEASE, FLUSH, RELEASEDIR
        18 | 25 | 29 => Vec::new(),
        // INIT: version 7.31, write size 128 KiB
        26 => words64(&[7 | 31 << 32, 131_072, 12 | 10 << 16 | 131_072 << 32, 1 | 32 << 32, 0, 0, 0, 0], &[]),
        _ => return Some(Err(UNKNOWN)),
    }))
}

/// `struct fuse_attr`.
fn attributes(node: u64, size: u64) -> Vec<u8> {
    let (size, mode, links) = if node == ROOT { (0, 0o40_755, 2_u32) } else { (size, 0o100_600, 1) };
    let mut bytes = words64(&[node, size, size / 512, 0, 0, 0], &[]);
    // Nanoseconds of three times, mode, names, owner, group, device, block size, flags.
    for word in [0, 0, 0, mode, links, 0, 0, 0, 4096, 0_u32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

fn words64(words: &[u64], rest: &[u8]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).chain(rest.iter().copied()).collect()
}

fn index(at: u64, most: u64) -> usize {
    usize::try_from(at.min(most)).unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()))
}
