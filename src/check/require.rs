//! Whether a requirement holds: looks at dist-info and at headers of installed objects. Never imports anything.
//! "Cannot prove" is a verdict of its own, and not ok.

use std::time::Instant;

use pep440_rs::{Version, VersionSpecifiers};

use super::rule::{Requirement, Rule};
use super::{CheckResult, Kind, Verdict, objects, requires};
use crate::discover::Environment;
use crate::dist;
use crate::error::message;
use crate::model::{Distribution, is_in};

/// A verdict and the sentence behind it.
pub(super) type Judged = (Verdict, String);

/// Judges one requirement; never fails as such: what can't be read is unproven.
#[must_use]
pub fn require(requirement: &Requirement, env: &Environment) -> CheckResult {
    let began = Instant::now();
    let (verdict, detail) = match &requirement.rule {
        Rule::Version { name, versions } => with(env, name, |dist| version(dist, versions)),
        Rule::Local { name, part } => with(env, name, |dist| local(dist, part)),
        Rule::Commit { name, commit } => with(env, name, |dist| from_commit(dist, commit)),
        Rule::Installed { name } => with(env, name, |dist| (Verdict::Ok, called(dist))),
        Rule::RequiresMet { name, extras } => with(env, name, |dist| requires::met(dist, extras, env)),
        Rule::Glibc { versions } => glibc(env.glibc.as_deref(), versions),
        Rule::GlibcOf { name, versions } => with(env, name, |dist| glibc_of(dist, versions.as_ref(), env)),
        Rule::Pybind11Internals { names } => objects::internals(names, env),
    };
    let mut result = CheckResult::new(&requirement.text, Kind::Require, verdict, detail);
    result.seconds = began.elapsed().as_secs_f64();
    result
}

fn with(env: &Environment, name: &str, judge: impl FnOnce(&Distribution) -> Judged) -> Judged {
    match env.distribution(name) {
        Ok(Some(dist)) => judge(&dist),
        Ok(None) => (Verdict::Absent, format!("{name} is not installed")),
        Err(why) => (Verdict::Unproven, why),
    }
}

pub(super) fn called(dist: &Distribution) -> String {
    format!("{} is installed", titled(dist))
}

/// Name and version; a broken or old package may name none.
pub(super) fn titled(dist: &Distribution) -> String {
    let version = if dist.version.is_empty() { "of unknown version" } else { &dist.version };
    format!("{} {version}", dist.name)
}

fn version(dist: &Distribution, versions: &VersionSpecifiers) -> Judged {
    match dist.version.parse::<Version>() {
        Ok(version) if is_in(&version, versions) => (Verdict::Ok, called(dist)),
        Ok(_) => (Verdict::Fail, format!("{}, not {versions}", called(dist))),
        Err(_) => (Verdict::Unproven, format!("{}, whose version can't be compared", called(dist))),
    }
}

