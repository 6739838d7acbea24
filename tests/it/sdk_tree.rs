//! Makes SDK-shaped trees with real shared objects, from a few lines of text (`fixtures/sdk-trees/*.tree`) or by the
//! builder. Each line makes one name; the format is told in `fixtures/sdk-trees/README.md`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use rocm_fixup::model::{Distribution, Role, Tree};

/// A site-packages directory with an SDK in it.
#[derive(Debug)]
pub struct SdkTree {
    /// The directory that was given: what a snapshot should cover.
    pub top: PathBuf,
    pub site_packages: PathBuf,
}

#[derive(Debug, Default)]
pub struct Builder {
    lines: Vec<String>,
    symlinked_aliases: bool,
}

/// How the devel names relate to the owner's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As `rocm-sdk init` leaves them since 7.12.
    HardLinks,
    /// As builders split them: all devel names of a library on one other inode.
    Split,
    /// As archivers do: each name a file of its own.
    Copies,
    /// As in 7.11: symlinks.
    Symlinks,
}

pub const FORMS: [Form; 4] = [Form::HardLinks, Form::Split, Form::Copies, Form::Symlinks];

impl Builder {
    /// Any line of the fixture format.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// A library in `owner` ("core", "libraries", "profiler") under its SONAME, with a hard link and aliases of it in
    /// the devel tree.
    pub fn library(mut self, owner: &str, path: &str, aliases: &[&str]) -> Self {
        let (directory, soname) = path.rsplit_once('/').unwrap();
        let owned = format!("{owner}/{path}");
        self.lines.push(format!("{owned} library {soname} 1"));
        self.lines.push(format!("devel/{path} hardlink {owned}"));
        for alias in aliases {
            let how = if self.symlinked_aliases {
                format!("symlink {soname}")
            } else {
                format!("hardlink {owned}")
            };
            self.lines.push(format!("devel/{directory}/{alias} {how}"));
        }
        self
    }

    /// From here on aliases are symlinks in the devel tree, as another order of the tarball makes them.
    pub fn symlinked_aliases(mut self) -> Self {
        self.symlinked_aliases = true;
        self
    }

    /// An SDK with one of everything that is sound: four libraries with aliases, programs, scripts, headers, a
    /// directory symlink, device files with their manifest, and distributions.
    pub fn standard() -> Self {
        Self::default().with_standard()
    }

    pub fn standard_with_symlinked_aliases() -> Self {
        Self::default().symlinked_aliases().with_standard()
    }

    fn with_standard(self) -> Self {
        let aliases = |name: &str| [format!("{name}.so"), format!("{name}.so.3.5.0")];
        let mut builder = self;
        for (owner, directory, name) in [
            ("core", "lib", "libamd_comgr"),
            ("core", "lib/llvm/lib", "libLLVM"),
            ("libraries", "lib", "librocblas"),
            ("profiler", "lib", "librocprofiler"),
        ] {
            let [bare, full] = aliases(name);
            builder = builder.library(owner, &format!("{directory}/{name}.so.3"), &[&bare, &full]);
        }
        let lines = "
            core/bin/amdclang program 1
            devel/bin/amdclang hardlink core/bin/amdclang
            devel/bin/hipcc text '#!/bin/sh'
            devel/include/hip.h text '#pragma once'
            devel/lib/libonly_here.so.1 library libonly_here.so.1 1+
            devel/lib/libonly_here.so symlink libonly_here.so.1
            devel/llvm symlink lib/llvm
            libraries/lib/kernels/gfx942.co text kernels
            devel/lib/kernels/gfx942.co hardlink libraries/lib/kernels/gfx942.co
            manifest libraries gfx942 lib/kernels/gfx942.co
            dist rocm-sdk-core 10.0.0
            dist rocm-sdk-libraries 10.0.0
            dist rocm-profiler 10.0.0
            dist rocm-sdk-devel 10.0.0";
        builder.lines.extend(lines.lines().map(|line| line.trim().to_owned()));
        builder
    }

