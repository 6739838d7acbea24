//! Plans the patches of a recipe: picks copies and variants by content. Looks, never writes.

use anyhow::{Context as _, Result, anyhow};

use super::lint::{Linted, Origin, lint};
use super::parse::{FilePatch, Strip, parse};
use super::plan::{Files, Job, JobFile, Options, Planned, run};
use super::read::Found;
use super::report::{PatchReport, State};
use super::sha::Sha256;
use super::target::{Ground, TargetCopy, copies, expanded};
use crate::error::{Exit, Hint};
use crate::model::{Distribution, RelPath, normalised};
use crate::recipe::when::version_matches;
use crate::recipe::{KnownState, Patch, Recipe, SecondCopy, Variant};

/// Plans the patches of a recipe. `bytes` gives the content of a patch file by the name in the recipe.
///
/// # Errors
/// A name that is no patch of the recipe, a patch file that can't be had or is refused by the lint, I/O errors.
pub fn of_recipe(
    recipe: &Recipe,
    bytes: &dyn Fn(&str) -> Result<Vec<u8>>,
    origin: Origin,
    ground: &Ground<'_>,
    options: &Options<'_>,
) -> Result<Planned> {
    let selected = select(recipe, options.names)?;
    let mut texts = Vec::new();
    for patch in &selected {
        for variant in &patch.variant {
            let file =
                variant.file.as_ref().or(patch.file.as_ref()).context("a variant without a patch file")?;
            texts.push((file, bytes(file)?));
        }
    }
    let mut linted: Vec<Linted<'_>> = Vec::new();
    for (file, text) in &texts {
        linted.push(unusable(lint(text, origin), file)?);
    }
    let mut parsed: Vec<Vec<FilePatch<'_>>> = Vec::new();
    let variants = selected.iter().flat_map(|p| p.variant.iter().map(move |v| (*p, v)));
    for ((patch, variant), (linted, (file, _))) in variants.zip(linted.iter().zip(&texts)) {
        let files = unusable(parse(linted, Strip::Exactly(patch.strip)), file)?;
        let same = files.len() == variant.files.len()
            && files
                .iter()
                .all(|f| variant.files.iter().any(|v| f.path.as_path().as_os_str() == v.path.as_str()));
        if !same {
            let text = "the recipe's `files` are not those that the patch changes";
            return Err(anyhow!(text).context(Exit::Usage).context(format!("can't use `{file}`")));
        }
        parsed.push(files);
    }
    let mut files = Files::default();
    let mut jobs = Vec::new();
    let mut rest = parsed.as_slice();
    for patch in selected {
        let (mine, others) = rest.split_at(patch.variant.len());
        rest = others;
        jobs.push(job(patch, mine, ground, options, &mut files)?);
    }
    run(jobs, files, ground, options)
}

fn unusable<T>(result: Result<T, super::lint::Mistake>, file: &str) -> Result<T> {
    result.map_err(|mistake| {
        anyhow::Error::new(mistake).context(Exit::Usage).context(format!("can't use `{file}`"))
    })
}

fn select<'r>(recipe: &'r Recipe, names: &[String]) -> Result<Vec<&'r Patch>> {
    for name in names {
        if !recipe.patch.iter().any(|p| normalised(&p.name) == normalised(name)) {
            let known: Vec<&str> = recipe.patch.iter().map(|p| p.name.as_str()).collect();
            return Err(anyhow!("recipe {} has no patch `{name}`", recipe.name)
                .context(Hint::new(format!("its patches are: {}", known.join(", "))))
                .context(Exit::Usage));
        }
    }
    let wanted = |p: &&Patch| names.is_empty() || names.iter().any(|n| normalised(n) == normalised(&p.name));
    Ok(recipe.patch.iter().filter(wanted).collect())
}

fn job<'p>(
    patch: &Patch,
    variants: &'p [Vec<FilePatch<'p>>],
    ground: &Ground<'_>,
    options: &Options<'_>,
    files: &mut Files,
) -> Result<Job<'p>> {
    let mut job = Job {
        report: PatchReport::new(&patch.name, State::Applied),
        knows: true,
        files: Vec::new(),
        advice: String::new(),
        late: None,
    };
    let named = !options.names.is_empty();
    if let Some(why) = patch.when.skipped(&ground.facts) {
        job.report.state = State::Skipped;
        job.report.notes.push(why);
        return Ok(job);
    }
    // Whatever lies at the roots of what isn't installed is somebody else's.
    let Some(installed) = find(patch, ground) else {
        job.report.state = State::NotInstalled;
        job.report.refused = named;
        job.report.notes.push(format!("distribution {} is not installed", patch.target.distribution));
        return Ok(job);
    };
    let copies = copies(&patch.target, ground)?;
    let Some(first) = copies.first() else {
        gone(&mut job, patch, installed);
        return Ok(job);
    };
    job.advice = advice(patch, installed);
    let mut nothing: Option<(State, String)> = None;
    for (n, copy) in copies.iter().enumerate() {
        if n > 0 {
            let which = format!("`{}` is in use", first.directory().display());
            let verb =
                if patch.target.second_copy == SecondCopy::Patch { "patched too" } else { "not patched" };
            job.report.notes.push(format!("{which}; the copy `{}` is {verb}", copy.directory().display()));
            if patch.target.second_copy == SecondCopy::Report {
                continue;
            }
        }
        match pick(patch, variants, copy, ground, files)? {
            Pick::Variant(v) => {
                let (Some(known), Some(parsed)) = (patch.variant.get(v), variants.get(v)) else { continue };
                job.files.extend(job_files(known, parsed, copy, ground));
            }
            Pick::Nothing(state, why) => {
                nothing.get_or_insert((state, why));
            }
        }
    }
    if let (true, Some((state, why))) = (job.files.is_empty(), nothing) {
        job.report.state = state;
        job.report.notes.push(why);
    }
    let cache = patch.stale_cache.iter().find_map(|path| expanded(path, ground.facts.env));
    job.late = cache
        .filter(|c| std::fs::read_dir(c).is_ok_and(|mut entries| entries.next().is_some()))
        .map(|c| format!("`{}` may hold what was made from the unpatched files: empty it", c.display()));
    Ok(job)
}

