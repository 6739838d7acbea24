//! The grammar of requirements, one for the command line and for recipes. Pure: text in, a rule or a good error out.
//!
//! ```text
//! NAME SPEC                 pybind11<3.1.0      torch>=2.9,<3
//! NAME+LOCAL                torch+rocm          a part of the local version begins so
//! NAME@COMMIT               triton@f0b55c0      installed from this commit (7 to 40 digits)
//! glibc SPEC                glibc>=2.39         the image's C library
//! glibc(NAME) [SPEC]        glibc(nvidia-resiliency-ext)>=2.39    and what the objects of NAME want of it
//! installed NAME
//! requires-met NAME[EXTRA]  its declared dependencies are there and in range, those of extras too
//! pybind11-internals[(NAME, …)]    all modules were built with the same internals
//! ```

use std::fmt;
use std::str::FromStr;

use pep440_rs::VersionSpecifiers;

/// A requirement as it was written, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub text: String,
    pub rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    Version {
        name: String,
        versions: VersionSpecifiers,
    },
    Local {
        name: String,
        part: String,
    },
    /// Lower-case hexadecimal digits.
    Commit {
        name: String,
        commit: String,
    },
    Glibc {
        versions: VersionSpecifiers,
    },
    GlibcOf {
        name: String,
        versions: Option<VersionSpecifiers>,
    },
    Installed {
        name: String,
    },
    RequiresMet {
        name: String,
        extras: Vec<String>,
    },
    /// No names: every distribution.
    Pybind11Internals {
        names: Vec<String>,
    },
}

/// Why a text is no requirement, and what would be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Requirement {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let rule = rule(text).map_err(|why| RuleError(format!("`{text}` is no requirement: {why}")))?;
        Ok(Self { text: text.to_owned(), rule })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(text.len());
    let (word, rest) = (&text[..end], text[end..].trim_start());
    match word {
        "installed" => return Ok(Rule::Installed { name: name(rest)? }),
        "requires-met" => return requires_met(rest),
        "pybind11-internals" => return internals(rest),
        "glibc" => return glibc(rest),
        _ => {}
    }
    let name = name(word)?;
    if let Some(commit) = rest.strip_prefix('@') {
        let commit = commit.trim().to_ascii_lowercase();
        return if (7..=40).contains(&commit.len()) && commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Rule::Commit { name, commit })
        } else {
            Err(format!("a commit has 7 to 40 hexadecimal digits, not `{commit}`"))
        };
    }
    if let Some(part) = rest.strip_prefix('+') {
        let part = part.trim().to_ascii_lowercase();
        return if !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Rule::Local { name, part })
        } else {
            Err("after `+` comes one word of a local version, as in torch+rocm".into())
        };
    }
    if rest.is_empty() {
        return Err(format!("a version is missing, as in `{name}>=1.0`; `installed {name}` asks for any"));
    }
    Ok(Rule::Version { name, versions: versions(rest)? })
}

fn requires_met(rest: &str) -> Result<Rule, String> {
    let Some((word, inner)) = rest.split_once('[') else {
        return Ok(Rule::RequiresMet { name: name(rest)?, extras: Vec::new() });
    };
    let inner =
        inner.strip_suffix(']').ok_or("extras stand in brackets, as in `requires-met vllm[audio]`")?;
    let extras = inner.split(',').map(|one| name(one.trim())).collect::<Result<_, _>>();
    let extras = extras.map_err(|_| format!("`[{inner}]` names no extras"))?;
    Ok(Rule::RequiresMet { name: name(word.trim_end())?, extras })
}

fn glibc(rest: &str) -> Result<Rule, String> {
    let Some(inner) = rest.strip_prefix('(') else {
        return if rest.is_empty() {
            Err("a version is missing, as in `glibc>=2.39`".into())
        } else {
            Ok(Rule::Glibc { versions: versions(rest)? })
        };
    };
    let (inner, rest) = inner.split_once(')').ok_or("the bracket is not closed")?;
    let rest = rest.trim();
    let versions = (!rest.is_empty()).then(|| versions(rest)).transpose()?;
    Ok(Rule::GlibcOf { name: name(inner.trim())?, versions })
}

