//! Declared dependencies: whether each `Requires-Dist` that applies here is installed and in range.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use pep440_rs::Version;
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, VerbatimUrl, VersionOrUrl};

use super::Verdict;
use super::require::{Judged, called, titled};
use crate::discover::Environment;
use crate::dist;
use crate::error::message;
use crate::model::{Distribution, is_in, normalised};
use crate::python::Interpreter;

/// Whether the dependencies of `dist` are met in `env`, with those of the named extras, and those of the extras that a
/// dependency asks for (`uvicorn[standard]`).
pub fn met(dist: &Distribution, extras: &[String], env: &Environment) -> Judged {
    let Some(markers) = env.interpreter.as_ref().and_then(markers) else {
        return (
            Verdict::Unproven,
            "which dependencies apply is for an interpreter to say, and none was asked".into(),
        );
    };
    let own = titled(dist);
    let known = match dist::extras(dist) {
        Ok(known) => known,
        Err(error) => return (Verdict::Unproven, format!("{own}: {}", message(&error))),
    };
    let is = |one: &str, other: &str| normalised(one) == normalised(other);
    if let Some(none) = extras.iter().find(|extra| !known.iter().any(|known| is(known, extra))) {
        return (Verdict::Fail, format!("{own} has no extra `{none}`"));
    }
    let extras: Vec<ExtraName> =
        extras.iter().filter_map(|extra| ExtraName::new(extra.clone()).ok()).collect();
    let mut found = Found::default();
    let mut asked: BTreeSet<(String, ExtraName)> = BTreeSet::new();
    let mut todo = vec![(dist.clone(), extras, false)];
    while let Some((dist, extras, only_extras)) = todo.pop() {
        for (one, installed) in found.look(&dist, &extras, only_extras, &markers, env) {
            let new = |extra: &ExtraName| asked.insert((normalised(&installed.name), extra.clone()));
            let new: Vec<ExtraName> = one.extras.into_iter().filter(new).collect();
            if !new.is_empty() {
                todo.push((installed, new, true));
            }
        }
    }
    let Found { mut broken, unclear, fine } = found;
    if !broken.is_empty() {
        broken.extend(unclear);
        (Verdict::Fail, format!("{own} wants\n{}", broken.join("\n")))
    } else if unclear.is_empty() {
        (Verdict::Ok, format!("{own}: all {fine} dependencies are met"))
    } else {
        (Verdict::Unproven, format!("{own}:\n{}", unclear.join("\n")))
    }
}

type Wanted = pep508_rs::Requirement<VerbatimUrl>;

#[derive(Default)]
struct Found {
    broken: Vec<String>,
    unclear: Vec<String>,
    fine: u64,
}

impl Found {
    /// Judges the dependencies of one distribution, or only those that its extras add; gives those that are installed.
    fn look(
        &mut self,
        dist: &Distribution,
        extras: &[ExtraName],
        only_extras: bool,
        markers: &MarkerEnvironment,
        env: &Environment,
    ) -> Vec<(Wanted, Distribution)> {
        let wanted = match dist::requirements(dist) {
            Ok(wanted) => wanted,
            Err(error) => {
                self.unclear.push(message(&error));
                return Vec::new();
            }
        };
        let names: Vec<&str> = extras.iter().map(AsRef::as_ref).collect();
        let via =
            if only_extras { format!("{}[{}] wants ", dist.name, names.join(",")) } else { String::new() };
        let mut there = Vec::new();
        for text in wanted {
            let Ok(one) = Wanted::from_str(&text) else {
                self.unclear.push(format!("{via}`{text}` can't be understood"));
                continue;
            };
            if !one.evaluate_markers(markers, extras) || only_extras && one.evaluate_markers(markers, &[]) {
                continue;
            }
            let installed = match env.distribution(one.name.as_ref()) {
                Ok(Some(installed)) => installed,
                Ok(None) => {
                    self.broken.push(format!("{via}{text}: not installed"));
                    continue;
                }
                Err(why) => {
                    self.unclear.push(format!("{via}{text}: {why}"));
                    continue;
                }
            };
            match (&one.version_or_url, installed.version.parse::<Version>()) {
                (Some(VersionOrUrl::VersionSpecifier(versions)), Ok(version))
                    if !is_in(&version, versions) =>
                {
                    self.broken.push(format!("{via}{text}: {}", called(&installed)));
                }
                (Some(VersionOrUrl::VersionSpecifier(_)), Err(_)) => {
                    let text =
                        format!("{via}{text}: {}, whose version can't be compared", called(&installed));
                    self.unclear.push(text);
                }
                _ => self.fine += 1,
            }
            there.push((one, installed));
        }
        there
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
