//! The one integration test binary: fixture in, run, whole tree out.

mod apply;
mod snapshot;
