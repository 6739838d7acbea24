//! Declared dependencies: whether each `Requires-Dist` that applies here is installed and in range.

use std::str::FromStr as _;

use pep440_rs::Version;
use pep508_rs::{MarkerEnvironment, MarkerEnvironmentBuilder, VerbatimUrl, VersionOrUrl};

use super::Verdict;
use super::require::{Judged, called};
use crate::discover::Environment;
use crate::dist;
use crate::model::Distribution;
use crate::python::Interpreter;

/// Whether the dependencies of `dist` are met in `env`. Extras count as not asked for.
pub fn met(dist: &Distribution, env: &Environment) -> Judged {
    let wanted = match dist::requirements(dist) {
        Ok(wanted) => wanted,
        Err(error) => return (Verdict::Unproven, format!("{error:#}")),
    };
    let Some(markers) = env.interpreter.as_ref().and_then(markers) else {
        return (
            Verdict::Unproven,
            "which dependencies apply is for an interpreter to say, and none was asked".into(),
        );
    };
    let (mut broken, mut unclear, mut fine) = (Vec::new(), Vec::new(), 0);
    for text in &wanted {
        let Ok(one) = pep508_rs::Requirement::<VerbatimUrl>::from_str(text) else {
            unclear.push(format!("`{text}` can't be understood"));
            continue;
        };
        if !one.evaluate_markers(&markers, &[]) {
            continue;
        }
        let name = one.name.to_string();
        let Some(installed) = env.distribution(&name) else {
            broken.push(format!("{text}: not installed"));
            continue;
        };
        match (&one.version_or_url, installed.version.parse::<Version>()) {
            (Some(VersionOrUrl::VersionSpecifier(versions)), Ok(version)) if !versions.contains(&version) => {
                broken.push(format!("{text}: {}", called(&installed)));
            }
            (Some(VersionOrUrl::VersionSpecifier(_)), Err(_)) => {
                unclear.push(format!("{text}: {}, whose version can't be compared", called(&installed)));
            }
            _ => fine += 1,
        }
    }
    let own = format!("{} {}", dist.name, dist.version);
    if !broken.is_empty() {
        broken.extend(unclear);
        (Verdict::Fail, format!("{own} wants\n{}", broken.join("\n")))
    } else if unclear.is_empty() {
        (Verdict::Ok, format!("{own}: all {fine} dependencies are met"))
    } else {
        (Verdict::Unproven, format!("{own}:\n{}", unclear.join("\n")))
    }
}

fn markers(interpreter: &Interpreter) -> Option<MarkerEnvironment> {
    let mut parts = interpreter.version.split('.');
    let short = format!("{}.{}", parts.next()?, parts.next()?);
    MarkerEnvironmentBuilder {
        implementation_name: &interpreter.markers.implementation_name,
        implementation_version: &interpreter.markers.implementation_version,
        os_name: "posix",
        platform_machine: &interpreter.machine,
        platform_python_implementation: "CPython",
        platform_release: &interpreter.markers.platform_release,
        platform_system: "Linux",
        platform_version: &interpreter.markers.platform_version,
        python_full_version: &interpreter.version,
        python_version: &short,
        sys_platform: "linux",
    }
    .try_into()
    .ok()
}
