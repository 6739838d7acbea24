//! rocm-fixup as a library, for the binary, the benches and the fuzz targets. Not an API for others.
#![allow(clippy::missing_panics_doc)]

pub mod apply;
pub mod check;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod console;
pub mod dedup;
pub mod deliver;
pub mod discover;
pub mod dist;
pub mod elf;
pub mod error;
pub mod fsops;
pub mod ground;
pub mod held;
pub mod journal;
pub mod manifest;
pub mod model;
pub mod patch;
pub mod pyenv;
pub mod python;
pub mod recipe;
pub mod report;
pub mod scan;
pub mod session;
pub mod spread;
pub mod stat;
pub mod undo;
pub mod verbs;
