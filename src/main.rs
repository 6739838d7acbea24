//! rocm-fixup.
fn main() {}
