//! The one integration test binary: fixture in, run, whole tree out.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests make their own input and fail by panicking"
)]

mod apply;
mod apply_edits;
mod apply_killed;
mod changed_meanwhile;
mod cli;
mod dedup_plan;
mod dedup_random;
mod documents;
mod exit_codes;
mod faults_found;
mod formats;
mod github_format;
mod hostile_journals;
mod internals;
mod json_schema;
mod libraries;
mod locate;
mod metadata_in_doubt;
mod model_test;
mod not_sound;
mod patch_cases;
mod patch_cli;
mod patch_corpora;
mod patch_differential;
mod patch_dry;
mod patch_not_meant;
mod patch_outside;
mod patch_packages;
mod patch_places;
mod patch_properties;
mod patch_pypi;
mod patch_record;
mod patch_refused;
mod patch_revert;
mod patch_speed;
mod patch_status;
mod patch_twice;
mod python;
mod python_support;
mod recipe;
mod recipe_patches;
mod recorded_runs;
mod reference;
mod reports_delivered;
mod require;
mod screens;
mod sdk_tree;
mod second_look;
mod shape;
mod site;
mod smoke;
mod snapshot;
mod stages;
mod surroundings;
mod undo_refused;
mod undo_runs;
mod undo_whole;
