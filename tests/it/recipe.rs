//! Recipes: what is refused, and that it says where; conditions and the words of a skip.

use rocm_fixup::model::Distribution;
use rocm_fixup::patch::lint::{Origin, lint};
use rocm_fixup::patch::parse::{Strip, parse};
use rocm_fixup::patch::sha::Sha256;
use rocm_fixup::recipe::when::{Facts, When};
use rocm_fixup::recipe::{check, embedded, read};

const HEAD: &str = "name = \"x\"\ndescription = \"y\"\n";

fn mistakes(text: &str) -> Vec<(usize, usize, String)> {
    check(&format!("{HEAD}{text}")).into_iter().map(|m| (m.line, m.column, m.text)).collect()
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_one() {
    let found = mistakes("[[require]]\nname = \"a\"\nrul = \"b\"\nreason = \"c\"\nwhn = {}\n");
    let text = |n: usize| found[n].2.as_str();
    assert_eq!((found[0].0, found[0].1, text(0)), (3, 1, "missing key `rule`"));
    assert_eq!((found[1].0, found[1].1, text(1)), (5, 1, "unknown key `rul`: did you mean `rule`?"));
    assert_eq!((found[2].0, found[2].1, text(2)), (7, 1, "unknown key `whn`: did you mean `when`?"));
    assert_eq!(
        mistakes("[[requires]]\n"),
        [(3, 3, "unknown key `requires`: did you mean `require`?".to_owned())]
    );
    let found = mistakes("dedup = { device-link = true }\n");
    assert_eq!(found, [(3, 11, "unknown key `device-link`: did you mean `device-links`?".to_owned())]);
}

#[test]
fn mistakes_of_several_tables_are_all_told() {
    let found = mistakes(
        "[[smoke]]\nname = \"a\"\nmodule = 3\nreason = \"\"\n[[allow]]\nname = \"b\"\nuntil = \"soon\"\n",
    );
    assert_eq!(found.iter().map(|m| m.0).collect::<Vec<_>>(), [5, 7]);
    let found = mistakes(
        "[[allow]]\nname = \"b\"\nreason = \"\"\nuntil = \"soon\"\n[[smoke]]\nname = \"A\"\nmodule = \"a b\"\nreason = \"r\"\n",
    );
    assert_eq!(found.iter().map(|m| m.0).collect::<Vec<_>>(), [5, 6, 8, 9]);
}

#[test]
fn broken_toml_is_told_with_its_place() {
    let found = mistakes("[[smoke]\nname = \n");
    assert_eq!(found[0].0, 3);
    assert!(check("").len() >= 2, "name and description are required");
    assert_eq!(check(&"#".repeat(2 << 20)).len(), 1);
}

#[test]
fn values_that_make_no_sense_are_refused_where_they_stand() {
    let patch = "[[patch]]\nname = \"p\"\nreason = \"r\"\ntarget = { distribution = \"d\", roots = [\"../x\"] }\n\
                 [[patch.variant]]\nversions = \"nonsense\"\nfiles = [\n  { path = \"/etc/x\", before = \"12\" },\n]\n";
    let found = mistakes(patch);
    assert_eq!((found[0].0, found[0].1), (10, 31), "{found:?}");
    assert!(found[0].2.contains("64 lower-case hex digits"), "{found:?}");
    let patch = patch.replace(", before = \"12\"", "");
    let lines: Vec<usize> = mistakes(&patch).iter().map(|m| m.0).collect();
    assert_eq!(lines, [6, 7, 8, 10, 10], "root, no file, versions, path, before = after");
}

#[test]
fn the_embedded_patches_are_tidy_and_change_just_the_files_of_their_variants() {
    for (_, text) in embedded::RECIPES {
        for patch in &read(text).unwrap().patch {
            for variant in &patch.variant {
                let file = variant.file.as_ref().or(patch.file.as_ref()).unwrap();
                let bytes = embedded::patch(file).unwrap_or_else(|| panic!("{file} is not embedded"));
                let linted = lint(bytes, Origin::Shipped).unwrap_or_else(|m| panic!("{file}: {m}"));
                let parsed =
                    parse(&linted, Strip::Exactly(patch.strip)).unwrap_or_else(|m| panic!("{file}: {m}"));
                let mut changed: Vec<String> = parsed.iter().map(|f| f.path.to_string()).collect();
                let mut named: Vec<String> = variant.files.iter().map(|f| f.path.clone()).collect();
                changed.sort();
                named.sort();
                assert_eq!(changed, named, "{file}");
            }
        }
    }
}

fn skipped(when: &str, dists: &[(&str, &str)], env: &[(&str, &str)]) -> Option<String> {
    let when: When = toml::from_str(when).unwrap();
    let distributions: Vec<Distribution> = dists
        .iter()
        .map(|(name, version)| Distribution {
            name: (*name).into(),
            version: (*version).into(),
            dist_info: "/s/d.dist-info".into(),
            site_packages: "/s".into(),
        })
        .collect();
    let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    when.skipped(&Facts {
        distributions: &distributions,
        unclear: &["unclear".into()],
        env: &env,
        glibc: Some("2.36"),
        python: Some("3.11.7"),
        arch: "x86_64",
    })
}

#[test]
fn a_skip_says_why() {
    let cases = [
        ("distribution = 'apex'", "skipped: distribution apex is not installed"),
        ("distribution = ['Torch_X', 'apex']", "skipped: distribution apex is not installed"),
        ("distribution = 'Unclear>=1'", "skipped: whether distribution Unclear is installed can't be told"),
        ("distribution = 'torch-x>=3'", "skipped: torch-x is 2.1, not >=3"),
        ("env = 'APEX_USE_PREBUILT!=0'", "skipped: APEX_USE_PREBUILT=0"),
        ("env = 'OTHER'", "skipped: OTHER is not set"),
        ("env = '!APEX_USE_PREBUILT'", "skipped: APEX_USE_PREBUILT is set"),
        ("env = 'APEX_USE_PREBUILT=1'", "skipped: APEX_USE_PREBUILT=0, not 1"),
        ("glibc = '>=2.39'", "skipped: glibc is 2.36, not >=2.39"),
        ("python = '<3.11'", "skipped: Python is 3.11.7, not <3.11"),
        ("arch = 'aarch64'", "skipped: the machine is x86_64, not aarch64"),
    ];
    for (when, why) in cases {
        let found = skipped(when, &[("torch.x", "2.1")], &[("APEX_USE_PREBUILT", "0")]);
        assert_eq!(found.as_deref(), Some(why), "{when}");
    }
    for when in ["", "env = 'OTHER!=0'", "distribution = 'Torch-X'", "python = '>=3.10,<3.13'"] {
        assert_eq!(skipped(when, &[("torch.x", "2.1")], &[]), None, "{when}");
    }
}

#[test]
fn the_values_of_the_embedded_patches_are_hashes_of_something() {
    let recipe = read(embedded::recipe(embedded::DEFAULT).unwrap()).unwrap();
    let empty = Sha256::of(b"");
    let files = recipe.patch.iter().flat_map(|p| &p.variant).flat_map(|v| &v.files);
    for file in files {
        assert!(file.before != file.after && file.before != Some(empty) && file.after != Some(empty));
    }
}
