//! rocm-fixup makes container images built on AMD's ROCm wheel SDK sound.
//!
//! Map of the code, in the order of the data:
//!
//! | module | job |
//! |---|---|
//! | `cli` | the command line, no logic |
//! | `commands` | one short function a subcommand: the table of contents |
//! | `discover`, `python`, `dist` | interpreter, site-packages, SDK trees, distributions (`python` alone spawns) |
//! | `scan`, `stat`, `spread`, `compare`, `elf`, `manifest` | what lies in the trees (reads only; `spread` over all cores) |
//! | `dedup`, `patch`, `pyenv` | inventory in, `model::Plan` out (pure) |
//! | `recipe` | what a recipe says |
//! | `session`, `journal`, `apply`, `undo`, `ground`, `held`, `fsops` | from a plan to recorded changes and back (`fsops` alone writes) |
//! | `check` | requirements and import checks |
//! | `report`, `deliver`, `console` | one report, three formats (`console` alone prints) |
//! | `probe/` | the pyo3 module that runs inside the image's interpreter |

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = rocm_fixup::cli::Cli::parse();
    ExitCode::from(rocm_fixup::commands::main(cli) as u8)
}
