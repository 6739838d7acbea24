//! The command line: clap types and help texts, no logic. The contract is in docs and `--help`; scripts rely on it.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or nothing to do
  1  the job failed: I/O, no interpreter, no permission
  2  usage, or a recipe that can't be read
  3  refused: something on disk is not what was expected; it was left untouched and named
  4  a requirement or an import check failed; status: something is pending

Examples:
  RUN rocm-fixup run                      as the last line of the RUN that installs the SDK
  rocm-fixup status                       is this image sound, and what to type if not
  rocm-fixup dedup --dry-run              what would be merged
  rocm-fixup undo                         take the last run back";

/// Makes container images built on AMD's ROCm wheel SDK sound: merges the SDK's duplicate libraries, patches installed
/// packages, checks requirements and imports.
#[derive(Debug, Parser)]
#[command(name = "rocm-fixup", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The image's interpreter. Default: that of VIRTUAL_ENV, then python3 on PATH, then well-known places
    #[arg(long, global = true, value_name = "EXE", env = "ROCM_FIXUP_PYTHON")]
    pub python: Option<PathBuf>,
    /// A site-packages directory, in place of asking an interpreter. May be given several times; or several, separated by
    /// `:`, where that is no directory's name
    #[arg(long, global = true, value_name = "DIR", env = "ROCM_FIXUP_SITE_PACKAGES")]
    pub site_packages: Vec<PathBuf>,
    /// Say what would be done, and write nothing
    #[arg(long, global = true, env = "ROCM_FIXUP_DRY_RUN", value_parser = clap::builder::FalseyValueParser::new())]
    pub dry_run: bool,
    /// Where the report goes: human, json or github, to stdout or to a file. May be given several times
    #[arg(
        long,
        global = true,
        value_name = "FORMAT[=FILE]",
        env = "ROCM_FIXUP_OUTPUT",
        value_delimiter = ','
    )]
    pub output: Vec<Output>,
    /// Short for --output FORMAT to stdout
    #[arg(long, global = true, value_name = "FORMAT", env = "ROCM_FIXUP_FORMAT", conflicts_with = "output")]
    pub format: Option<Format>,
    /// Leave out the check, patch or step of this name. May be given several times
    #[arg(long, global = true, value_name = "NAME", env = "ROCM_FIXUP_SKIP", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// Disregard the recipe's allowances
    #[arg(long, global = true, env = "ROCM_FIXUP_NO_ALLOW", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_allow: bool,
    /// An image without a wheel SDK is refused (3), not "nothing to do" (0)
    #[arg(long, global = true, env = "ROCM_FIXUP_REQUIRE_SDK", value_parser = clap::builder::FalseyValueParser::new())]
    pub require_sdk: bool,
    /// How long to wait for another rocm-fixup on the same tree, in seconds
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value_t = 10,
        env = "ROCM_FIXUP_LOCK_TIMEOUT"
    )]
    pub lock_timeout: u64,
    /// Name every path, however many there are
    #[arg(long, global = true, env = "ROCM_FIXUP_NO_TRUNCATE", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_truncate: bool,
    /// No progress bars, even on a terminal
    #[arg(long, global = true, env = "ROCM_FIXUP_NO_PROGRESS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_progress: bool,
    /// The form of the log on stderr
    #[arg(long, global = true, value_name = "FORM", default_value = "text", env = "ROCM_FIXUP_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Say more; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true, env = "ROCM_FIXUP_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,
    /// Colours on stdout and stderr
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", env = "ROCM_FIXUP_COLOR")]
    pub color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Human,
    Json,
    /// Workflow commands and a step summary, for a step after the build
    Github,
}

/// A format, and the file that the report goes to instead of stdout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub format: Format,
    pub file: Option<PathBuf>,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, file) = match text.split_once('=') {
            Some((format, file)) => (format, Some(file)),
            None => (text, None),
        };
        if file == Some("") {
            return Err(format!("no file is named after `{format}=`"));
        }
        let format = Format::from_str(format, false)
            .map_err(|_| format!("`{format}` is no format: human, json or github"))?;
        // As everywhere, `-` is stdout.
        Ok(Self { format, file: file.filter(|file| *file != "-").map(PathBuf::from) })
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// dedup, patch, require and smoke: all that a recipe says, in that order
    #[command(after_help = "Example:\n  RUN rocm-fixup run --recipe vllm-rocm")]
    Run(Run),
    /// Merge the SDK's duplicate shared libraries
    #[command(after_help = "Examples:\n  RUN pip install … && rocm-sdk init && rocm-fixup dedup\n  \
                            rocm-fixup dedup --dry-run --format json")]
    Dedup(Dedup),
    /// Apply patches to installed packages
    #[command(after_help = "Examples:\n  rocm-fixup patch\n  rocm-fixup patch tile_kernels --revert\n  \
                            rocm-fixup patch --from ./patches --strip 1")]
    Patch(Patch),
    /// Check pins and floors of what is installed
    #[command(after_help = "Example:\n  rocm-fixup require 'pybind11<3.1.0' 'glibc>=2.39' torch+rocm")]
    Require(Require),
    /// Import modules in the image's own interpreter, each in a process of its own
    #[command(after_help = "Examples:\n  rocm-fixup smoke torch\n  \
                            rocm-fixup smoke fused_weight_gradient_mlp_cuda --preload torch\n  \
                            rocm-fixup smoke --libraries")]
    Smoke(Smoke),
    /// Tell what is fixed, pending, drifted or conflicting; changes nothing
    #[command(after_help = "Example:\n  docker run --rm IMAGE rocm-fixup status")]
    Status(Status),
    /// Take back what was done, newest first
    #[command(after_help = "Examples:\n  rocm-fixup undo\n  rocm-fixup undo --all")]
    Undo(Undo),
    /// Tell the interpreter, site-packages, SDK trees and versions
    #[command(after_help = "Example:\n  rocm-fixup locate --format json")]
    Locate,
    /// List, show or check recipes
    #[command(
        after_help = "Example:\n  rocm-fixup recipe show miles-rocm10 > my.toml && rocm-fixup recipe check my.toml"
    )]
    Recipe {
        #[command(subcommand)]
        command: Recipe,
    },
    /// Print a completion script
    #[command(after_help = "Example:\n  rocm-fixup completions bash > /etc/bash_completion.d/rocm-fixup")]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page
    #[command(after_help = "Example:\n  rocm-fixup man > rocm-fixup.1")]
    Man,
}

