//! The recipe's own patches on the files that they are made for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocm_fixup::patch::plan::Direction::{Apply, Revert};
use rocm_fixup::patch::report::State;
use rocm_fixup::recipe::{Recipe, SecondCopy, embedded, read};

use super::site::{Site, carry_out};

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/patch-cases")
}

fn file(path: &str) -> Vec<u8> {
    fs::read(fixtures().join("packages").join(path)).unwrap()
}

fn recipe(name: &str) -> Recipe {
    let mut recipe = read(embedded::recipe(embedded::DEFAULT).unwrap()).unwrap();
    recipe.patch.retain(|p| p.name == name);
    assert_eq!(recipe.patch.len(), 1);
    recipe
}

/// Subpackages that tile_kernels has; each says on import that it was.
const SUBPACKAGES: [&str; 7] = ["engram", "mhc", "moe", "quant", "transpose", "torch", "testing"];

fn tile_kernels() -> Site {
    let mut site = Site::new();
    let real = ["__init__.py", "config.py", "mhc/post_kernel.py", "modeling/__init__.py"]
        .map(|name| (format!("tile_kernels/{name}"), file(&format!("tile_kernels/{name}"))));
    let stubs = SUBPACKAGES.iter().chain(&["modeling/engram", "modeling/mhc"]);
    let stubs = stubs.map(|name| (format!("tile_kernels/{name}/__init__.py"), b"import tilelang\n".to_vec()));
    let files: Vec<(String, Vec<u8>)> = real.into_iter().chain(stubs).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, b)| (p.as_str(), b.as_slice())).collect();
    site.install("tile-kernels", "1.0.0", &files);
    site.write("torch.py", "");
    site
}

fn python(site: &Site, code: &str) -> Output {
    Command::new("python3")
        .args(["-S", "-c", code])
        .env("PYTHONPATH", &site.root)
        .current_dir("/")
        .output()
        .unwrap()
}

