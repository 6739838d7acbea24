//! The SDK's trees and the distributions that bring them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Which part of the SDK a tree is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Core,
    Libraries,
    Profiler,
    Devel,
}

/// One SDK tree: `path` is physical, `name` is how it is called in site-packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub role: Role,
    pub name: std::ffi::OsString,
    pub path: PathBuf,
    pub site_packages: PathBuf,
    pub distribution: Option<Distribution>,
}

/// An installed distribution as its dist-info tells; `name` as written there, not normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    pub name: String,
    pub version: String,
    /// The `*.dist-info` directory, physical.
    pub dist_info: PathBuf,
    /// The site-packages directory that it lies in, physical.
    pub site_packages: PathBuf,
}

/// PEP 503: the form in which names of distributions are compared.
#[must_use]
pub fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.split(['-', '_', '.']).filter(|p| !p.is_empty()) {
        if !out.is_empty() {
            out.push('-');
        }
        out.push_str(&part.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_distributions_are_normalised_as_pep_503_says() {
        assert_eq!(normalised("Torch_Memory--Saver"), "torch-memory-saver");
        assert_eq!(normalised("rocm.sdk_core"), "rocm-sdk-core");
    }
}
