//! Bounds: a million files, deep directories, files of 20 GB, thousands of libraries; and a user who may not write. Time
//! and memory are printed. Only in the full form, or by name: it needs some GB of disk and minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Check};
use crate::scene::{SCENES, Scene};
use crate::sdk_tree::SdkTree;
use crate::tally::{Context, Tally};
use crate::tool;

type Case = (&'static str, fn(&SdkTree) -> std::io::Result<()>);

const CASES: [Case; 5] = [
    ("a million files", million),
    ("1,200 nested directories", nested),
    ("a sparse pair of 20 GB", sparse),
    ("2,000 libraries", libraries),
    ("2,000 libraries of one SONAME", one_soname),
];

/// All cases, on a real disk.
pub fn all(context: &Context) -> Result<Tally, String> {
    let mut tally = Tally::default();
    if !context.full && !context.named {
        return Ok(tally);
    }
    for (name, make) in CASES {
        let dir = tempfile::tempdir().unwrap();
        let builder = SdkTree::builder().line("core/lib/libX.so.3 library libX.so.3 1");
        let tree = builder.line("devel/lib/libX.so.3 copy core/lib/libX.so.3").build(dir.path());
        make(&tree).map_err(|error| format!("{name}: {error}"))?;
        for args in [&["dedup"][..], &["dedup"], &["undo"]] {
            tally.points += 1;
            if let Err(error) = measured(name, &tree, args) {
                tally.failed.push(format!("{name}, {}: {error}", args[0]));
            }
        }
    }
    Ok(tally)
}

fn measured(name: &str, tree: &SdkTree, args: &[&str]) -> Check {
    let start = Instant::now();
    let mut command = tool::command(&tree.site_packages, args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut most = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        most = most.max(peak.and_then(|kb| kb.trim().parse::<u64>().ok()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(10));
    };
    println!("{name}, {}: {:.1} s, {} MB, {status}", args[0], start.elapsed().as_secs_f64(), most >> 10);
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

fn million(tree: &SdkTree) -> std::io::Result<()> {
    for directory in 0..1000 {
        let directory = tree.path("devel").join(format!("include/d{directory}"));
        fs::create_dir_all(&directory)?;
        for file in 0..1000 {
            fs::File::create(directory.join(format!("f{file}.h")))?;
        }
    }
    Ok(())
}

/// Without a library at the bottom: a link from there would be longer than any name may be.
fn nested(tree: &SdkTree) -> std::io::Result<()> {
    for name in ["core", "devel"] {
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 1200).collect();
        let deep = tree.path(name).join("lib").join(deep);
        fs::create_dir_all(&deep)?;
        fs::write(deep.join("x.txt"), "text")?;
    }
    Ok(())
}

fn sparse(tree: &SdkTree) -> std::io::Result<()> {
    for name in ["core", "devel"] {
        let path = tree.path(name).join("lib/libBig.so.1");
        fs::copy(tree.path("core/lib/libX.so.3"), &path)?;
        fs::OpenOptions::new().write(true).open(&path)?.set_len(20 << 30)?;
    }
    Ok(())
}

/// Each with its own SONAME, as they are in an SDK.
fn libraries(tree: &SdkTree) -> std::io::Result<()> {
    many(tree, |number| format!("l{number:04}.so\0"))
}

/// What nobody ships, but a planner must not choke on: all of them are aliases of one another.
fn one_soname(tree: &SdkTree) -> std::io::Result<()> {
    many(tree, |_| "libX.so.3".to_owned())
}

fn many(tree: &SdkTree, soname: impl Fn(usize) -> String) -> std::io::Result<()> {
    let library = fs::read(tree.path("core/lib/libX.so.3"))?;
    let at = memchr::memmem::find(&library, b"libX.so.3\0").unwrap();
    for number in 0..2000 {
        let (mut library, soname) = (library.clone(), soname(number));
        library[at..at + soname.len()].copy_from_slice(soname.as_bytes());
        for owner in ["core", "devel"] {
            fs::write(tree.path(owner).join(format!("lib/l{number:04}.so")), &library)?;
        }
    }
    Ok(())
}

/// Who may not write changes nothing, says so, and leaves nothing.
pub fn other_user(context: &Context) -> Result<Tally, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Tally::not_run("another user: only root can become one"));
    }
    let mut tally = Tally::default();
    for scene in SCENES {
        let bench = Bench::new(&context.dir(&format!("user-{}", scene.name)), scene)?;
        for readable in [true, false] {
            tally.points += 1;
            if let Err(error) = as_nobody(&bench, &scene, &context.work, readable) {
                tally.failed.push(format!("another user, {}: {error}", scene.name));
            }
        }
    }
    println!("another user: {} cases, {} failed", tally.points, tally.failed.len());
    Ok(tally)
}

fn as_nobody(bench: &Bench, scene: &Scene, work: &Path, readable: bool) -> Check {
    bench.reset();
    fs::set_permissions(work, fs::Permissions::from_mode(0o755)).unwrap();
    if readable {
        for entry in walkdir::WalkDir::new(bench.top()).into_iter().flatten() {
            if entry.file_type().is_file() {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644)).unwrap();
            }
        }
    }
    let before = bench.state();
    let program = work.join("rocm-fixup");
    fs::copy(tool::binary(), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    tool::finish(&mut command, &bench.site(), scene.command);
    command.uid(65534).gid(65534);
    let ran = tool::run(command, None);
    bench.state().is(&before)?;
    if !bench.state().journal.is_empty() {
        return Err("a journal was begun".to_owned());
    }
    if matches!(ran.code, Some(1 | 3)) { Ok(()) } else { Err(format!("it ended with {}", ran.told())) }
}
