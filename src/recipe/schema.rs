//! The JSON schema of recipes, made from the types and kept in the repository, so that editors complete.

use crate::recipe::Recipe;

/// `BLESS=1 cargo test schema` writes it anew.
#[test]
fn the_schema_in_the_repository_is_that_of_the_types() {
    let mut schema = serde_json::to_value(schemars::schema_for!(Recipe)).unwrap();
    schema["title"] = "A recipe of rocm-fixup".into();
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/recipe-1.json");
    if std::env::var_os("BLESS").is_some() {
        #[expect(clippy::disallowed_methods, reason = "a test that writes a fixture when asked to")]
        std::fs::write(&path, &text).unwrap();
    }
    assert!(text == std::fs::read_to_string(path).unwrap_or_default(), "run `BLESS=1 cargo test schema`");
}

/// Every key of the schema is one that the reader knows, and the other way round.
#[test]
fn the_embedded_recipes_use_only_keys_of_the_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Recipe)).unwrap();
    for (name, text) in crate::recipe::embedded::RECIPES {
        let value: toml::Table = toml::from_str(text).unwrap();
        let keys = schema["properties"].as_object().unwrap();
        assert!(value.keys().all(|k| keys.contains_key(k)), "{name}");
        for patch in value.get("patch").and_then(|p| p.as_array()).into_iter().flatten() {
            let known = schema["$defs"]["Patch"]["properties"].as_object().unwrap();
            assert!(patch.as_table().unwrap().keys().all(|k| known.contains_key(k)), "{name}");
        }
    }
}
