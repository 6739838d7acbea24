//! The one integration test binary: fixture in, run, whole tree out.

mod apply;
mod snapshot;
//! All integration tests in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail by panicking and write"
)]

mod patch_cases;
//! One test binary: fixture in, run, whole tree out.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests make their own input"
)]

mod dedup_plan;
mod reference;
mod sdk_tree;
mod snapshot;
