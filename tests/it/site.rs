//! A site-packages directory for tests, and plans carried out by plain means (the real applier has its own tests).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rocm_fixup::model::{Distribution, Entry, Plan};
use rocm_fixup::patch::past::Past;
use rocm_fixup::patch::plan::{Direction, Options, Planned};
use rocm_fixup::patch::target::Ground;
use rocm_fixup::patch::{Plain, lint::Origin, of_files, of_recipe};
use rocm_fixup::pyenv::{Edit, Record};
use rocm_fixup::recipe::when::Facts;
use rocm_fixup::recipe::{Recipe, embedded};

pub struct Site {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
    pub distributions: Vec<Distribution>,
    pub env: BTreeMap<String, String>,
}

impl Site {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap().join("site-packages");
        fs::create_dir(&root).unwrap();
        Self { _directory: directory, root, distributions: Vec::new(), env: BTreeMap::new() }
    }

    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Installs a distribution of these files, RECORD included.
    pub fn install(&mut self, name: &str, version: &str, files: &[(&str, &[u8])]) {
        let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let seed = format!("{info}/RECORD,,\n");
        let edits: Vec<(&[u8], Edit<'_>)> =
            files.iter().map(|(path, bytes)| (path.as_bytes(), Edit::Created(bytes))).collect();
        for (path, bytes) in files {
            self.write(path, bytes);
        }
        self.write(&format!("{info}/RECORD"), Record::new(seed.as_bytes()).unwrap().edited(&edits));
        self.distributions.push(Distribution {
            name: name.into(),
            version: version.into(),
            dist_info: self.root.join(info),
            site_packages: self.root.clone(),
        });
    }

    pub fn with<T>(&self, job: impl FnOnce(&Ground<'_>) -> T) -> T {
        let env = |name: &str| self.env.get(name).cloned();
        job(&Ground {
            past: &Past::default(),
            site_packages: std::slice::from_ref(&self.root),
            facts: Facts {
                distributions: &self.distributions,
                unclear: &[],
                env: &env,
                glibc: Some("2.36"),
                python: Some("3.11.7"),
                arch: "x86_64",
            },
        })
    }

    pub fn plain(&self, patches: &[&str], direction: Direction) -> Planned {
        let patches: Vec<Plain> = patches
            .iter()
            .enumerate()
            .map(|(n, text)| Plain { name: format!("p{n}"), bytes: text.as_bytes().to_vec() })
            .collect();
        let options = Options { direction, allow_drift: false, names: &[] };
        self.with(|ground| of_files(&patches, None, None, ground, &options)).unwrap()
    }

    pub fn recipe(&self, recipe: &Recipe, direction: Direction, allow_drift: bool) -> Planned {
        let options = Options { direction, allow_drift, names: &[] };
        let bytes = |file: &str| Ok(embedded::patch(file).unwrap().to_vec());
        self.with(|ground| of_recipe(recipe, &bytes, Origin::Shipped, ground, &options)).unwrap()
    }

    /// Everything below the root: names, bytes, modes, links.
    pub fn tree(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut out = BTreeMap::new();
        let mut todo = vec![self.root.clone()];
        while let Some(directory) = todo.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let bytes = if meta.is_dir() {
                    todo.push(path.clone());
                    Vec::new()
                } else if meta.is_symlink() {
                    fs::read_link(&path).unwrap().to_string_lossy().into_owned().into_bytes()
                } else if meta.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                out.insert(path, (meta.mode(), bytes));
            }
        }
        out
    }
}

/// Carries out a plan: a new file beside the old, renamed over it. Checks what a plan promises on the way.
pub fn carry_out(plan: &Plan) {
    for change in &plan.changes {
        let path = plan.absolute(&change.at);
        check_before(&path, &change.before, plan);
        match &change.after {
            Entry::Absent => fs::remove_file(&path).unwrap(),
            Entry::File(file) => {
                let bytes = &plan.contents[&file.digest.unwrap()];
                assert_eq!(bytes.len() as u64, file.size);
                let beside = path.with_extension("staged");
                fs::write(&beside, bytes).unwrap();
                fs::set_permissions(&beside, fs::Permissions::from_mode(file.meta.mode)).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
            Entry::Symlink { .. } => panic!("patches make no links"),
        }
    }
}

fn check_before(path: &Path, before: &Entry, plan: &Plan) {
    match before {
        Entry::Absent => assert!(!path.exists()),
        Entry::File(file) => {
            assert_eq!(&fs::read(path).unwrap(), &plan.originals[&file.digest.unwrap()]);
        }
        Entry::Symlink { .. } => panic!("patches take no links"),
    }
}
