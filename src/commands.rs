//! The table of contents: one short function a subcommand.

use std::io::Write as _;
use std::ops::Range;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::apply::Outcome;
use crate::cli::{self, Cli, Command};
use crate::console::Console;
use crate::dedup::DedupPlan;
use crate::deliver;
use crate::error::{Exit, Hint};
use crate::patch::plan::{Direction, Options, Planned};
use crate::recipe::Recipe;
use crate::report::Report;
use crate::session::Session;
use crate::verbs;
use crate::verbs::check::How;
use crate::verbs::patch::Known;
use crate::verbs::recipe::Loaded;

/// Runs the command line; the exit code is that of the report.
#[must_use]
pub fn main(cli: Cli) -> Exit {
    let console = Console::new(&cli.global);
    let (name, verb): (&str, Verb) = match cli.command {
        Command::Run(args) => ("run", Box::new(move |s, r| run(s, &args, r))),
        Command::Require(args) => ("require", Box::new(move |s, r| require(s, &args, r))),
        Command::Smoke(args) => ("smoke", Box::new(move |s, r| smoke(s, &args, r))),
        Command::Patch(args) => ("patch", Box::new(move |s, r| patch(s, &args, r))),
        Command::Dedup(args) => ("dedup", Box::new(move |s, r| dedup(s, &args, r))),
        Command::Undo(args) => ("undo", Box::new(move |s, r| verbs::undo::undo(s, &args, r))),
        Command::Status(args) => ("status", Box::new(move |s, r| status(s, &args, r))),
        Command::Locate => ("locate", Box::new(|_, _| Ok(()))),
        Command::Recipe { command } => return verbs::recipe::command(&command, &cli.global),
        Command::Completions { shell } => return completions(shell),
        Command::Man => return man(),
    };
    // Such a report can't be delivered: it is told here, and nothing is done.
    let unusable = |error: anyhow::Error| {
        Console::error(&error);
        Exit::Usage
    };
    if let Err(error) = deliver::check(&cli.global) {
        return unusable(error);
    }
    let mut report = Report::new(name, cli.global.dry_run);
    let result = match Session::open(&console, &cli.global, &mut report) {
        Err(error) => Err(error),
        Ok(mut session) => match deliver::check_trees(&cli.global, &session.env.trees) {
            Err(error) => return unusable(error),
            Ok(()) => deliver::try_places(&cli.global).and_then(|()| verb(&mut session, &mut report)),
        },
    };
    if let Err(error) = result {
        report.fail(&error);
    }
    deliver::publish(&mut report, &console, &cli.global)
}

