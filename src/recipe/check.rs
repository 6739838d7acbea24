//! Which values of a recipe make sense. Pure; `patches` compares them with the patch files.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::Mistake;
use super::when::{When, split_rule};
use super::{Patch, Recipe, Variant};
use crate::check::Requirement;
use crate::journal::{OURS, is_ours};
use crate::model::RelPath;

/// Checks a recipe whose shape is right; `tree` is the same text with its places.
pub(super) fn check(text: &str, tree: &DeTable<'_>, recipe: &Recipe) -> Vec<Mistake> {
    let mut checker = Checker::new(text, tree);
    checker.name(&["name"], &recipe.name);
    for (n, patch) in recipe.patch.iter().enumerate() {
        checker.patch(n, patch);
    }
    for (n, entry) in recipe.require.iter().enumerate() {
        let at = n.to_string();
        checker.name(&["require", &at, "name"], &entry.name);
        let understood = entry.rule.parse::<Requirement>();
        let place = &["require", &at, "rule"];
        checker.demand(understood.is_ok(), place, || {
            understood.as_ref().err().map_or_else(String::new, ToString::to_string)
        });
        checker.filled(&["require", &at, "reason"], &entry.reason);
        checker.when(&["require", &at, "when"], &entry.when);
    }
    for (n, entry) in recipe.smoke.iter().enumerate() {
        let at = n.to_string();
        checker.name(&["smoke", &at, "name"], &entry.name);
        checker.filled(&["smoke", &at, "reason"], &entry.reason);
        checker.when(&["smoke", &at, "when"], &entry.when);
        for module in std::iter::once(&entry.module).chain(&entry.preload) {
            let good = module.split('.').all(|part| {
                part.chars().all(|c| c.is_alphanumeric() || c == '_')
                    && !part.starts_with(|c: char| c.is_numeric())
                    && !part.is_empty()
            });
            checker.demand(good, &["smoke", &at, "module"], || format!("`{module}` is no name of a module"));
        }
        checker.demand((1..=86_400).contains(&entry.timeout), &["smoke", &at, "timeout"], || {
            "a timeout is between 1 and 86400 seconds".to_owned()
        });
    }
    for (n, entry) in recipe.library.iter().enumerate() {
        checker.filled(&["library", &n.to_string(), "glob"], &entry.glob);
        checker.filled(&["library", &n.to_string(), "reason"], &entry.reason);
    }
    for (n, entry) in recipe.allow.iter().enumerate() {
        let at = n.to_string();
        checker.filled(&["allow", &at, "name"], &entry.name);
        checker.filled(&["allow", &at, "reason"], &entry.reason);
        if let Some(day) = &entry.until {
            checker.demand(day.parse::<jiff::civil::Date>().is_ok(), &["allow", &at, "until"], || {
                format!("`{day}` is no day: write it as 2026-12-31")
            });
        }
    }
    checker.unique("patch", recipe.patch.iter().map(|p| p.name.as_str()));
    let checks = recipe.require.iter().map(|r| r.name.as_str());
    checker.unique("require", checks);
    checker.unique("smoke", recipe.smoke.iter().map(|s| s.name.as_str()));
    checker.mistakes
}

/// Mistakes, each at the place of a key.
pub(super) struct Checker<'t> {
    text: &'t str,
    tree: &'t DeTable<'t>,
    mistakes: Vec<Mistake>,
}

impl<'t> Checker<'t> {
    pub(super) fn new(text: &'t str, tree: &'t DeTable<'t>) -> Self {
        Self { text, tree, mistakes: Vec::new() }
    }

    /// In the order of the text.
    pub(super) fn sorted(mut self) -> Vec<Mistake> {
        self.mistakes.sort();
        self.mistakes.dedup();
        self.mistakes
    }

    fn patch(&mut self, n: usize, patch: &Patch) {
        let at = n.to_string();
        self.name(&["patch", &at, "name"], &patch.name);
        self.filled(&["patch", &at, "reason"], &patch.reason);
        self.when(&["patch", &at, "when"], &patch.when);
        self.filled(&["patch", &at, "target", "distribution"], &patch.target.distribution);
        self.demand(!patch.target.roots.is_empty(), &["patch", &at, "target", "roots"], || {
            "a target needs at least one root".to_owned()
        });
        for (r, root) in patch.target.roots.iter().enumerate() {
            self.demand(good_root(root), &["patch", &at, "target", "roots", &r.to_string()], || {
                format!("`{root}`: a root is a plain relative path, an absolute one, or `$NAME/…`")
            });
            self.demand(
                !is_ours(Path::new(root)),
                &["patch", &at, "target", "roots", &r.to_string()],
                || format!("`{root}` {OURS}"),
            );
        }
        if let Some(marker) = &patch.target.marker {
            self.path(&["patch", &at, "target", "marker"], marker);
        }
        for (key, spec) in
            [("not-applicable", &patch.not_applicable), ("fixed-upstream", &patch.fixed_upstream)]
        {
            if let Some(spec) = spec {
                self.specifiers(&["patch", &at, key], spec);
            }
        }
        self.demand(!patch.variant.is_empty(), &["patch", &at], || "a patch needs a variant".to_owned());
        for (v, variant) in patch.variant.iter().enumerate() {
            self.variant(&at, &v.to_string(), patch, variant);
        }
        for (k, known) in patch.known.iter().enumerate() {
            self.path(&["patch", &at, "known", &k.to_string(), "path"], &known.path);
            self.specifiers(&["patch", &at, "known", &k.to_string(), "versions"], &known.versions);
        }
    }

