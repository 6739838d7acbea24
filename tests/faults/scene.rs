//! The trees that faults are tried on: small, each with forms of duplicates that need different calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use crate::packages;
use crate::sdk_tree::SdkTree;

/// A tree and the command that changes it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub command: &'static [&'static str],
    lines: &'static str,
    /// On a file system that can neither exchange two names nor rename without replacing (gVisor, NFS, some of FUSE).
    pub plain: bool,
}

/// `@outside` stands for the folder beside the tree.
pub const SCENES: [Scene; 5] = [
    Scene {
        name: "split",
        command: &["dedup"],
        lines: "
            core/lib/libX.so.3 library libX.so.3 1
            devel/lib/libX.so.3 copy core/lib/libX.so.3
            devel/lib/libX.so hardlink devel/lib/libX.so.3
            core/lib/llvm/lib/libL.so.1 library libL.so.1 1
            devel/lib/llvm/lib/libL.so.1 hardlink core/lib/llvm/lib/libL.so.1
            devel/lib/libonly.so.1 library libonly.so.1 1
            devel/bin/hipcc text '#!/bin/sh'
            dist rocm-sdk-core 10.0.0
            dist rocm-sdk-devel 10.0.0",
        plain: false,
    },
    Scene {
        name: "reversed",
        command: &["dedup"],
        lines: "
            devel/lib/libX.so.3.5.0 library libX.so.3 1
            devel/lib/libX.so.3 symlink libX.so.3.5.0
            devel/lib/libX.so copy devel/lib/libX.so.3.5.0
            core/lib/libX.so.3 symlink ../../_rocm_sdk_devel/lib/libX.so.3
            dist rocm-sdk-core 10.0.0
            dist rocm-sdk-devel 10.0.0",
        plain: false,
    },
    Scene {
        name: "device",
        command: &["dedup", "--device-links"],
        lines: "
            libraries/lib/k/a.co text kernels
            devel/lib/k/a.co hardlink libraries/lib/k/a.co
            libraries/lib/k/libb.so library libb.so 1
            devel/lib/k/libb.so copy libraries/lib/k/libb.so
            manifest libraries gfx942 lib/k/a.co lib/k/libb.so
            dist rocm-sdk-libraries 10.0.0
            dist rocm-sdk-devel 10.0.0",
        plain: false,
    },
    Scene { name: "patch", command: &["patch", "--from", "@outside/patches"], lines: "", plain: false },
    Scene {
        name: "recipe",
        command: &["run", "--recipe", "@outside/patches/recipe.toml"],
        lines: "
            core/lib/libX.so.3 library libX.so.3 1
            devel/lib/libX.so.3 copy core/lib/libX.so.3
            dist rocm-sdk-core 10.0.0
            dist rocm-sdk-devel 10.0.0",
        plain: false,
    },
];

impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, if self.plain { "-plain" } else { "" })
    }
}

impl Scene {
    pub fn named(text: &str) -> Option<Self> {
        SCENES.into_iter().flat_map(|scene| [scene, scene.plain()]).find(|scene| scene.to_string() == text)
    }

    pub fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    /// Builds the tree in `top/sdk`, beside things that nobody may touch.
    pub fn build(&self, top: &Path) -> std::io::Result<()> {
        let mut builder = SdkTree::builder();
        for line in self.lines.lines() {
            builder = builder.line(line.trim());
        }
        fs::create_dir_all(top.join("sdk"))?;
        let tree = builder.build(&top.join("sdk"));
        fs::create_dir(top.join("outside"))?;
        if self.command[0] != "dedup" {
            packages::install(&tree.site_packages, &top.join("outside"))?;
        }
        fs::write(top.join("outside/file"), "not yours")?;
        fs::set_permissions(top.join("outside/file"), fs::Permissions::from_mode(0o600))?;
        unusual(top)
    }
}

/// Gives the files of each library an owner, a mode and an attribute that a careless copy would lose.
fn unusual(top: &Path) -> std::io::Result<()> {
    for entry in walkdir::WalkDir::new(top.join("sdk")) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if entry.file_type().is_file() && (name.contains(".so") || name.ends_with(".py")) {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o750))?;
            if rustix::process::geteuid().is_root() {
                chown(entry.path(), Some(1234), Some(2345))?;
            }
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::lsetxattr(entry.path(), "user.note", b"kept", flags);
        }
        // Older than any run: what a run makes is newer by more than a second.
        let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_600_000_000_250);
        if entry.file_type().is_file() {
            fs::File::open(entry.path())?.set_modified(then)?;
        }
    }
    Ok(())
}
