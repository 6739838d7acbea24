//! One workplace: a directory in which a scene is set up again and again, and the product run on it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::calls::{self, Call};
use crate::copy;
use crate::oracle::State;
use crate::scene::Scene;
use crate::tool::{self, Ran};

/// Where things lie below a workplace. Everything that the oracle looks at is below `top`.
#[derive(Debug)]
pub struct Bench {
    dir: PathBuf,
    log: PathBuf,
    pub scene: Scene,
    pub before: State,
    pub after: State,
    /// The calls of the clean run and of the clean undo.
    pub calls: Vec<Call>,
    pub undo_calls: Vec<Call>,
}

pub type Check = Result<(), String>;

impl Bench {
    /// Sets up `scene` below `dir`, and records its clean run and the undo of it.
    pub fn new(dir: &Path, scene: Scene) -> Result<Self, String> {
        Self::new_with_log(dir, &dir.join("log"), scene)
    }

    /// The same; strace writes to `log`.
    pub fn new_with_log(dir: &Path, log: &Path, scene: Scene) -> Result<Self, String> {
        let dir = dir.canonicalize().unwrap();
        let log = log.to_path_buf();
        let none = State::default();
        let mut bench = Self {
            dir,
            log,
            scene,
            before: none.clone(),
            after: none,
            calls: Vec::new(),
            undo_calls: Vec::new(),
        };
        let _ = fs::remove_dir_all(bench.template());
        fs::create_dir_all(bench.template()).unwrap();
        scene.build(&bench.template()).unwrap();
        bench.reset();
        bench.before = bench.state();
        let record = [String::from("-y"), String::from("-e"), calls::watched()];
        let ran = bench.traced(scene.command, &record);
        if ran.code != Some(0) {
            return Err(format!("the clean run of {} failed: {}", scene.name, ran.told()));
        }
        bench.calls = calls::parse(&ran.log);
        bench.after = bench.state();
        bench.after.is(&bench.after.clone())?;
        if bench.after.is(&bench.before).is_ok() {
            return Err(format!("the clean run of {} changed nothing", scene.name));
        }
        let ran = bench.traced(&["undo"], &record);
        bench.undo_calls = calls::parse(&ran.log);
        bench.undone(&ran)?;
        Ok(bench)
    }

    fn template(&self) -> PathBuf {
        self.dir.join("template")
    }

    /// What the oracle looks at.
    pub fn top(&self) -> PathBuf {
        self.dir.join("top")
    }

    pub fn site(&self) -> PathBuf {
        self.top().join("sdk/lib/python3.12/site-packages")
    }

    /// The tree as before any run.
    pub fn reset(&self) {
        let _ = fs::remove_dir_all(self.top());
        fs::create_dir(self.top()).unwrap();
        copy::tree(&self.template(), &self.top()).unwrap();
    }

    pub fn state(&self) -> State {
        State::of(&self.top())
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        if self.scene.plain {
            return self.traced(args, &["--seccomp-bpf", "-e", "trace=renameat2"].map(str::to_owned));
        }
        tool::run(tool::command(&self.site(), args), None)
    }

    /// Where strace writes to.
    pub fn log_file(&self) -> PathBuf {
        self.log.clone()
    }

    pub fn traced(&self, args: &[&str], strace: &[String]) -> Ran {
        let _ = fs::remove_file(&self.log);
        let mut strace = strace.to_vec();
        if self.scene.plain {
            for option in strace.iter_mut().filter(|option| option.starts_with("trace=")) {
                option.push_str(",renameat2");
            }
            strace.extend(["-e".to_owned(), format!("inject=renameat2:error={}", tool::PLAIN)]);
        }
        tool::run(tool::traced(&self.site(), args, &strace, &self.log), Some(&self.log))
    }

    /// The command of the scene.
    pub fn do_it(&self) -> Ran {
        self.run(self.scene.command)
    }

    /// After an undo that must have succeeded: as before, and nothing left of the journal.
    pub fn undone(&self, ran: &Ran) -> Check {
        let now = self.state();
        if ran.code != Some(0) {
            return Err(format!("undo failed: {}", ran.told()));
        }
        now.is(&self.before).map_err(|e| format!("after undo:{e}"))?;
        if now.journal.is_empty() {
            Ok(())
        } else {
            Err(format!("after undo the journal holds {:?}", now.journal))
        }
    }

    /// After a run that must have succeeded: as planned, and the journal whole.
    pub fn done(&self, ran: &Ran) -> Check {
        let now = self.state();
        if ran.code != Some(0) {
            return Err(format!("the run failed: {}", ran.told()));
        }
        now.is(&self.after).map_err(|e| format!("after the run:{e}"))?;
        let strays = now.journal_strays();
        if strays.is_empty() { Ok(()) } else { Err(format!("after the run the journal holds {strays:?}")) }
    }

    /// `undo` from any state that a fault may leave.
    pub fn undo_restores(&self) -> Check {
        self.undone(&self.run(&["undo"]))
    }

    /// The command again from any state that a fault may leave, and then `undo`.
    /// A run that refused something has ended by itself: then the next one is another run, and undone as such.
    pub fn rerun_completes(&self, undo: &[&str]) -> Check {
        self.done(&self.do_it())?;
        self.undone(&self.run(undo)).map_err(|e| format!("after a rerun, {e}"))
    }
}