type Verb = Box<dyn FnOnce(&mut Session<'_>, &mut Report) -> anyhow::Result<()>>;

fn dedup(session: &mut Session<'_>, args: &cli::Dedup, report: &mut Report) -> anyhow::Result<()> {
    if !session.has_sdk(report)? {
        return Ok(());
    }
    verbs::patch::widen(session, None)?;
    session.prepare()?;
    let planned = verbs::dedup::plan(session, args, !session.global.dry_run, report)?;
    let plan = planned.plan.clone();
    let outcome = session.commit(report, plan);
    if !session.global.dry_run {
        verbs::dedup::done(&planned, &outcome, &planned.plan, report);
    }
    verbs::dedup::advise(session, report);
    Ok(())
}

fn patch(session: &mut Session<'_>, args: &cli::Patch, report: &mut Report) -> anyhow::Result<()> {
    let mut known = Known::of(session)?;
    let direction = if args.revert { Direction::Revert } else { Direction::Apply };
    let options = Options { direction, allow_drift: args.allow_drift, names: &args.names };
    if !args.list {
        verbs::patch::widen(session, args.recipe.recipe.as_deref())?;
        session.prepare()?;
    }
    if args.revert {
        known.recall(session)?;
    }
    let mut loaded = None;
    let mut planned = match &args.from {
        Some(dir) => verbs::patch::of_folder(session, &known, args, dir, &options, report)?,
        None => {
            let recipe = loaded.insert(load(args.recipe.recipe.as_deref(), report)?);
            verbs::patch::of_recipe(session, &known, recipe, &options, report)?
        }
    };
    let plan = std::mem::take(&mut planned.plan);
    let changes = 0..plan.changes.len();
    let outcome = if args.list { Outcome::default() } else { session.commit(report, plan) };
    let made = !args.list && all_made(session, &planned, &outcome, changes);
    verbs::patch::done(planned, &outcome, made, direction, report);
    verbs::patch::insist(&args.names, report);
    if let Some(loaded) = loaded {
        allow(session, &loaded, report);
    }
    Ok(())
}

fn require(session: &mut Session<'_>, args: &cli::Require, report: &mut Report) -> anyhow::Result<()> {
    if !args.rules.is_empty() {
        return verbs::check::require_rules(session, &args.rules, report);
    }
    let loaded = load(args.recipe.recipe.as_deref(), report)?;
    verbs::check::require_recipe(session, &Known::of(session)?, &loaded.recipe, report)?;
    allow(session, &loaded, report);
    Ok(())
}

fn smoke(session: &mut Session<'_>, args: &cli::Smoke, report: &mut Report) -> anyhow::Result<()> {
    let loaded = load(args.recipe.recipe.as_deref(), report)?;
    let how = How::from(args);
    if args.libraries {
        verbs::check::libraries(session, &loaded.recipe, &how, report)?;
    }
    if !args.modules.is_empty() {
        verbs::check::smoke_modules(session, &loaded.recipe, &args.modules, &how, report)?;
    } else if !args.libraries {
        verbs::check::smoke_recipe(session, &Known::of(session)?, &loaded.recipe, &how, report)?;
    }
    allow(session, &loaded, report);
    Ok(())
}

/// All that a recipe says: one plan, one journal entry, one report.
fn run(session: &mut Session<'_>, args: &cli::Run, report: &mut Report) -> anyhow::Result<()> {
    let loaded = load(args.recipe.recipe.as_deref(), report)?;
    let recipe = &loaded.recipe;
    let known = Known::of(session)?;
    verbs::patch::widen(session, Some(&loaded.name))?;
    session.prepare()?;
    let merge = recipe.dedup.enabled && !skips(session, "dedup", report) && session.has_sdk(report)?;
    let merging = dedup_options(&args.dedup, recipe);
    let deduped = if merge {
        verbs::dedup::plan(session, &merging, !session.global.dry_run, report)?
    } else {
        DedupPlan::default()
    };
    let options = Options { direction: Direction::Apply, allow_drift: args.allow_drift, names: &[] };
    let patched = if skips(session, "patch", report) {
        Ok(Planned::default())
    } else {
        verbs::patch::of_recipe(session, &known, &loaded, &options, report)
    };
    if patched.is_err() && merge && !session.global.dry_run {
        // Nothing will be made of what was planned and told so far.
        verbs::dedup::done(&deduped, &Outcome::default(), &deduped.plan, report);
    }
    let mut patched = patched?;
    let mut plan = deduped.plan.clone();
    plan.append(std::mem::take(&mut patched.plan));
    let outcome = session.commit(report, plan.clone());
    if merge && !session.global.dry_run {
        verbs::dedup::done(&deduped, &outcome, &plan, report);
    }
    let first = deduped.plan.changes.len();
    let made = all_made(session, &patched, &outcome, first..plan.changes.len());
    verbs::patch::done(patched, &outcome, made, Direction::Apply, report);
    verbs::dedup::advise(session, report);
    if !skips(session, "require", report) {
        verbs::check::require_recipe(session, &known, recipe, report)?;
    }
    if !session.global.no_allow {
        verbs::recipe::mark_all(&loaded, report);
    }
    if (report.refused() || report.error.is_some()) && !args.keep_going {
        verbs::check::not_run(recipe, report);
    } else if !skips(session, "smoke", report) {
        let how = How { gpu_optional: args.gpu_optional, ..How::default() };
        verbs::check::smoke_recipe(session, &known, recipe, &how, report)?;
        let unmade = verbs::again::unmade(&plan, &outcome);
        verbs::again::look(session, &merging, args.allow_drift, &loaded, &unmade, report)
            .context("can't look at the image again after its import checks")?;
    }
    allow(session, &loaded, report);
    Ok(())
}

/// Looks at everything that the other verbs would do, and does none of it.
fn status(session: &mut Session<'_>, args: &cli::Status, report: &mut Report) -> anyhow::Result<()> {
    let remembered = session.remembered_recipe();
    let named = args.recipe.recipe.clone().or(remembered);
    let gone = |error: anyhow::Error| match args.recipe.recipe {
        None => {
            error.context(Hint::new("the last run used it: name its place, or another recipe, with --recipe"))
        }
        Some(_) => error,
    };
    let loaded = load(named.as_deref(), report).map_err(gone)?;
    verbs::patch::widen(session, args.recipe.recipe.as_deref())?;
    verbs::undo::recorded(session, report)?;
    let sdk = session.has_sdk(report)?;
    let recipe = &loaded.recipe;
    if recipe.dedup.enabled && !skips(session, "dedup", report) && sdk {
        verbs::dedup::plan(session, &dedup_options(&cli::Dedup::default(), recipe), false, report)?;
    }
    let known = Known::of(session)?;
    let options = Options { direction: Direction::Apply, allow_drift: false, names: &[] };
    let patched = verbs::patch::of_recipe(session, &known, &loaded, &options, report)?;
    report.patches = patched.patches;
    verbs::check::require_recipe(session, &known, recipe, report)?;
    verbs::dedup::advise(session, report);
    verbs::patch::recorded(session, report)?;
    allow(session, &loaded, report);
    Ok(())
}

/// Patches are all made or none: whether these are.
fn all_made(session: &Session<'_>, planned: &Planned, outcome: &Outcome, mut changes: Range<usize>) -> bool {
    !(session.global.dry_run || planned.refused) && changes.all(|index| outcome.made.contains(&index))
}

fn load(named: Option<&str>, report: &mut Report) -> anyhow::Result<Loaded> {
    let loaded = Loaded::load(named)?;
    report.recipe = Some(loaded.name.clone());
    Ok(loaded)
}

fn allow(session: &Session<'_>, loaded: &Loaded, report: &mut Report) {
    if !session.global.no_allow {
        verbs::recipe::allow(loaded, report);
    }
}

/// Whether `--skip` leaves out a whole step.
fn skips(session: &Session<'_>, step: &str, report: &mut Report) -> bool {
    let skipped = session.global.skip.iter().any(|name| name == step);
    if skipped {
        report.skipped.push(step.to_owned());
    }
    skipped
}

/// What the command line says, over what the recipe says.
fn dedup_options(args: &cli::Dedup, recipe: &Recipe) -> cli::Dedup {
    cli::Dedup {
        device_links: args.device_links || recipe.dedup.device_links,
        keep_hard_links: args.keep_hard_links || recipe.dedup.keep_hard_links,
    }
}

fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rocm-fixup", &mut script);
    to_stdout(&script)
}

/// One page: the program, then each subcommand.
fn man() -> Exit {
    let mut page = Vec::new();
    let command = Cli::command();
    let mut rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let named = sub.clone().name(format!("rocm-fixup-{}", sub.get_name()));
        let man = clap_mangen::Man::new(named);
        let _ = writeln!(page, ".SH \"{}\"", sub.get_name().to_uppercase());
        rendered = rendered
            .and_then(|()| man.render_description_section(&mut page))
            .and_then(|()| man.render_options_section(&mut page));
    }
    match rendered {
        Ok(()) => to_stdout(&page),
        Err(_) => Exit::Failed,
    }
}

fn to_stdout(bytes: &[u8]) -> Exit {
    match Console::result(&String::from_utf8_lossy(bytes)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            Console::error(&anyhow::Error::new(error).context("can't write to stdout"));
            Exit::Failed
        }
    }
}
