//! rocm-fixup as a library, for the binary, the benches and the fuzz targets. Not an API for others.
#![allow(clippy::missing_panics_doc)]

pub mod compare;
pub mod dedup;
pub mod elf;
pub mod error;
pub mod manifest;
pub mod model;
pub mod scan;
