//! A file system of its own on a loop device, of which the power can be cut.

use std::path::{Path, PathBuf};
use std::process::Command;

/// ext4 or xfs on an image.
#[derive(Debug)]
pub struct Volume {
    device: String,
    pub mount: PathBuf,
}

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing: the log is not flushed either.
    All,
    /// The names, not the data.
    Data,
}

impl Cut {
    pub fn name(self) -> &'static str {
        if self == Self::All { "all" } else { "data" }
    }
}

pub fn command(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    }
    Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr).trim()))
}

impl Volume {
    /// Makes and mounts one below `dir`. Fails where there is no loop device, no right to mount, or no mkfs.
    pub fn new(dir: &Path, fs: &str) -> Result<Self, String> {
        let image = dir.join(format!("{fs}.image"));
        let mount = dir.join(format!("{fs}.mount"));
        std::fs::create_dir_all(&mount).unwrap();
        std::fs::File::create(&image).and_then(|file| file.set_len(320 << 20)).unwrap();
        let image = image.to_str().unwrap();
        let force = if fs == "xfs" { "-f" } else { "-F" };
        command(&format!("mkfs.{fs}"), &["-q", force, image])?;
        let device = command("losetup", &["--find", "--show", image])?;
        let volume = Self { device, mount };
        volume.attach()?;
        Ok(volume)
    }

    fn attach(&self) -> Result<(), String> {
        command("mount", &[&self.device, self.mount.to_str().unwrap()]).map(drop)
    }

    /// Everything until now is on the disk.
    pub fn sync(&self) {
        let dir = std::fs::File::open(&self.mount).unwrap();
        rustix::fs::syncfs(&dir).unwrap();
    }

    /// The power goes, and comes back.
    pub fn cut(&self, cut: Cut) -> Result<(), String> {
        let how = if cut == Cut::All { "shutdown" } else { "shutdown -f" };
        let mount = self.mount.to_str().unwrap();
        command("xfs_io", &["-x", "-c", how, mount])?;
        command("umount", &[mount])?;
        self.attach()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = command("umount", &[self.mount.to_str().unwrap()]);
        let _ = command("losetup", &["--detach", &self.device]);
    }
}