#[derive(Clone, Debug, Default, Args)]
pub struct WithRecipe {
    /// The recipe: a built-in name, or a file
    #[arg(long, value_name = "NAME|FILE", env = "ROCM_FIXUP_RECIPE")]
    pub recipe: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct Dedup {
    /// Make the device packages' hard links anew, so that image builders keep them
    #[arg(long, env = "ROCM_FIXUP_DEVICE_LINKS", value_parser = clap::builder::FalseyValueParser::new())]
    pub device_links: bool,
    /// Leave intact hard links as they are: for installs that never become an image
    #[arg(long, env = "ROCM_FIXUP_KEEP_HARD_LINKS", value_parser = clap::builder::FalseyValueParser::new())]
    pub keep_hard_links: bool,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub recipe: WithRecipe,
    #[command(flatten)]
    pub dedup: Dedup,
    /// Run the checks even if something was refused or failed before
    #[arg(long, env = "ROCM_FIXUP_KEEP_GOING", value_parser = clap::builder::FalseyValueParser::new())]
    pub keep_going: bool,
    /// Patch files of unknown content too, where the patch fits exactly
    #[arg(long, env = "ROCM_FIXUP_ALLOW_DRIFT", value_parser = clap::builder::FalseyValueParser::new())]
    pub allow_drift: bool,
    /// A check that needs a GPU does not fail without one
    #[arg(long, env = "ROCM_FIXUP_GPU_OPTIONAL", value_parser = clap::builder::FalseyValueParser::new())]
    pub gpu_optional: bool,
}

#[derive(Debug, Args)]
pub struct Patch {
    /// Patches of the recipe by name; all that apply where none is named
    pub names: Vec<String>,
    #[command(flatten)]
    pub recipe: WithRecipe,
    /// Tell the state of each patch, and change nothing
    #[arg(long, conflicts_with = "revert")]
    pub list: bool,
    /// Take the patches back
    #[arg(long)]
    pub revert: bool,
    /// Apply the plain patches (*.patch, *.diff) of a folder, without a recipe
    #[arg(long, value_name = "DIR", conflicts_with = "recipe")]
    pub from: Option<PathBuf>,
    /// With --from: how many leading components of the names in the patches are dropped
    #[arg(long, value_name = "N", default_value_t = 1, requires = "from")]
    pub strip: usize,
    /// Patch files of unknown content too, where the patch fits exactly
    #[arg(long, env = "ROCM_FIXUP_ALLOW_DRIFT", value_parser = clap::builder::FalseyValueParser::new())]
    pub allow_drift: bool,
}

#[derive(Debug, Args)]
pub struct Require {
    /// 'NAME SPEC', 'glibc>=2.39', NAME@COMMIT, torch+rocm, 'installed NAME', 'requires-met NAME[EXTRA]', pybind11-internals
    pub rules: Vec<String>,
    #[command(flatten)]
    pub recipe: WithRecipe,
}

#[derive(Debug, Args)]
pub struct Smoke {
    /// Modules to import; the recipe's checks where none is named
    pub modules: Vec<String>,
    #[command(flatten)]
    pub recipe: WithRecipe,
    /// Import this module before those that are named. May be given several times
    #[arg(long, value_name = "MODULE", requires = "modules")]
    pub preload: Vec<String>,
    /// The time limit of one check, in seconds. Default: what the recipe says, else 120; 30 for one library
    #[arg(long, value_name = "SECONDS", env = "ROCM_FIXUP_TIMEOUT", value_parser = value_parser!(u64).range(1..=86_400))]
    pub timeout: Option<u64>,
    /// A check that needs a GPU does not fail without one
    #[arg(long, env = "ROCM_FIXUP_GPU_OPTIONAL", value_parser = clap::builder::FalseyValueParser::new())]
    pub gpu_optional: bool,
    /// Open every shared library of the SDK trees, and each of devel together with the one that it doubles, in both orders
    #[arg(long)]
    pub libraries: bool,
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub recipe: WithRecipe,
}

#[derive(Debug, Args)]
pub struct Undo {
    /// Take back every recorded run
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// The run to take back; the newest one where none is named, with a stopped one that it went on from
    pub id: Option<String>,
    /// The recipe of a run that changed files outside of site-packages, if it isn't a built-in one
    #[arg(long, value_name = "NAME|FILE", env = "ROCM_FIXUP_RECIPE")]
    pub recipe: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Recipe {
    /// Name the built-in recipes and their entries
    #[command(after_help = "Example:\n  rocm-fixup recipe list --format json")]
    List,
    /// Print a built-in recipe
    #[command(after_help = "Example:\n  rocm-fixup recipe show vllm-rocm > my.toml")]
    Show { name: String },
    /// Read a recipe and name its mistakes with line and column
    #[command(after_help = "Example:\n  rocm-fixup recipe check my.toml")]
    Check { file: PathBuf },
}