/// The parts of a local version: `rocm7.0.git1234567` of `2.9.0+rocm7.0.git1234567`.
fn local_parts(version: &str) -> Vec<String> {
    let local = version.split_once('+').map(|(_, local)| local.to_ascii_lowercase()).unwrap_or_default();
    local.split(['.', '-', '_']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn local(dist: &Distribution, wanted: &str) -> Judged {
    let parts = local_parts(&dist.version);
    if parts.iter().any(|part| part.starts_with(wanted)) {
        (Verdict::Ok, called(dist))
    } else if parts.is_empty() {
        (Verdict::Fail, format!("{}, which has no local version; +{wanted}… was wanted", called(dist)))
    } else {
        (Verdict::Fail, format!("{}; +{wanted}… was wanted", called(dist)))
    }
}

/// The commit by `direct_url.json`, else by the local version as Triton and PyTorch carry it (`git1234567`, or
/// `g1234567` by setuptools-scm).
fn from_commit(dist: &Distribution, wanted: &str) -> Judged {
    let direct = match dist::direct_url(dist) {
        Ok(direct) => direct,
        Err(error) => return (Verdict::Unproven, format!("{}: {}", called(dist), message(&error))),
    };
    if let Some(vcs) =
        direct.as_ref().and_then(|direct| direct.vcs_info.as_ref()).filter(|v| !v.commit_id.is_empty())
    {
        let found = vcs.commit_id.to_ascii_lowercase();
        let detail = format!("{} from commit {found}", called(dist));
        return if found.starts_with(wanted) { (Verdict::Ok, detail) } else { (Verdict::Fail, detail) };
    }
    let hash = local_parts(&dist.version).into_iter().find_map(|part| {
        let hash = part.strip_prefix("git").or_else(|| part.strip_prefix('g'))?.to_owned();
        (hash.len() >= 7 && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some(hash)
    });
    match (hash, direct) {
        (Some(hash), _) if wanted.starts_with(&hash) || hash.starts_with(wanted) => {
            (Verdict::Ok, format!("{}, whose version names commit {hash}", called(dist)))
        }
        (Some(hash), _) => (Verdict::Fail, format!("{}, whose version names commit {hash}", called(dist))),
        (None, Some(direct)) => {
            (Verdict::Unproven, format!("{} from {}, which names no commit", called(dist), direct.url))
        }
        (None, None) => (
            Verdict::Unproven,
            format!("{}, and neither direct_url.json nor its version names a commit", called(dist)),
        ),
    }
}

fn glibc(found: Option<&str>, versions: &VersionSpecifiers) -> Judged {
    let Some(text) = found else {
        return (Verdict::Unproven, "no glibc was found".into());
    };
    match text.parse::<Version>() {
        Ok(version) if is_in(&version, versions) => (Verdict::Ok, format!("the image has glibc {text}")),
        Ok(_) => (Verdict::Fail, format!("the image has glibc {text}, not {versions}")),
        Err(_) => (Verdict::Unproven, format!("the image has glibc {text}, which can't be compared")),
    }
}

/// The image's glibc is in range, and no object of the distribution wants a newer one (wheel tags are sometimes wrong).
fn glibc_of(dist: &Distribution, versions: Option<&VersionSpecifiers>, env: &Environment) -> Judged {
    if let Some(versions) = versions {
        let (verdict, detail) = glibc(env.glibc.as_deref(), versions);
        if verdict != Verdict::Ok {
            return (verdict, format!("{}; {detail}", called(dist)));
        }
    }
    objects::glibc_needs(dist, env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dist(version: &str) -> Distribution {
        Distribution {
            name: "torch".into(),
            version: version.into(),
            dist_info: "/nowhere/torch.dist-info".into(),
            site_packages: "/nowhere".into(),
        }
    }

    fn verdict(judged: Judged) -> Verdict {
        judged.0
    }

    #[test]
    fn versions_are_compared_as_pep_440_says() {
        let check = |installed: &str, spec: &str| verdict(version(&dist(installed), &spec.parse().unwrap()));
        assert_eq!(check("3.0.4", "<3.1.0"), Verdict::Ok);
        assert_eq!(check("3.1.0", "<3.1.0"), Verdict::Fail);
        assert_eq!(check("3.1.0rc1", "<3.1.0"), Verdict::Fail);
        assert_eq!(check("2.9.0+rocm7.0", "==2.9.0"), Verdict::Ok);
        assert_eq!(check("3.10.0", ">=3.9"), Verdict::Ok);
        assert_eq!(check("1.0a1", "<1.0a2"), Verdict::Ok);
        assert_eq!(check("1", "==1.1.*"), Verdict::Fail);
        assert_eq!(check("unknown", ">=1"), Verdict::Unproven);
    }

    #[test]
    fn a_local_version_is_looked_at_by_its_parts() {
        assert_eq!(verdict(local(&dist("2.9.0+rocm7.0"), "rocm")), Verdict::Ok);
        assert_eq!(verdict(local(&dist("2.9.0a0+gitabc1234.ROCm710"), "rocm")), Verdict::Ok);
        assert_eq!(verdict(local(&dist("2.9.0+cu128"), "rocm")), Verdict::Fail);
        assert_eq!(verdict(local(&dist("2.9.0"), "rocm")), Verdict::Fail);
        assert_eq!(verdict(local(&dist("2.9.0+microcm"), "rocm")), Verdict::Fail);
    }

    #[test]
    fn a_commit_is_proven_by_the_version_or_not_at_all() {
        let full = "f0b55c0a1b2c3d4e5f60718293a4b5c6d7e8f901";
        assert_eq!(verdict(from_commit(&dist("3.7.0+gitf0b55c0a"), full)), Verdict::Ok);
        assert_eq!(verdict(from_commit(&dist("3.7.0+rocm7.2.gitf0b55c0a"), "f0b55c0")), Verdict::Ok);
        assert_eq!(verdict(from_commit(&dist("3.7.0.post1+gf0b55c0.d20260101"), full)), Verdict::Ok);
        assert_eq!(verdict(from_commit(&dist("3.7.0+git1234567"), full)), Verdict::Fail);
        assert_eq!(verdict(from_commit(&dist("3.7.0+gitf0b"), full)), Verdict::Unproven);
        assert_eq!(verdict(from_commit(&dist("3.7.0"), full)), Verdict::Unproven);
    }

    #[test]
    fn no_glibc_proves_nothing() {
        let spec = ">=2.39".parse().unwrap();
        assert_eq!(verdict(glibc(Some("2.39"), &spec)), Verdict::Ok);
        assert_eq!(verdict(glibc(Some("2.4"), &spec)), Verdict::Fail);
        assert_eq!(verdict(glibc(None, &spec)), Verdict::Unproven);
    }
}
