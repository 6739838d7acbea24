//! The table of contents: one short function a subcommand, and the way of a report to its readers.

use std::io::Write as _;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::cli::{self, Cli, Command, Format, Global, Output};
use crate::console::{self, Console};
use crate::apply::Outcome;
use crate::error::Exit;
use crate::fsops;
use crate::patch::plan::{Direction, Options};
use crate::report::{Report, github, human, json};
use crate::session::{Session, run_ref};
use crate::verbs;
use crate::verbs::patch::Known;
use crate::verbs::recipe::Loaded;

/// Runs the command line; the exit code is that of the report.
#[must_use]
pub fn main(cli: Cli) -> Exit {
    let console = Console::new(&cli.global);
    let (name, verb): (&str, Verb) = match cli.command {
        Command::Patch(args) => ("patch", Box::new(move |s, r| patch(s, &args, r))),
        Command::Dedup(args) => ("dedup", Box::new(move |s, r| dedup(s, &args, r))),
        Command::Undo(args) => ("undo", Box::new(move |s, r| verbs::undo::undo(s, &args, r))),
        Command::Status(args) => ("status", Box::new(move |s, r| status(s, &args, r))),
        Command::Locate => ("locate", Box::new(|_, _| Ok(()))),
        Command::Recipe { command } => return verbs::recipe::command(&command, &cli.global),
        Command::Completions { shell } => return completions(shell),
        Command::Man => return man(),
        _ => return Exit::Usage,
    };
    let mut report = Report::new(name, cli.global.dry_run);
    let result =
        Session::open(&console, &cli.global, &mut report).and_then(|mut s| verb(&mut s, &mut report));
    if let Err(error) = result {
        report.fail(&error);
    }
    publish(&mut report, &console, &cli.global)
}

type Verb = Box<dyn FnOnce(&mut Session<'_>, &mut Report) -> anyhow::Result<()>>;

fn dedup(session: &mut Session<'_>, args: &cli::Dedup, report: &mut Report) -> anyhow::Result<()> {
    if !session.has_sdk(report)? {
        return Ok(());
    }
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
    let known = Known::of(session);
    let direction = if args.revert { Direction::Revert } else { Direction::Apply };
    let options = Options { direction, allow_drift: args.allow_drift, names: &args.names };
    if !args.list {
        session.prepare()?;
    }
    let mut loaded = None;
    let mut planned = match &args.from {
        Some(dir) => verbs::patch::of_folder(session, &known, args, dir, &options)?,
        None => {
            let recipe = loaded.insert(Loaded::load(args.recipe.recipe.as_deref())?);
            report.recipe = Some(recipe.name.clone());
            verbs::patch::of_recipe(session, &known, recipe, &options, report)?
        }
    };
    let refused = planned.refused;
    let plan = std::mem::take(&mut planned.plan);
    let outcome = if args.list { Outcome::default() } else { session.commit(report, plan) };
    let made = !(args.list || session.global.dry_run || refused || report.error.is_some())
        && outcome.refused.is_empty();
    verbs::patch::done(planned, &outcome, made, direction, report);
    verbs::patch::insist(&args.names, report);
    if let Some(loaded) = loaded.filter(|_| !session.global.no_allow) {
        verbs::recipe::allow(&loaded, report);
    }
    Ok(())
}

/// Looks at everything that the other verbs would do, and does none of it.
fn status(session: &mut Session<'_>, _args: &cli::Status, report: &mut Report) -> anyhow::Result<()> {
    let journals = session.journals()?;
    report.runs = session.runs(&journals)?.iter().map(|(_, run)| run_ref(&run.record, run)).collect();
    if session.has_sdk(report)? {
        verbs::dedup::plan(session, &cli::Dedup::default(), false, report)?;
    }
    verbs::dedup::advise(session, report);
    Ok(())
}

/// The exit code is settled first; then every format says the same.
fn publish(report: &mut Report, console: &Console, global: &Global) -> Exit {
    let mut exit = report.exit();
    report.exit_code = exit as u8;
    let default = [Output { format: global.format.unwrap_or(Format::Human), file: None }];
    let outputs = if global.output.is_empty() { &default[..] } else { &global.output };
    for output in outputs {
        if let Err(error) = deliver(report, output, console, global) {
            Console::error(&error.context("can't deliver the report"));
            exit = if exit == Exit::Done { Exit::Failed } else { exit };
        }
    }
    if let Some(trouble) = &report.error {
        console.trouble(&trouble.message, trouble.hint.as_deref());
    }
    exit
}

fn deliver(report: &Report, output: &Output, console: &Console, global: &Global) -> anyhow::Result<()> {
    if output.format == Format::Github {
        return to_github(report, output, console);
    }
    let text = match output.format {
        Format::Human if global.quiet && output.file.is_none() => return Ok(()),
        Format::Json => json::render(report)?,
        _ => human::render(
            report,
            human::Look {
                no_truncate: global.no_truncate,
                verbose: global.verbose > 0,
                width: Console::width().filter(|_| output.file.is_none()),
                alone: output.file.is_some(),
            },
        ),
    };
    match &output.file {
        None => Console::result(&text).context("can't write to stdout"),
        Some(file) => {
            let text = if output.format == Format::Human { console::plain(&text) } else { text };
            fsops::write_report(file, text.as_bytes())
                .with_context(|| format!("can't write `{}`", file.display()))
        }
    }
}

/// Annotations go to stdout, where the runner reads them; the table to the named file or to the step's summary.
fn to_github(report: &Report, output: &Output, console: &Console) -> anyhow::Result<()> {
    Console::result(&github::annotations(report)).context("can't write to stdout")?;
    let summary = github::summary(report);
    if let Some(file) = &output.file {
        return fsops::write_report(file, summary.as_bytes())
            .with_context(|| format!("can't write `{}`", file.display()));
    }
    match std::env::var_os("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty()) {
        Some(file) => fsops::append(file.as_ref(), summary.as_bytes())
            .with_context(|| format!("can't write `{}`", std::path::Path::new(&file).display())),
        None => {
            console.note("GITHUB_STEP_SUMMARY is not set: no step summary is written");
            Ok(())
        }
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
