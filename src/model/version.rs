//! Whether a version is in specifiers, as pip and `packaging` judge what is installed: pre-releases count as the versions
//! that they are. pep440_rs reads the texts, but decides otherwise in places: it has no `1.0a1` in `<1.0a2`, and takes
//! `1` for a `1.1.*`. Pure.

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};

/// Whether `version` is in all of `specifiers`, as `SpecifierSet.contains(…, prereleases=True)` says.
#[must_use]
pub fn is_in(version: &Version, specifiers: &VersionSpecifiers) -> bool {
    specifiers.iter().all(|specifier| is_in_one(version, specifier))
}

fn is_in_one(version: &Version, specifier: &VersionSpecifier) -> bool {
    let wanted = specifier.version();
    let public = version.clone().without_local();
    // A local part counts only where one was asked for.
    let same = || if wanted.local().is_empty() { public == *wanted } else { version == wanted };
    match specifier.operator() {
        Operator::Equal => same(),
        Operator::NotEqual => !same(),
        Operator::EqualStar => begins(&public, wanted, wanted.release().len()),
        Operator::NotEqualStar => !begins(&public, wanted, wanted.release().len()),
        Operator::TildeEqual => public >= *wanted && begins(&public, wanted, wanted.release().len() - 1),
        Operator::GreaterThanEqual => public >= *wanted,
        Operator::LessThanEqual => public <= *wanted,
        Operator::LessThan if wanted.any_prerelease() => public < *wanted,
        // No pre-release of the version itself: 3.1rc1 isn't `<3.1`.
        Operator::LessThan => public < wanted.clone().with_dev(Some(0)),
        Operator::GreaterThan if wanted.dev().is_some() || wanted.is_post() => public > *wanted,
        // No post-release of the version itself: 3.1.post1 isn't `>3.1`.
        Operator::GreaterThan => {
            let post = begins(&public, wanted, usize::MAX) && public.pre() == wanted.pre();
            public > *wanted && !post
        }
        // The text, and that is no better told from here.
        Operator::ExactEqual => specifier.contains(version),
    }
}

/// Whether the first `parts` of both releases are the same; what a release doesn't say is 0.
fn begins(version: &Version, wanted: &Version, parts: usize) -> bool {
    let parts = parts.min(version.release().len().max(wanted.release().len()));
    let part = |of: &Version, at: usize| of.release().get(at).copied().unwrap_or(0);
    version.epoch() == wanted.epoch() && (0..parts).all(|at| part(version, at) == part(wanted, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is that of `SpecifierSet(…).contains(…, prereleases=True)` of packaging 26.
    #[test]
    fn versions_are_in_specifiers_as_packaging_says() {
        for (specifiers, inside, outside) in [
            ("<1.0a2", "1.0a1 1.0a1+l 1.0.dev2 1.0a1.post1 0.9", "1.0a2 1.0b1 1.0"),
            ("<1.0rc1", "1.0b1 1.0.dev1 0.9rc1", "1.0rc1 1.0 1.0.post1"),
            ("<1.0.dev2", "1.0.dev1 0.9", "1.0.dev2 1.0a1"),
            ("<1.0", "0.9 0.9a1 0.9+l", "1.0a1 1.0.dev1 1.0rc1+l 1.0 1!0.5"),
            ("<1.0.post1", "1.0 1.0a1 1.0+l", "1.0.post1 1.0.post1.dev1"),
            ("<=1.0", "1.0a1 1.0 1.0+l 1.0.0", "1.0.post1 1.0.1.dev0"),
            (">1.0", "1.0.1 1.1a1 1.0.1.dev0 1!0.5", "1.0 1.0+l 1.0.post1 1.0rc1"),
            (">1.0a1", "1.0a2 1.0 1.0.post1 1.0+l", "1.0a1 1.0a1.post1 1.0a1+l 1.0.dev1"),
            (">1.0.dev1", "1.0.dev2 1.0a1.post1 1.0.post1", "1.0.dev1 1.0.dev1+l 0.9"),
            (">1.0.post1", "1.0.post2 1.1", "1.0.post1 1.0.post1+l 1.0"),
            (">=1.0a1", "1.0a1 1.0a1+l 1.0.post1 1.0", "1.0.dev1 1.0a1.dev1 0.9"),
            ("==1.0", "1.0 1 1.0.0 1.0+l", "1.0a1 1.0.post1 1.0.1 1!1.0"),
            ("==1.0+l", "1.0+l", "1.0 1.0+m"),
            ("!=1.0", "1.0a1 1.0.post1 1.1", "1.0 1.0+l"),
            ("==1.0.*", "1.0a1 1 1.0.7 1.0.post1 1.0.dev1+l", "1.1 0.9 1!1.0"),
            ("==1.1.*", "1.1 1.1.1 1.1a1", "1 1.10 1.0"),
            ("!=1.0.1.*", "1 1.0 1.0.post1 1.1", "1.0.1 1.0.1a1"),
            ("~=1.0", "1.0 1.1a1 1.0.post1 1 1.10", "1.0a1 2.0rc1 2 0.9"),
            ("~=1.0.1", "1.0.1 1.0.2", "1.0.1a1 1.1 1.0"),
            ("~=1.0a1", "1.0a1 1.0b1 1.1.1", "1.0.dev1 2.0rc1"),
            (">=1.0a1,<1.0a2", "1.0a1 1.0a1.post1 1.0a2.dev1", "1.0a2 1.0"),
            ("===1.0", "1.0", "1.0.0 1 1.0+l"),
        ] {
            let read: VersionSpecifiers = specifiers.parse().unwrap();
            for (versions, expected) in [(inside, true), (outside, false)] {
                for version in versions.split_whitespace() {
                    let found = is_in(&version.parse().unwrap(), &read);
                    assert_eq!(found, expected, "{version} in {specifiers}");
                }
            }
        }
    }
}
