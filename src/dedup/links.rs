//! Texts of links, by spelling alone. No I/O.

use std::path::{Component, Path, PathBuf};

/// The relative link text that leads from a name in `directory` to `target`, both absolute and physical: `..` of a
/// physical directory is its parent, so the text is right however the directory was reached.
#[must_use]
pub fn relative(directory: &Path, target: &Path) -> PathBuf {
    let shared = directory.components().zip(target.components()).take_while(|(a, b)| a == b).count();
    let up = directory.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(target.components().skip(shared)).collect()
}

/// Where a symlink at `path` points first, by spelling; the physical path if the directories on the way are.
#[must_use]
pub fn first_hop(path: &Path, target: &Path) -> PathBuf {
    let mut hop = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    for component in target.components() {
        match component {
            Component::ParentDir => {
                hop.pop();
            }
            Component::CurDir => {}
            _ => hop.push(component),
        }
    }
    hop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_texts() {
        let cases = [
            (
                "/sp/_rocm_sdk_devel/lib",
                "/sp/_rocm_sdk_core/lib/libX.so.3",
                "../../_rocm_sdk_core/lib/libX.so.3",
            ),
            ("/sp/d/lib/llvm/lib", "/sp/c/lib/llvm/lib/libLLVM.so", "../../../../c/lib/llvm/lib/libLLVM.so"),
            ("/opt/d/lib", "/sp/c/lib/x.so", "../../../sp/c/lib/x.so"),
            ("/sp/a b/lib", "/sp/a b/x.so", "../x.so"),
            ("/", "/x.so", "x.so"),
        ];
        for (directory, target, text) in cases {
            assert_eq!(relative(Path::new(directory), Path::new(target)), Path::new(text));
            assert_eq!(first_hop(&Path::new(directory).join("l"), Path::new(text)), Path::new(target));
        }
        assert_eq!(first_hop(Path::new("/a/b"), Path::new("/c/../d")), Path::new("/d"));
    }
}
