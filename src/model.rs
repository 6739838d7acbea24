//! The nouns: places, entries, changes, plans. No I/O here, only values and their rules.

mod file;
mod path;
mod plan;
mod sdk;
mod version;

pub use file::{Digest, FileId, Meta, Xattr};
pub use path::{RelPath, bytes_path};
pub use plan::{Change, Entry, FileEntry, Place, PlainPatch, Plan, Source};
pub use sdk::{Distribution, Role, Tree, normalised};
pub use version::is_in;
