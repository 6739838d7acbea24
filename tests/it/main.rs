//! The one integration test binary: fixture in, run, whole tree out.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail by panicking and write"
)]

mod apply;
mod locate;
mod patch_cases;
mod python;
mod python_support;
mod shape;
mod snapshot;
