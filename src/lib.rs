//! rocm-fixup as a library, for the binary, the benches and the fuzz targets. Not an API for others.
#![allow(clippy::missing_panics_doc)]

pub mod error;
pub mod model;
pub mod patch;
pub mod pyenv;
pub mod recipe;
