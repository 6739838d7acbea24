//! Why a copy can't be replaced: what it and the owner's file are besides their bytes, and what a comparison told. No I/O.

use super::decide::Site;
use super::encode::Member;
use super::known::inode;
use super::{Trouble, rights};
use crate::compare::Verdict;
use crate::model::Meta;
use crate::scan::FileRecord;

impl<'a> Site<'a, '_> {
    /// Why the owner's file can't stand for the copy; `None` while it isn't known.
    pub(super) fn refusal(&mut self, member: &Member<'a>) -> Option<Option<(Trouble, String)>> {
        let (file, owner) = (member.file, &member.owner);
        if let Some(reason) = self.mounted(file).or_else(|| self.mounted(owner.file)) {
            return Some(Some(reason));
        }
        let (copy, kept) = (self.meta(file), self.meta(owner.file));
        let (copy, kept) = (copy?, kept?);
        let reason = match (copy, kept) {
            (Err(error), _) | (_, Err(error)) => return Some(Some((Trouble::Unreadable, error))),
            (Ok(copy), Ok(kept)) if inode(file) != inode(owner.file) => rights::refusal(&copy, &kept),
            _ => None,
        };
        let reason = reason.or_else(|| rights::unreachable(self.inventory, &file.place, &owner.at));
        Some(reason.map(|reason| (Trouble::Metadata, reason)))
    }

    /// A link from or to what lies on a mount would lead nowhere where that isn't mounted, as in the finished image.
    pub fn mounted(&self, file: &FileRecord) -> Option<(Trouble, String)> {
        let path = self.inventory.absolute(&file.place);
        let detail =
            || format!("`{}` lies on a mount inside of its tree: unmount that first", path.display());
        file.mounted.then(|| (Trouble::Mounted, detail()))
    }

    /// A file's metadata with its extended attributes; `None` while these aren't known.
    pub fn meta(&mut self, file: &FileRecord) -> Option<Result<Meta, String>> {
        let xattrs = self.known.xattrs(file)?;
        Some(xattrs.map(|xattrs| Meta { xattrs, ..file.meta.clone() }))
    }
}

/// What a verdict other than "equal" means, with `unequal` for other bytes.
pub fn trouble(verdict: &Verdict, unequal: Trouble) -> (Trouble, String) {
    match verdict {
        Verdict::Differ { at: Some(at) } => (unequal, format!("other bytes, for example at offset {at}")),
        Verdict::Differ { at: None } | Verdict::Equal { .. } => (unequal, "another size".into()),
        Verdict::Changed { path } => {
            (Trouble::Changed, format!("`{}` changed while it was read", path.display()))
        }
        Verdict::Unreadable { path, error } => {
            (Trouble::Unreadable, format!("can't read `{}`: {error}", path.display()))
        }
    }
}
