//! Recipes by name or file: reading them, what they allow, and `recipe list|show|check`.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use crate::cli;
use crate::console::{self, Console};
use crate::error::{Exit, Hint};
use crate::patch::lint::Origin;
use crate::recipe::{self, Mistake, Recipe, SIZE_CAP, embedded};
use crate::report::{Allowed, Report};
use crate::stat::open_regular;

/// The longest patch file that is read, bytes.
const PATCH_CAP: u64 = 16 << 20;

/// A recipe, and where its patch files are.
pub struct Loaded {
    /// As the user named it, absolute if a file: the journal records it.
    pub name: String,
    pub recipe: Recipe,
    text: String,
    dir: Option<PathBuf>,
}

impl Loaded {
    /// The built-in recipe of that name, else the file; the default where nothing is named.
    ///
    /// # Errors
    /// Exit 2: no such recipe, or mistakes in it.
    pub fn load(named: Option<&str>) -> Result<Self> {
        let name = named.unwrap_or(embedded::DEFAULT);
        if let Some(text) = embedded::recipe(name) {
            let recipe = understood(text, name)?;
            return Ok(Self { name: name.to_owned(), recipe, text: text.to_owned(), dir: None });
        }
        let path = Path::new(name);
        let hint =
            || Hint::new("rocm-fixup recipe list names the built-in ones; else give the path of a file");
        let text = read_text(path).with_context(|| format!("can't read the recipe `{name}`"));
        let text = text.context(Exit::Usage).with_context(hint)?;
        let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let dir = absolute.parent().map(Path::to_path_buf);
        let recipe = understood(&text, name)?;
        Ok(Self { name: absolute.display().to_string(), recipe, text, dir })
    }

    /// The bytes of a patch file that the recipe names: embedded, or beside the recipe.
    ///
    /// # Errors
    /// When it can't be read, or is longer than 16 MiB.
    pub fn patch_file(&self, file: &str) -> Result<Vec<u8>> {
        match &self.dir {
            None => {
                embedded::patch(file).map(<[u8]>::to_vec).ok_or_else(|| anyhow!("`{file}` isn't embedded"))
            }
            Some(dir) => read_patch(&dir.join(file)),
        }
    }

    /// Whether the patches come with the program.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.dir.is_none()
    }

    /// The allowance for a finding of this name that counts today.
    #[must_use]
    pub fn allows(&self, name: &str) -> Option<&recipe::Allow> {
        self.recipe.allow.iter().find(|allow| allow.name == name && !has_run_out(allow))
    }
}

fn has_run_out(allow: &recipe::Allow) -> bool {
    let today = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date();
    let until = allow.until.as_deref().and_then(|until| until.parse::<jiff::civil::Date>().ok());
    until.is_some_and(|until| until < today)
}

/// Marks what the recipe allows, and names allowances that match nothing or have run out.
pub fn allow(loaded: &Loaded, report: &mut Report) {
    for allowance in &loaded.recipe.allow {
        let ended = has_run_out(allowance);
        let state = match (ended, !ended && mark(&allowance.name, report)) {
            (true, _) => "expired",
            (false, true) => "allowed",
            (false, false) => "unused",
        };
        report.allowed.push(Allowed {
            name: allowance.name.clone(),
            reason: allowance.reason.clone(),
            state: state.to_owned(),
        });
    }
}

/// Marks what the recipe allows, and says nothing yet.
pub fn mark_all(loaded: &Loaded, report: &mut Report) {
    for allowance in loaded.recipe.allow.iter().filter(|allow| !has_run_out(allow)) {
        mark(&allowance.name, report);
    }
}

fn mark(name: &str, report: &mut Report) -> bool {
    let mut any = false;
    for check in report.checks.iter_mut().filter(|check| check.name == name && check.found_something()) {
        check.tolerated = true;
        any = true;
    }
    let conflicts = report.dedup.iter_mut().flat_map(|dedup| &mut dedup.conflicts);
    for conflict in conflicts.filter(|conflict| conflict.reason == name) {
        conflict.allowed = true;
        any = true;
    }
    for patch in report.patches.iter_mut().filter(|patch| patch.name == name) {
        any |= patch.refused || patch.allowed;
        patch.allowed |= patch.refused;
        patch.refused = false;
    }
    any
}

