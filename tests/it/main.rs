//! The one integration test binary: fixture in, run, whole tree out.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_macros,
    reason = "tests make their own input and fail by panicking"
)]

mod apply;
mod dedup_plan;
mod dedup_random;
mod libraries;
mod locate;
mod patch_cases;
mod python;
mod python_support;
mod recipe;
mod reference;
mod require;
mod sdk_tree;
mod shape;
mod smoke;
mod snapshot;
