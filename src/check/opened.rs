//! From the outcome of opening a library to its row in the report. Pure.

use std::path::Path;

use super::texts;
use super::{CheckResult, Kind, Verdict};
use crate::python::wire::{Clash, Opened, Raw};
use crate::python::{End, path, signal_name};

/// `None` where all is well. `after` is the twin that was opened first.
pub fn judge(name: &str, after: Option<&Path>, outcome: &Opened, gpu_optional: bool) -> Option<CheckResult> {
    let (verdict, detail, said) = verdict(outcome)?;
    let after = after.map(|twin| format!("opened after `{}`: ", twin.display())).unwrap_or_default();
    let mut result = CheckResult::new(name, Kind::Smoke, verdict, format!("{after}{detail}"));
    result.tolerated = verdict == Verdict::NeedsGpu && gpu_optional;
    result.output = (!said.trim().is_empty()).then(|| texts::tail(said, 20, 4096));
    Some(result)
}

fn verdict(outcome: &Opened) -> Option<(Verdict, String, &str)> {
    let died = |verdict: Verdict, how: String, end, stderr| match texts::ended_without_gpu(stderr, end) {
        Some(line) => (Verdict::NeedsGpu, format!("it needs a GPU: {line}"), stderr),
        None => match texts::tail(stderr, 3, 600) {
            said if said.is_empty() => (verdict, how, stderr),
            said => (verdict, format!("{how}\n{said}"), stderr),
        },
    };
    Some(match outcome {
        Opened::Ok => return None,
        Opened::Error { text, .. } => {
            let missing = texts::loader(text).map(|missing| missing.explained(None));
            (Verdict::ImportError, missing.unwrap_or_else(|| text.clone()), "")
        }
        Opened::TwoCopies { clashes } => (Verdict::TwoCopies, two_copies(clashes).join("\n"), ""),
        Opened::Signal { number, stderr } => {
            died(Verdict::Signal, format!("killed by {}", signal_name(*number)), End::Signal(*number), stderr)
        }
        Opened::Exit { code, stderr } => died(
            Verdict::Fail,
            format!("its start ended the process with code {code}"),
            End::Exit(*code),
            stderr,
        ),
        Opened::Timeout => (Verdict::Timeout, "its start took too long".to_owned(), ""),
    })
}

/// One line for each SONAME that is there twice.
pub fn two_copies(clashes: &[Clash]) -> Vec<String> {
    let shown = |one: &Raw| format!("`{}`", path(one).display());
    let named = |paths: &[Raw]| paths.iter().map(shown).collect::<Vec<_>>().join(" and ");
    clashes.iter().map(|clash| format!("{} is loaded from {}", clash.soname, named(&clash.paths))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(outcome: &Opened) -> (Verdict, String) {
        let result = judge("t/lib/libx.so", None, outcome, false).unwrap();
        (result.verdict, result.detail)
    }

    #[test]
    fn each_outcome_has_its_verdict() {
        assert_eq!(judge("x", None, &Opened::Ok, false), None);
        let error =
            |text: &str| Opened::Error { path: Raw::Text("/t/lib/libx.so".into()), text: text.into() };
        let missing = error("liby.so.1: cannot open shared object file: No such file or directory");
        assert_eq!(judged(&missing), (Verdict::ImportError, "missing library `liby.so.1`".into()));
        assert_eq!(judged(&error("odd")), (Verdict::ImportError, "odd".into()));
        let crash = |stderr: &str| Opened::Signal { number: 6, stderr: stderr.into() };
        assert_eq!(judged(&crash("a\nb\n")), (Verdict::Signal, "killed by SIGABRT\na\nb".into()));
        assert_eq!(judged(&crash("no ROCm-capable device is detected")).0, Verdict::NeedsGpu);
        assert_eq!(judged(&Opened::Exit { code: 1, stderr: String::new() }).0, Verdict::Fail);
        assert_eq!(judged(&Opened::Timeout).0, Verdict::Timeout);
        let clash =
            Clash { soname: "libx.so".into(), paths: vec![Raw::Text("/a".into()), Raw::Text("/b".into())] };
        let twins = Opened::TwoCopies { clashes: vec![clash] };
        let row = judge("x", Some(Path::new("/a")), &twins, false).unwrap();
        assert_eq!(row.detail, "opened after `/a`: libx.so is loaded from `/a` and `/b`");
        assert!(!judge("x", None, &crash("no GPU detected"), true).unwrap().failed());
    }
}
