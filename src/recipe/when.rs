//! Whether an entry of a recipe applies to an image, and why not. Pure: the facts are given.

use serde::{Deserialize, Serialize};

use crate::model::{Distribution, is_in, normalised};

/// Conditions, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct When {
    /// Distributions that must be installed, with PEP 440 specifiers if need be: `apex`, `triton>=3.7`.
    #[serde(deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "super::OneOrMany"))]
    pub distribution: Vec<String>,
    /// `NAME` (set and not empty), `!NAME`, `NAME=VALUE`, `NAME!=VALUE` (holds also where it isn't set).
    #[serde(deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "super::OneOrMany"))]
    pub env: Vec<String>,
    /// PEP 440 specifiers for the image's glibc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// PEP 440 specifiers for the interpreter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Machine names as `uname -m` has them.
    #[serde(deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "super::OneOrMany"))]
    pub arch: Vec<String>,
}

/// What conditions are about.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub distributions: &'a [Distribution],
    /// Names, normalised, of which can't be told whether they are installed.
    pub unclear: &'a [String],
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub glibc: Option<&'a str>,
    pub python: Option<&'a str>,
    pub arch: &'a str,
}

impl Facts<'_> {
    fn is_unclear(&self, name: &str) -> bool {
        self.unclear.contains(&normalised(name))
    }
}

impl When {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `None` where the entry applies, else the text to show, like
    /// `skipped: distribution apex is not installed`.
    #[must_use]
    pub fn skipped(&self, facts: &Facts<'_>) -> Option<String> {
        self.skipped_where(facts, |rule| {
            let name = split_rule(rule).0;
            let unclear = || format!("whether distribution {name} is installed can't be told");
            let why = distribution_fails(rule, facts)?;
            Some(if facts.is_unclear(name) { unclear() } else { why })
        })
    }

    /// The same for a check, which is made where it can't be told whether a distribution is installed: it tells the truth,
    /// and leaving it out would look like success.
    #[must_use]
    pub fn skipped_check(&self, facts: &Facts<'_>) -> Option<String> {
        self.skipped_where(facts, |rule| {
            if facts.is_unclear(split_rule(rule).0) { None } else { distribution_fails(rule, facts) }
        })
    }

    fn skipped_where(
        &self,
        facts: &Facts<'_>,
        distribution_fails: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let why = self
            .arch
            .first()
            .filter(|_| !self.arch.iter().any(|a| a == facts.arch))
            .map(|_| format!("the machine is {}, not {}", facts.arch, self.arch.join(" or ")))
            .or_else(|| self.env.iter().find_map(|rule| env_fails(rule, facts)))
            .or_else(|| self.distribution.iter().find_map(|rule| distribution_fails(rule)))
            .or_else(|| self.glibc.as_deref().and_then(|spec| version_fails("glibc", spec, facts.glibc)))
            .or_else(|| {
                self.python.as_deref().and_then(|spec| version_fails("Python", spec, facts.python))
            })?;
        Some(format!("skipped: {why}"))
    }
}

fn env_fails(rule: &str, facts: &Facts<'_>) -> Option<String> {
    let value = |name: &str| (facts.env)(name).filter(|v| !v.is_empty());
    if let Some((name, unwanted)) = rule.split_once("!=") {
        return (value(name).as_deref() == Some(unwanted)).then(|| format!("{name}={unwanted}"));
    }
    if let Some((name, wanted)) = rule.split_once('=') {
        return match value(name) {
            Some(found) if found == wanted => None,
            Some(found) => Some(format!("{name}={found}, not {wanted}")),
            None => Some(format!("{name} is not set to {wanted}")),
        };
    }
    match rule.strip_prefix('!') {
        Some(name) => value(name).map(|_| format!("{name} is set")),
        None => value(rule).is_none().then(|| format!("{rule} is not set")),
    }
}

/// A distribution's name and the specifiers after it.
pub(super) fn split_rule(rule: &str) -> (&str, &str) {
    let end = rule.find(|c: char| "<>=!~ ".contains(c)).unwrap_or(rule.len());
    (rule[..end].trim(), rule[end..].trim())
}

fn distribution_fails(rule: &str, facts: &Facts<'_>) -> Option<String> {
    let (name, spec) = split_rule(rule);
    let found = facts.distributions.iter().find(|d| normalised(&d.name) == normalised(name));
    match found {
        None => Some(format!("distribution {name} is not installed")),
        Some(_) if spec.is_empty() => None,
        Some(found) => version_fails(name, spec, Some(&found.version)),
    }
}

fn version_fails(what: &str, spec: &str, found: Option<&str>) -> Option<String> {
    let Some(found) = found else { return Some(format!("the version of {what} is unknown")) };
    (!version_matches(spec, found)).then(|| format!("{what} is {found}, not {spec}"))
}

/// Whether `version` is in `spec`; false where either can't be read (a distribution's version is not ours to judge).
/// Pre-releases count as the versions that they are.
#[must_use]
pub fn version_matches(spec: &str, version: &str) -> bool {
    let (Ok(specs), Ok(version)) =
        (spec.parse::<pep440_rs::VersionSpecifiers>(), version.parse::<pep440_rs::Version>())
    else {
        return false;
    };
    is_in(&version, &specs)
}