    fn variant(&mut self, at: &str, v: &str, patch: &Patch, variant: &Variant) {
        self.specifiers(&["patch", at, "variant", v, "versions"], &variant.versions);
        match variant.file.as_ref().or(patch.file.as_ref()) {
            Some(file) => {
                let good = RelPath::new(file).is_some();
                self.demand(good, &["patch", at, "variant", v, "file"], || {
                    format!("`{file}`: a patch file is a plain path below the recipe's directory")
                });
            }
            None => self.mistake(
                &["patch", at, "variant", v],
                "neither the variant nor the patch names a file".into(),
            ),
        }
        let mut paths: Vec<&str> = variant.files.iter().map(|f| f.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let whole = paths.len() == variant.files.len() && !paths.is_empty();
        self.demand(whole, &["patch", at, "variant", v, "files"], || {
            "a variant names each of its files once, and at least one".to_owned()
        });
        for (f, file) in variant.files.iter().enumerate() {
            let place = ["patch", at, "variant", v, "files", &f.to_string()];
            self.path(&[&place[..], &["path"]].concat(), &file.path);
            self.demand(file.before != file.after, &place, || "`before` and `after` must differ".to_owned());
        }
    }

    fn when(&mut self, place: &[&str], when: &When) {
        for rule in &when.distribution {
            let (name, spec) = split_rule(rule);
            self.filled(place, name);
            if !spec.is_empty() {
                self.specifiers(place, spec);
            }
        }
        for spec in [&when.glibc, &when.python].into_iter().flatten() {
            self.specifiers(place, spec);
        }
        for rule in &when.env {
            let name = rule.trim_start_matches('!').split(['=', '!']).next().unwrap_or_default();
            let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            self.demand(good, place, || format!("`{rule}`: write NAME, !NAME, NAME=VALUE or NAME!=VALUE"));
        }
    }

    fn name(&mut self, place: &[&str], name: &str) {
        let good = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        self.demand(good, place, || format!("`{name}`: names are lower-case letters, digits, `-` and `.`"));
    }

    fn filled(&mut self, place: &[&str], text: &str) {
        self.demand(!text.trim().is_empty(), place, || "must not be empty".to_owned());
    }

    fn path(&mut self, place: &[&str], path: &str) {
        self.demand(RelPath::new(path).is_some(), place, || {
            format!("`{path}` is no plain relative path (no `..`, `.`, `//`)")
        });
    }

    fn specifiers(&mut self, place: &[&str], spec: &str) {
        if let Err(error) = spec.parse::<pep440_rs::VersionSpecifiers>() {
            let why = error.to_string().lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
            self.mistake(place, format!("`{spec}` is no version specifier: {why}"));
        }
    }

    fn unique<'n>(&mut self, key: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = std::collections::BTreeSet::new();
        for (n, name) in names.enumerate() {
            let new = seen.insert(crate::model::normalised(name));
            self.demand(new, &[key, &n.to_string(), "name"], || format!("the name `{name}` is there twice"));
        }
    }

    fn demand(&mut self, good: bool, place: &[&str], text: impl FnOnce() -> String) {
        if !good {
            self.mistake(place, text());
        }
    }

    pub(super) fn mistake(&mut self, place: &[&str], text: String) {
        self.mistakes.push(Mistake::at(self.text, span(self.tree, place), text));
    }
}

fn good_root(root: &str) -> bool {
    match root.strip_prefix('$') {
        Some(rest) => {
            let (name, path) = rest.split_once('/').unwrap_or((rest, "x"));
            !name.is_empty() && RelPath::new(path).is_some()
        }
        None => RelPath::new(root.strip_prefix('/').unwrap_or(root)).is_some(),
    }
}

/// The place of a value, or of the nearest table around it that is there.
fn span(tree: &DeTable<'_>, place: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = place.split_first()?;
    let mut value: &Spanned<DeValue<'_>> = tree.get(*first)?;
    for key in rest {
        let next = match value.get_ref() {
            DeValue::Table(table) => table.get(*key),
            DeValue::Array(items) => key.parse().ok().and_then(|n: usize| items.get(n)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    Some(value.span())
}