fn job_files<'p>(
    known: &Variant,
    parsed: &'p [FilePatch<'p>],
    copy: &TargetCopy,
    ground: &Ground<'_>,
) -> Vec<JobFile<'p>> {
    let file = |patch: &'p FilePatch<'p>| {
        let (root, path) = copy.file(&patch.path, ground)?;
        let hashes = known.files.iter().find(|f| patch.path.as_path().as_os_str() == f.path.as_str());
        Some(JobFile {
            root,
            path,
            patch,
            known: hashes.map(crate::recipe::FileHashes::known),
            distribution: copy.distribution.as_ref().map(|d| d.name.clone()),
        })
    };
    parsed.iter().filter_map(file).collect()
}

fn find<'g>(patch: &Patch, ground: &Ground<'g>) -> Option<&'g Distribution> {
    let wanted = normalised(&patch.target.distribution);
    ground.facts.distributions.iter().find(|d| normalised(&d.name) == wanted)
}

/// "Its files are gone" is another thing than "not installed" (patching.md, case 12).
fn gone(job: &mut Job<'_>, patch: &Patch, installed: &Distribution) {
    job.report.state = State::Conflict;
    job.report.refused = true;
    let (name, version) = (&patch.target.distribution, &installed.version);
    let roots = patch.target.roots.join("`, `");
    let text = format!("{name} {version} is installed, but none of its directories is there: `{roots}`");
    job.report.notes.push(text);
}

fn advice(patch: &Patch, installed: &Distribution) -> String {
    let known: Vec<&str> = patch.variant.iter().map(|v| v.versions.as_str()).collect();
    let Distribution { name, version, .. } = installed;
    format!("installed: {name} {version}, the patch is for: {}", known.join("; "))
}

enum Pick {
    Variant(usize),
    Nothing(State, String),
}

/// The variant for a copy: by content; else by version; else the first that fits or is there.
fn pick(
    patch: &Patch,
    variants: &[Vec<FilePatch<'_>>],
    copy: &TargetCopy,
    ground: &Ground<'_>,
    files: &mut Files,
) -> Result<Pick> {
    let mut hash = |path: &str| -> Result<Option<Sha256>> {
        let Some((root, path)) = RelPath::new(path).and_then(|p| copy.file(&p, ground)) else {
            return Ok(None);
        };
        Ok(match files.get(&root, &path)? {
            Found::File(seen) => Some(Sha256::of(&seen.bytes)),
            _ => None,
        })
    };
    let mut best = (0, 0);
    for (v, variant) in patch.variant.iter().enumerate() {
        let mut hits = 0;
        for file in &variant.files {
            let found = hash(&file.path)?;
            hits += usize::from(found.is_some() && (found == file.before || found == file.after));
        }
        if hits > best.0 {
            best = (hits, v);
        }
    }
    if best.0 > 0 {
        return Ok(Pick::Variant(best.1));
    }
    for known in &patch.known {
        if hash(&known.path)? == Some(known.sha256) {
            return Ok(nothing(known.state, &known.versions, copy));
        }
    }
    if let Some(version) = copy.distribution.as_ref().map(|d| d.version.as_str()) {
        let matches = |spec: &Option<String>| spec.as_ref().is_some_and(|s| version_matches(s, version));
        if matches(&patch.not_applicable) {
            return Ok(nothing(KnownState::NotApplicable, version, copy));
        }
        if matches(&patch.fixed_upstream) {
            return Ok(nothing(KnownState::FixedUpstream, version, copy));
        }
        if let Some(v) = patch.variant.iter().position(|v| version_matches(&v.versions, version)) {
            return Ok(Pick::Variant(v));
        }
    }
    // Nobody knows this content or version. The newest variant is the likeliest to fit, so it is tried first.
    for (v, parsed) in variants.iter().enumerate().rev() {
        let mut fits = true;
        for file in parsed {
            let Some((root, path)) = copy.file(&file.path, ground) else { continue };
            let bytes = match files.get(&root, &path)? {
                Found::File(seen) => Some(seen.bytes.as_slice()),
                _ => None,
            };
            let verdict = super::verdict::judge(bytes, file, None);
            fits &= !matches!(verdict, super::verdict::Verdict::Conflict(_));
        }
        if fits {
            return Ok(Pick::Variant(v));
        }
    }
    Ok(Pick::Variant(patch.variant.len().saturating_sub(1)))
}

fn nothing(state: KnownState, version: &str, copy: &TargetCopy) -> Pick {
    let name =
        copy.distribution.as_ref().map_or_else(|| copy.directory().display().to_string(), |d| d.name.clone());
    match state {
        KnownState::NotApplicable => Pick::Nothing(
            State::NotApplicable,
            format!("{name} {version}: there is nothing to patch in this version"),
        ),
        KnownState::FixedUpstream => Pick::Nothing(
            State::FixedUpstream,
            format!("{name} {version} brings the change itself: drop the patch"),
        ),
    }
}
