//! All integration tests in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "tests fail by panicking, write and print"
)]

mod patch_cases;
mod patch_corpora;
mod patch_differential;
mod patch_packages;
mod patch_places;
mod patch_properties;
mod patch_pypi;
mod patch_speed;
mod recipe;
mod site;