/// Reads a patch file.
///
/// # Errors
/// When it can't be read, or is longer than 16 MiB.
pub fn read_patch(path: &Path) -> Result<Vec<u8>> {
    read_capped(path, PATCH_CAP).with_context(|| format!("can't read `{}`", path.display()))
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = read_capped(path, SIZE_CAP as u64)?;
    String::from_utf8(bytes).context("it is not UTF-8")
}

fn read_capped(path: &Path, cap: u64) -> Result<Vec<u8>> {
    let path = path.canonicalize()?;
    let mut bytes = Vec::new();
    open_regular(&path)?.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(anyhow!("it is longer than {} KiB", cap >> 10));
    }
    Ok(bytes)
}

fn understood(text: &str, name: &str) -> Result<Recipe> {
    recipe::read(text).map_err(|mistakes| mistaken(&mistakes, name))
}

fn mistaken(mistakes: &[Mistake], name: &str) -> anyhow::Error {
    let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{name}: {mistake}")).collect();
    anyhow!(lines.join("\n"))
        .context(format!("the recipe `{name}` has {} mistake(s)", mistakes.len()))
        .context(Exit::Usage)
}

/// `recipe list|show|check`.
#[must_use]
pub fn command(command: &cli::Recipe, global: &cli::Global) -> Exit {
    let said = match command {
        cli::Recipe::List => list(global.format == Some(cli::Format::Json)),
        cli::Recipe::Show { name } => embedded::recipe(name).map(str::to_owned).ok_or_else(|| {
            anyhow!("there is no built-in recipe `{name}`")
                .context(Hint::new("rocm-fixup recipe list names them"))
                .context(Exit::Usage)
        }),
        cli::Recipe::Check { file } => check(file),
    };
    match said {
        Ok(text) => match Console::result(&text) {
            Ok(()) => Exit::Done,
            Err(error) => fail(&anyhow::Error::new(error).context("can't write to stdout")),
        },
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> Exit {
    Console::error(error);
    crate::error::exit_of(error)
}

fn check(file: &Path) -> Result<String> {
    let name = file.to_str().ok_or_else(|| anyhow!("the recipe's path `{}` is not UTF-8", file.display()));
    let loaded = Loaded::load(Some(name.context(Exit::Usage)?))?;
    let bytes = |file: &str| loaded.patch_file(file);
    let origin = if loaded.is_embedded() { Origin::Shipped } else { Origin::User };
    let mistakes = recipe::check_patches(&loaded.text, &loaded.recipe, &bytes, origin);
    if !mistakes.is_empty() {
        return Err(mistaken(&mistakes, &file.display().to_string()));
    }
    Ok(format!("{}: ok\n", console::path(file)))
}

fn list(json: bool) -> Result<String> {
    let mut recipes = Vec::new();
    for (name, _) in embedded::RECIPES {
        recipes.push(Loaded::load(Some(name))?.recipe);
    }
    if json {
        return Ok(serde_json::to_string_pretty(&recipes)? + "\n");
    }
    let mut text = String::new();
    for recipe in recipes {
        let default = if recipe.name == embedded::DEFAULT { " (the default)" } else { "" };
        let _ = writeln!(text, "{}{default}: {}", recipe.name, recipe.description);
        let entries = [("patch", recipe.patch.iter().map(|p| (&p.name, &p.reason)).collect::<Vec<_>>())]
            .into_iter()
            .chain([("require", recipe.require.iter().map(|r| (&r.name, &r.reason)).collect())])
            .chain([("smoke", recipe.smoke.iter().map(|s| (&s.name, &s.reason)).collect())]);
        for (kind, entries) in entries {
            for (name, reason) in entries {
                let _ = writeln!(text, "  {kind:<8} {name}: {reason}");
            }
        }
    }
    Ok(text)
}
