//! What no patch changes, wherever it comes from: this program's journal, and libraries. Pure.

use anyhow::{Result, anyhow};

use super::plan::JobFile;
use super::target::Ground;
use crate::elf;
use crate::error::{Exit, Hint};
use crate::journal::{OURS, is_ours};

/// Names in patches were judged when they were parsed; but a root, or the link or variable that gives it, may lead into the
/// journal too.
///
/// # Errors
/// A file in the journal, or a stage.
pub(super) fn of_the_journal(file: &JobFile<'_>, ground: &Ground<'_>) -> Result<()> {
    let absolute = file.root.join(file.path.as_path());
    // Directories above site-packages may be called as they like.
    let below = if ground.site_packages.contains(&file.root) { file.path.as_path() } else { &absolute };
    if !is_ours(below) {
        return Ok(());
    }
    let hint = Hint::new("give the directory of the package in the recipe's `roots`");
    Err(anyhow!("can't patch `{}`: it {OURS}", absolute.display()).context(hint).context(Exit::Usage))
}

/// Why a file is not patched, if it is a library or would become one.
pub(super) fn library(before: Option<&[u8]>, after: Option<&[u8]>) -> Option<&'static str> {
    if before.is_some_and(elf::is_elf) {
        return Some(
            "it is a library or program (ELF), whose bytes are never changed: reinstall its package instead",
        );
    }
    after.is_some_and(elf::is_elf).then_some(
        "the patch makes a library or program (ELF) of it, which only a package may bring: install that instead",
    )
}