fn internals(rest: &str) -> Result<Rule, String> {
    if rest.is_empty() {
        return Ok(Rule::Pybind11Internals { names: Vec::new() });
    }
    let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or("names stand in brackets, as in `pybind11-internals(torch, aiter)`")?;
    let names = inner.split(',').map(|one| name(one.trim())).collect::<Result<_, _>>()?;
    Ok(Rule::Pybind11Internals { names })
}

fn name(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    if plain && ends(text.bytes().next()) && ends(text.bytes().last()) {
        Ok(text.to_owned())
    } else if text.is_empty() {
        Err("the name of a distribution is missing".into())
    } else {
        Err(format!("`{text}` is no name of a distribution"))
    }
}

fn versions(text: &str) -> Result<VersionSpecifiers, String> {
    let bare = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    bare.parse().map_err(|_| format!("`{text}` is no version specifier, such as `>=1.0,<2`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse::<Requirement>().unwrap().rule
    }

    fn specs(text: &str) -> VersionSpecifiers {
        text.parse().unwrap()
    }

    #[test]
    fn each_form_is_understood() {
        let name = "pybind11".to_owned();
        let expected = Rule::Version { name: name.clone(), versions: specs("<3.1.0") };
        for text in ["pybind11<3.1.0", " pybind11 < 3.1.0 ", "pybind11 (<3.1.0)"] {
            assert_eq!(rule(text), expected, "{text}");
        }
        assert_eq!(
            rule("torch>=2.9,<3"),
            Rule::Version { name: "torch".into(), versions: specs(">=2.9,<3") }
        );
        assert_eq!(rule("torch+rocm"), Rule::Local { name: "torch".into(), part: "rocm".into() });
        let commit = "06caa534822c5b980b61733a5d79ac731f9a5f9c";
        let expected = Rule::Commit { name: "torch_memory_saver".into(), commit: commit.into() };
        assert_eq!(rule(&format!("torch_memory_saver@{}", commit.to_uppercase())), expected);
        assert_eq!(rule("glibc >= 2.39"), Rule::Glibc { versions: specs(">=2.39") });
        let of = |versions| Rule::GlibcOf { name: "nvidia-resiliency-ext".into(), versions };
        assert_eq!(rule("glibc(nvidia-resiliency-ext)"), of(None));
        assert_eq!(rule("glibc(nvidia-resiliency-ext)>=2.39"), of(Some(specs(">=2.39"))));
        assert_eq!(rule("installed apex"), Rule::Installed { name: "apex".into() });
        let met = |extras: &[&str]| Rule::RequiresMet {
            name: "torch".into(),
            extras: extras.iter().map(|extra| (*extra).to_owned()).collect(),
        };
        assert_eq!(rule("requires-met torch"), met(&[]));
        assert_eq!(rule("requires-met torch[a, b-c]"), met(&["a", "b-c"]));
        assert_eq!(rule("pybind11-internals"), Rule::Pybind11Internals { names: vec![] });
        let names = vec!["torch".to_owned(), "aiter".to_owned()];
        assert_eq!(rule("pybind11-internals(torch, aiter)"), Rule::Pybind11Internals { names });
        // A distribution whose name begins like a word of the grammar.
        assert_eq!(
            rule("installed-lib>=1"),
            Rule::Version { name: "installed-lib".into(), versions: specs(">=1") }
        );
    }

    #[test]
    fn what_is_no_requirement_says_what_would_be_one() {
        for (text, part) in [
            ("", "the name of a distribution is missing"),
            ("torch", "`installed torch` asks for any"),
            ("torch==", "is no version specifier"),
            ("torch=2", "is no version specifier"),
            ("torch@main", "7 to 40 hexadecimal digits"),
            ("torch@https://x/y", "7 to 40 hexadecimal digits"),
            ("torch+", "as in torch+rocm"),
            ("installed", "name of a distribution is missing"),
            ("installed a b", "`a b` is no name"),
            ("requires-met a[b", "extras stand in brackets"),
            ("requires-met a[]", "`[]` names no extras"),
            ("glibc", "as in `glibc>=2.39`"),
            ("glibc(x", "not closed"),
            ("pybind11-internals torch", "in brackets"),
            ("-x>1", "is no name"),
        ] {
            let error = text.parse::<Requirement>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
