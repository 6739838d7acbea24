//! The recipes and patches that come with the program. Constants only.

/// The recipe that is used where none is named.
pub const DEFAULT: &str = "miles-rocm10";

/// Names and texts of the embedded recipes.
pub const RECIPES: [(&str, &str); 2] = [
    ("miles-rocm10", include_str!("../../patches/miles-rocm10.toml")),
    ("vllm-rocm", include_str!("../../patches/vllm-rocm.toml")),
];

/// Names (as a recipe's `file` gives them) and bytes of the embedded patches.
pub const PATCHES: [(&str, &[u8]); 5] = [
    ("tile-kernels/lazy-import.patch", include_bytes!("../../patches/tile-kernels/lazy-import.patch")),
    ("tilelang/hip-fp8-0.1.8.patch", include_bytes!("../../patches/tilelang/hip-fp8-0.1.8.patch")),
    ("tilelang/hip-fp8-0.1.9.patch", include_bytes!("../../patches/tilelang/hip-fp8-0.1.9.patch")),
    ("tilelang/hip-fp8-0.1.10.patch", include_bytes!("../../patches/tilelang/hip-fp8-0.1.10.patch")),
    ("tilelang/hip-fp8-0.1.14.patch", include_bytes!("../../patches/tilelang/hip-fp8-0.1.14.patch")),
];

/// The text of an embedded recipe.
#[must_use]
pub fn recipe(name: &str) -> Option<&'static str> {
    RECIPES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// The bytes of an embedded patch.
#[must_use]
pub fn patch(file: &str) -> Option<&'static [u8]> {
    PATCHES.iter().find(|(n, _)| *n == file).map(|(_, bytes)| *bytes)
}