    /// Makes the tree below `top`, in `lib/python3.12/site-packages`.
    pub fn build(self, top: &Path) -> SdkTree {
        let top = top.canonicalize().unwrap();
        let site_packages = top.join("lib/python3.12/site-packages");
        fs::create_dir_all(&site_packages).unwrap();
        let tree = SdkTree { top, site_packages };
        for line in self.lines.iter().map(|line| line.trim()) {
            if !line.is_empty() && !line.starts_with('#') {
                tree.make(line);
            }
        }
        tree
    }
}

impl SdkTree {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The physical path of `core/…`, `libraries_gfx950/…`, `profiler/…`, `devel/…`, or of a plain name in
    /// site-packages.
    pub fn path(&self, short: &str) -> PathBuf {
        let (tree, rest) = short.split_once('/').unwrap_or((short, ""));
        let sdk = ["core", "libraries", "devel"].iter().any(|name| tree.starts_with(name));
        let tree = match tree {
            "profiler" => "_rocm_profiler".to_owned(),
            _ if sdk => format!("_rocm_sdk_{tree}"),
            other => other.to_owned(),
        };
        if rest.is_empty() { self.site_packages.join(tree) } else { self.site_packages.join(tree).join(rest) }
    }

    /// The inverse of [`Self::path`]; an absolute path of another place as it is.
    pub fn short(&self, path: &Path) -> String {
        let Ok(path) = path.strip_prefix(&self.site_packages) else { return path.display().to_string() };
        let text = path.display().to_string();
        let text = text.strip_prefix("_rocm_sdk_").unwrap_or(&text);
        text.strip_prefix("_rocm_").unwrap_or(text).to_owned()
    }

