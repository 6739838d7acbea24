//! The one integration test binary: fixture in, run, whole tree out.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests make their own input and fail by panicking"
)]

mod apply;
mod cli;
mod dedup_plan;
mod dedup_random;
mod documents;
mod exit_codes;
mod faults_found;
mod formats;
mod github_format;
mod hostile_journals;
mod json_schema;
mod libraries;
mod locate;
mod model_test;
mod patch_cases;
mod patch_cli;
mod patch_corpora;
mod patch_differential;
mod patch_packages;
mod patch_places;
mod patch_properties;
mod patch_pypi;
mod patch_speed;
mod python;
mod python_support;
mod recipe;
mod recorded_runs;
mod reference;
mod require;
mod screens;
mod sdk_tree;
mod shape;
mod site;
mod smoke;
mod snapshot;
mod surroundings;