#[test]
fn tile_kernels_is_lazy_after_the_patch_and_whole_after_the_revert() {
    let site = tile_kernels();
    let recipe = recipe("tile-kernels");
    assert!(!python(&site, "import tile_kernels").status.success(), "without the patch it needs tilelang");
    fs::remove_dir_all(site.root.join("__pycache__")).ok();
    fs::remove_dir_all(site.root.join("tile_kernels/__pycache__")).ok();
    let before = site.tree();
    let planned = site.recipe(&recipe, Apply, false);
    assert_eq!((planned.refused, planned.patches[0].state), (false, State::Pending), "{:?}", planned.patches);
    assert_eq!(planned.plan.changes.len(), 4, "three files and RECORD");
    carry_out(&planned.plan);
    assert_eq!(site.recipe(&recipe, Apply, false).patches[0].state, State::Applied);
    assert!(!site.text("tile_kernels/mhc/post_kernel.py").contains("pdl_sync"));

    let code = "import sys, tile_kernels as t\n\
                assert 'tilelang' not in sys.modules and 'tile_kernels.mhc' not in sys.modules\n\
                assert {'mhc', 'modeling', 'get_num_sms'} <= set(dir(t)), dir(t)\n\
                assert t.config.get_num_sms is t.get_num_sms\n\
                import tile_kernels.modeling\n\
                assert tile_kernels.modeling.__file__ and 'tilelang' not in sys.modules\n\
                import types; sys.modules['tilelang'] = types.ModuleType('tilelang')\n\
                for name in 'engram mhc modeling moe quant transpose torch testing'.split():\n\
                \x20   assert getattr(t, name).__name__ == 'tile_kernels.' + name\n\
                assert t.modeling.mhc.__name__ == 'tile_kernels.modeling.mhc' and t.modeling.engram\n\
                from tile_kernels import quant\n\
                try: t.nothing\n\
                except AttributeError as e: assert 'nothing' in str(e)\n\
                else: raise SystemExit('no AttributeError')\n";
    let output = python(&site, code);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Bytecode of the patched sources goes with the revert.
    let compile = "import compileall, sys; sys.exit(not compileall.compile_dir(sys.path[1], quiet=1))";
    let output = python(&site, compile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let planned = site.recipe(&recipe, Revert, false);
    assert_eq!(planned.patches[0].state, State::Applied);
    assert_eq!(planned.plan.changes.iter().filter(|c| c.bytecode).count(), 3);
    carry_out(&planned.plan);
    let mut after = site.tree();
    after.retain(|path, _| !path.components().any(|c| c.as_os_str() == "__pycache__"));
    assert_eq!(after, before);
}

const HEADER: &str = "tilelang/src/tl_templates/hip/hip_fp8.h";

fn tilelang(version: &str) -> Site {
    let mut site = Site::new();
    let header = file(&format!("tilelang-{version}/hip_fp8.h"));
    site.install("tilelang", version, &[("tilelang/__init__.py", b""), (HEADER, &header)]);
    site
}

/// Compiles the header (up to the vectors, whose anonymous structs are clang's) with the stand-in and runs `main`.
fn compiled(site: &Site, flavour: &str) -> Option<String> {
    let header = site.text(HEADER);
    let cut: String =
        header.lines().take_while(|l| !l.contains(" fp8_e4_4_t {")).map(|l| format!("{l}\n")).collect();
    assert!(cut.contains("struct fp8_e5_t"));
    site.write("build/hip_fp8.h", cut);
    site.write(
        "build/main.cpp",
        "#include \"hip_fp8.h\"\n#include <cstdio>\nint main() {\n  fp8_e4_t a; a.data = 7; fp8_e5_t b; b.data = 9;\n  \
         printf(\"%g %g\", (float)a, (float)b);\n}\n",
    );
    let build = site.root.join("build");
    let output = Command::new("g++")
        .args(["-std=c++17", "-Wall", flavour, "-o", "main", "main.cpp", "-I"])
        .arg(fixtures().join("hip-stub"))
        .current_dir(&build)
        .output()
        .unwrap();
    let binary = build.join("main");
    let said = output.status.success().then(|| Command::new(&binary).output().unwrap().stdout);
    fs::remove_dir_all(build).unwrap();
    said.map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn the_header_of_each_version_gets_its_exact_variant() {
    let recipe = recipe("tilelang-hip-fp8");
    for version in ["0.1.8", "0.1.9", "0.1.12", "0.1.15"] {
        let site = tilelang(version);
        let before = site.tree();
        assert_eq!(compiled(&site, "-DX"), None, "{version}: the stand-in has no conversion on the host");
        let planned = site.recipe(&recipe, Apply, false);
        assert_eq!((planned.refused, planned.patches[0].state), (false, State::Pending), "{version}");
        assert_eq!(planned.patches[0].files[0].offset, 0, "{version}");
        carry_out(&planned.plan);
        // 1000 times the interpretation (0 e4m3, 1 e5m2, 2 and 3 fnuz) plus the byte.
        assert_eq!(compiled(&site, "-DX").as_deref(), Some("7 1009"), "{version}");
        assert_eq!(compiled(&site, "-D__gfx942__").as_deref(), Some("2007 3009"), "{version}");
        assert_eq!(site.recipe(&recipe, Apply, false).patches[0].state, State::Applied);
        carry_out(&site.recipe(&recipe, Revert, false).plan);
        assert_eq!(site.tree(), before, "{version}");
    }
}

#[test]
fn before_0_1_8_there_is_nothing_to_patch() {
    let planned = tilelang("0.1.7.post3").recipe(&recipe("tilelang-hip-fp8"), Apply, false);
    assert_eq!((planned.refused, planned.patches[0].state), (false, State::NotApplicable));
    assert!(planned.patches[0].notes[0].contains("0.1.7.post3"), "{:?}", planned.patches[0].notes);
}

#[test]
fn what_is_not_installed_is_skipped_and_refused_only_by_name() {
    let site = Site::new();
    let planned = site.recipe(&recipe("tilelang-hip-fp8"), Apply, false);
    assert_eq!((planned.refused, planned.patches[0].state), (false, State::NotInstalled));
    let mut site = tilelang("0.1.15");
    fs::remove_dir_all(site.root.join("tilelang")).unwrap();
    let planned = site.recipe(&recipe("tilelang-hip-fp8"), Apply, false);
    assert_eq!(
        (planned.refused, planned.patches[0].state),
        (true, State::Conflict),
        "installed, but its files are gone"
    );
    site.distributions.clear();
    assert_eq!(site.recipe(&recipe("tilelang-hip-fp8"), Apply, false).patches[0].state, State::NotInstalled);
}

#[test]
fn case_03_known_content_is_completed() {
    let site = tile_kernels();
    let recipe = recipe("tile-kernels");
    let planned = site.recipe(&recipe, Apply, false);
    carry_out(&planned.plan);
    site.write("tile_kernels/modeling/__init__.py", file("tile_kernels/modeling/__init__.py"));
    let planned = site.recipe(&recipe, Apply, false);
    assert_eq!((planned.refused, planned.patches[0].state), (false, State::Partial));
    carry_out(&planned.plan);
    assert_eq!(site.recipe(&recipe, Apply, false).patches[0].state, State::Applied);
}

#[test]
fn a_local_edit_is_drift_and_needs_consent() {
    let site = tilelang("0.1.15");
    let recipe = recipe("tilelang-hip-fp8");
    let edited = format!("// local\n{}", site.text(HEADER));
    site.write(HEADER, &edited);
    let planned = site.recipe(&recipe, Apply, false);
    assert_eq!((planned.refused, planned.patches[0].state), (true, State::Drifted));
    assert!(planned.plan.changes.is_empty());
    let notes = planned.patches[0].notes.join("\n");
    assert!(notes.contains("--allow-drift") && notes.contains("fits 1 lines away"), "{notes}");
    let planned = site.recipe(&recipe, Apply, true);
    assert!(!planned.refused);
    carry_out(&planned.plan);
    assert!(
        site.text(HEADER).starts_with("// local\n") && site.text(HEADER).contains("__hip_cvt_fp8_to_halfraw")
    );
    let again = site.recipe(&recipe, Apply, false);
    assert_eq!((again.refused, again.patches[0].state, again.plan.changes.len()), (false, State::Applied, 0));
    carry_out(&site.recipe(&recipe, Revert, true).plan);
    assert_eq!(site.text(HEADER), edited);
}

#[test]
fn a_conflict_says_what_is_installed_and_what_is_known() {
    let site = tilelang("0.1.15");
    site.write(HEADER, site.text(HEADER).replace("operator float()", "operator float ()"));
    let planned = site.recipe(&recipe("tilelang-hip-fp8"), Apply, true);
    assert_eq!((planned.refused, planned.patches[0].state), (true, State::Conflict));
    let text = planned.patches[0].files[0].conflict.clone().unwrap();
    for part in [
        "hunk 1 of 2",
        "doesn't fit at line 66",
        "only whitespace differs",
        "installed: tilelang 0.1.15",
        "==0.1.8",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_copy_in_use_is_patched_first_and_a_second_one_as_the_recipe_says() {
    let mut site = tilelang("0.1.15");
    let checkout = site.root.parent().unwrap().join("checkout/src");
    let header = checkout.join("tl_templates/hip/hip_fp8.h");
    fs::create_dir_all(header.parent().unwrap()).unwrap();
    fs::write(&header, file("tilelang-0.1.8/hip_fp8.h")).unwrap();
    site.env.insert("TL_TEMPLATE_PATH".into(), checkout.to_str().unwrap().into());
    let mut recipe = recipe("tilelang-hip-fp8");
    let planned = site.recipe(&recipe, Apply, false);
    let paths: Vec<&str> = planned.patches[0].files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, [header.to_str().unwrap(), site.root.join(HEADER).to_str().unwrap()]);
    assert!(
        planned.patches[0].notes.iter().any(|n| n.contains("is in use")),
        "{:?}",
        planned.patches[0].notes
    );
    assert!(planned.notes.iter().any(|n| n.contains("no RECORD")), "{:?}", planned.notes);
    recipe.patch[0].target.second_copy = SecondCopy::Report;
    let planned = site.recipe(&recipe, Apply, false);
    assert_eq!(planned.patches[0].files.len(), 1);
    assert!(planned.patches[0].notes.iter().any(|n| n.contains("not patched")));
    // The variable names the installed copy: one copy, with its RECORD.
    site.env.insert("TL_TEMPLATE_PATH".into(), site.root.join("tilelang/src").to_str().unwrap().into());
    let planned = site.recipe(&recipe, Apply, false);
    assert_eq!((planned.patches[0].files.len(), planned.plan.changes.len()), (1, 2));
}

#[test]
fn kernels_compiled_before_are_warned_of() {
    let mut site = tilelang("0.1.15");
    let cache = site.root.parent().unwrap().join("cache");
    fs::create_dir_all(cache.join("kernel")).unwrap();
    site.env.insert("TILELANG_CACHE_DIR".into(), cache.to_str().unwrap().into());
    let planned = site.recipe(&recipe("tilelang-hip-fp8"), Apply, false);
    assert!(
        planned.patches[0].notes.iter().any(|n| n.contains("empty it")),
        "{:?}",
        planned.patches[0].notes
    );
}
