//! Words by which lines outside of hunks are told apart. Pure.

/// What stands above a section in the output of diff, svn and bzr.
pub(super) const HEADS: [&[u8]; 6] =
    [b"diff ", b"Index: ", b"=====", b"=== added file ", b"=== modified file ", b"=== removed file "];

/// The first line of a mail in a mailbox, or of a commit in `git log -p`.
pub(super) fn starts_message(line: &[u8]) -> bool {
    line.starts_with(b"From ") || line.starts_with(b"commit ")
}

/// A change that isn't text, in full or only said to be one.
pub(super) fn is_binary(line: &[u8]) -> bool {
    line.starts_with(b"GIT binary patch")
        || (line.starts_with(b"Binary files ") && line.trim_ascii_end().ends_with(b" differ"))
}

/// What a line of git's extended header asks for, if that isn't supported.
pub(super) fn unsupported(text: &[u8]) -> Option<&'static str> {
    const WORDS: [(&[u8], &str); 8] = [
        (b"old mode ", "a change of mode"),
        (b"new mode ", "a change of mode"),
        (b"similarity index ", "a rename or copy"),
        (b"dissimilarity index ", "a rewrite"),
        (b"rename from ", "a rename"),
        (b"rename to ", "a rename"),
        (b"copy from ", "a copy"),
        (b"copy to ", "a copy"),
    ];
    WORDS.iter().find(|(word, _)| text.starts_with(word)).map(|(_, what)| *what)
}