    /// Adds a line of the fixture format.
    pub fn make(&self, line: &str) {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (first, second, third, fourth) = (word(), word(), word(), word());
        match first {
            "mode" => {
                let mode = u32::from_str_radix(third, 8).unwrap();
                return fs::set_permissions(self.path(second), fs::Permissions::from_mode(mode)).unwrap();
            }
            "manifest" => return self.manifest(second, third, fourth),
            "dist" => return self.distribution(second, third),
            "remove" => return fs::remove_file(self.path(second)).unwrap(),
            _ => {}
        }
        let path = self.path(first);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match second {
            "library" => {
                fs::write(&path, object(&format!("-shared -fPIC -Wl,-soname,{third}"), fourth)).unwrap()
            }
            "nameless" => fs::write(&path, object("-shared -fPIC", third)).unwrap(),
            "program" => {
                fs::write(&path, object("-pie -fPIE", third)).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            "text" => fs::write(&path, line.splitn(3, ' ').nth(2).unwrap_or_default()).unwrap(),
            "copy" => drop(fs::copy(self.path(third), &path).unwrap()),
            "hardlink" => fs::hard_link(self.path(third), &path).unwrap(),
            "directory" => fs::create_dir(&path).unwrap(),
            "symlink" => {
                let target = third.strip_prefix('@').map_or_else(|| third.into(), |short| self.path(short));
                symlink(target, &path).unwrap();
            }
            other => panic!("no such entry: {other} in {line}"),
        }
    }

    /// A manifest of the libraries tree that names these paths.
    pub fn manifest_of(&self, paths: &[&str]) {
        self.manifest("libraries", "gfx", &paths.join(" "));
    }

    fn manifest(&self, libraries: &str, name: &str, paths: &str) {
        let directory = self.path(libraries).join(".devel_links");
        fs::create_dir_all(&directory).unwrap();
        let links: Vec<_> = paths
            .split(' ')
            .map(|link| {
                let (path, target) = link.split_once('=').unwrap_or((link, link));
                let up = "../".repeat(path.split('/').count());
                let target = format!("{up}{}/{target}", self.path(libraries).file_name().unwrap().display());
                serde_json::json!({"relpath": path, "target": target})
            })
            .collect();
        fs::write(directory.join(format!("{name}.json")), serde_json::json!({ "links": links }).to_string())
            .unwrap();
    }

    fn distribution(&self, name: &str, version: &str) {
        let info = self.site_packages.join(format!("{}-{version}.dist-info", name.replace('-', "_")));
        fs::create_dir_all(&info).unwrap();
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        fs::write(info.join("METADATA"), metadata).unwrap();
        fs::write(info.join("RECORD"), "").unwrap();
    }

    /// The SDK's directories as `locate` would tell them.
    pub fn trees(&self) -> Vec<Tree> {
        let mut names: Vec<_> =
            self.site_packages.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        let roles = [
            (Role::Core, "_rocm_sdk_core", "rocm-sdk-core"),
            (Role::Libraries, "_rocm_sdk_libraries", "rocm-sdk-libraries"),
            (Role::Profiler, "_rocm_profiler", "rocm-profiler"),
            (Role::Devel, "_rocm_sdk_devel", "rocm-sdk-devel"),
        ];
        let mut trees = Vec::new();
        for name in names {
            let text = name.to_str().unwrap_or_default();
            let Some((role, _, package)) = roles.iter().find(|(_, prefix, _)| text.starts_with(prefix))
            else {
                continue;
            };
            trees.push(Tree {
                role: *role,
                path: self.site_packages.join(&name),
                name: name.clone(),
                site_packages: self.site_packages.clone(),
                distribution: self.installed(package),
            });
        }
        trees
    }

    fn installed(&self, package: &str) -> Option<Distribution> {
        let prefix = format!("{}-", package.replace('-', "_"));
        let entries = self.site_packages.read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find_map(|path| {
            let name = path.file_name()?.to_str()?;
            let version = name.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.to_owned();
            let site_packages = self.site_packages.clone();
            Some(Distribution { name: package.to_owned(), version, dist_info: path.clone(), site_packages })
        })
    }

    /// Gives the devel tree's hard links to other trees another form.
    pub fn reshape(&self, form: Form) {
        let mut owners: HashMap<(u64, u64), PathBuf> = HashMap::new();
        for tree in ["core", "libraries", "profiler"] {
            for path in files(&self.path(tree)) {
                let metadata = path.symlink_metadata().unwrap();
                owners.insert((metadata.dev(), metadata.ino()), path);
            }
        }
        let mut groups: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for path in files(&self.path("devel")) {
            let metadata = path.symlink_metadata().unwrap();
            if let Some(owner) = owners.get(&(metadata.dev(), metadata.ino())) {
                groups.entry(owner.clone()).or_default().push(path);
            }
        }
        for (owner, names) in groups {
            for (at, name) in names.iter().enumerate().filter(|_| form != Form::HardLinks) {
                fs::remove_file(name).unwrap();
                match form {
                    Form::Split if at > 0 => fs::hard_link(&names[0], name).unwrap(),
                    Form::Symlinks => symlink(relative(name, &owner), name).unwrap(),
                    _ => drop(fs::copy(&owner, name).unwrap()),
                }
            }
        }
    }
}

fn relative(name: &Path, target: &Path) -> PathBuf {
    let directory = name.parent().unwrap();
    let shared = directory.components().zip(target.components()).take_while(|(a, b)| a == b).count();
    let up: PathBuf = directory.components().skip(shared).map(|_| "..").collect();
    up.join(target.components().skip(shared).collect::<PathBuf>())
}

/// Regular files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(directory).sort_by_file_name().into_iter().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_file()).map(|entry| entry.path().to_path_buf()).collect()
}

/// A real object. Equal arguments give equal bytes, another seed gives other bytes of the same length.
fn object(options: &str, seed: &str) -> Vec<u8> {
    type Made = Mutex<HashMap<(String, String), Vec<u8>>>;
    static MADE: OnceLock<Made> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().unwrap();
    let key = (options.to_owned(), seed.to_owned());
    let bytes = made.entry(key).or_insert_with(|| {
        let dir = tempfile::tempdir().unwrap();
        let (source, output) = (dir.path().join("x.c"), dir.path().join("x.out"));
        let main = if options.contains("pie") { "int main(void) { return 0; }" } else { "" };
        let more = if seed.ends_with('+') { "x".repeat(8192) } else { String::new() };
        let code = "const char *f(void) { return seed; }";
        let text = format!("const char seed[] = \"{seed:0>8}{more}\"; {code} {main}\n");
        fs::write(&source, text).unwrap();
        let done = Command::new("cc")
            .args(options.split(' '))
            .args(["-Wl,-rpath,$ORIGIN", "-Wl,--build-id=none", "-o"])
            .args([&output, &source])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::read(output).unwrap()
    });
    bytes.clone()
}
