//! What the documents say holds: links lead somewhere, and each command of rocm-fixup that they show is one that the
//! program takes. The same for the examples in its help texts, which every command has.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};
use rocm_fixup::cli::Cli;

/// All Markdown files of the repository.
fn documents() -> Vec<PathBuf> {
    let hidden = |name: &str| name == "target" || (name.starts_with('.') && name.len() > 1);
    let walk = walkdir::WalkDir::new(".").sort_by_file_name().into_iter();
    let entries = walk.filter_entry(|entry| !hidden(&entry.file_name().to_string_lossy()));
    let files = entries.filter_map(Result::ok).map(walkdir::DirEntry::into_path);
    let found: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    assert!(found.len() >= 10, "{found:?}");
    found
}

/// Lines in code blocks, and pieces of inline code.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = false;
    let mut joined = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if block {
            joined += line.trim_end().strip_suffix('\\').unwrap_or(line);
            if !line.trim_end().ends_with('\\') {
                found.push(std::mem::take(&mut joined));
            }
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// The words of each call of `rocm-fixup` in a line of shell. None of a call that stands for many (`…`, `[…]`).
fn calls(line: &str) -> Vec<Vec<String>> {
    let mut calls = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut end = |words: &mut Vec<String>| {
        let named = words.iter().position(|word| word == "rocm-fixup");
        // Not as an argument of something else, such as `-t rocm-fixup` or `install rocm-fixup`.
        let starts = named.filter(|at| {
            let before: Vec<&str> = words[..*at].iter().map(String::as_str).collect();
            matches!(before[..], [] | ["RUN" | "$" | "-"])
                || before.iter().any(|w| w.starts_with("--mount=") || *w == "IMAGE")
        });
        if let Some(at) = starts.filter(|at| words.len() > at + 1) {
            let call = words.split_off(at);
            if !call.iter().any(|word| word.contains('…') || word.starts_with('[')) {
                calls.push(call);
            }
        }
        words.clear();
    };
    for c in line.chars().chain(['\n']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ' | '\n' | '&' | ';' | '|' | '>' | '#' | '(' | ')' | ',') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if c != ' ' {
                    end(&mut words);
                }
                if c == '#' {
                    break;
                }
            }
            (None, c) => word.push(c),
        }
    }
    calls
}

fn parse(call: &[String]) -> Result<(), String> {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as OnlyNamed;
    match Cli::try_parse_from(call) {
        Err(error) if error.use_stderr() && error.kind() != OnlyNamed => Err(error.to_string()),
        _ => Ok(()),
    }
}

#[test]
fn commands_in_documents_are_ones_that_the_program_takes() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for call in code(&text).iter().flat_map(|line| calls(line)) {
            seen += 1;
            if let Err(error) = parse(&call) {
                wrong.push(format!("{}: {}\n{error}", document.display(), call.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 30, "only {seen} commands were found");
}

#[test]
fn every_help_text_has_an_example_that_the_program_takes() {
    fn look(command: &clap::Command, wrong: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.split("Example").nth(1).unwrap_or_default();
        let calls: Vec<_> = examples
            .lines()
            .skip(1)
            .flat_map(|line| {
                calls(line.split("   ").find(|p| !p.trim().is_empty()).unwrap_or_default().trim())
            })
            .collect();
        if calls.is_empty() && !command.has_subcommands() {
            wrong.push(format!("`{}` has no example", command.get_name()));
        }
        wrong.extend(calls.iter().filter_map(|call| parse(call).err()));
        command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(|sub| look(sub, wrong));
    }
    let mut wrong = Vec::new();
    look(&Cli::command(), &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let mut wrong = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in links(&text) {
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let place = document.parent().unwrap_or(Path::new("")).join(path);
            let place = if path.is_empty() { document.clone() } else { place };
            if !place.exists() {
                wrong.push(format!("{}: {target} is not there", document.display()));
            } else if !heading.is_empty() && !headings(&place).contains(&heading.to_owned()) {
                wrong.push(format!("{}: {target} has no such heading", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Targets of `[text](target)` that lie in the repository.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let inside =
        targets.map(|(target, _)| target).filter(|target| !target.contains("://") && !target.contains(' '));
    inside.map(str::to_owned).collect()
}

fn headings(document: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(document).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept: String = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
        kept.replace(' ', "-")
    };
    lines.map(anchor).collect()
}

#[test]
fn the_exit_codes_are_told_alike_everywhere() {
    let help = Cli::command().get_after_help().unwrap().to_string();
    for code in 0..=4 {
        assert!(help.contains(&format!("\n  {code}  ")), "--help lacks exit code {code}");
        for document in ["README.md", "docs/promises.md"] {
            let text = std::fs::read_to_string(document).unwrap();
            assert!(text.contains(&format!("\n| {code} | ")), "{document} lacks exit code {code}");
        }
    }
}

#[test]
fn calls_are_found_where_shell_has_them() {
    let found = |line: &str| calls(line).iter().map(|call| call[1..].join(" ")).collect::<Vec<_>>();
    assert_eq!(found("RUN pip install x && rocm-sdk init && rocm-fixup dedup"), ["dedup"]);
    assert_eq!(found("rocm-fixup require 'pybind11<3.1.0' a > x # why"), ["require pybind11<3.1.0 a"]);
    assert_eq!(found("docker build -t rocm-fixup ."), Vec::<String>::new());
    assert_eq!(found("rocm-fixup patch […]"), Vec::<String>::new());
}
