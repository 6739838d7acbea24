//! One test binary: fixture in, run, whole tree out.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests make their own input"
)]

mod dedup_plan;
mod dedup_random;
mod reference;
mod sdk_tree;
mod snapshot;
