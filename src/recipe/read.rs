//! From text to a recipe, with every mistake and its place. Pure.
//!
//! The TOML is read once into a tree that knows its places. Each table is then turned into its type by itself, so
//! that one mistake doesn't hide those of the other tables; a key that doesn't exist is named, taken out, and the table
//! tried again.

use std::ops::Range;

use serde::de::{DeserializeOwned, IntoDeserializer as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, nearest};
use super::{Recipe, check as sense};

/// Recipes above this size are refused.
pub const SIZE_CAP: usize = 1 << 20;

/// Mistakes after this many are not listed.
const LISTED: usize = 100;

/// The top-level keys, for the message about one that doesn't exist.
const KEYS: [&str; 8] = ["name", "description", "dedup", "patch", "require", "smoke", "library", "allow"];

/// Reads a recipe.
///
/// # Errors
/// All mistakes, in the order of the text; never an empty list.
pub fn read(text: &str) -> Result<Recipe, Vec<Mistake>> {
    if text.len() > SIZE_CAP {
        return Err(vec![Mistake::at("", None, format!("the recipe is larger than {} KiB", SIZE_CAP >> 10))]);
    }
    let (tree, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mistakes = errors.iter().map(|e| Mistake::at(text, e.span(), one_line(e.message())));
        return Err(mistakes.take(LISTED).collect());
    }
    let mut reader = Reader { text, mistakes: Vec::new() };
    let recipe = reader.recipe(tree.get_ref());
    let Reader { mut mistakes, .. } = reader;
    if mistakes.is_empty() {
        mistakes = sense::check(text, tree.get_ref(), &recipe);
    }
    if mistakes.is_empty() {
        return Ok(recipe);
    }
    mistakes.sort();
    mistakes.dedup();
    mistakes.truncate(LISTED);
    Err(mistakes)
}

/// All mistakes of a recipe: `rocm-fixup recipe check`.
#[must_use]
pub fn check(text: &str) -> Vec<Mistake> {
    read(text).err().unwrap_or_default()
}

struct Reader<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn recipe(&mut self, tree: &DeTable<'_>) -> Recipe {
        for key in tree.keys() {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                let text = unknown(key.get_ref(), KEYS);
                self.mistakes.push(Mistake::at(self.text, Some(key.span()), text));
            }
        }
        for key in ["name", "description"] {
            if !tree.contains_key(key) {
                self.mistakes.push(Mistake::at(self.text, None, format!("missing key `{key}`")));
            }
        }
        Recipe {
            name: self.value(tree, "name"),
            description: self.value(tree, "description"),
            dedup: self.value(tree, "dedup"),
            patch: self.list(tree, "patch"),
            require: self.list(tree, "require"),
            smoke: self.list(tree, "smoke"),
            library: self.list(tree, "library"),
            allow: self.list(tree, "allow"),
        }
    }

    fn value<T: DeserializeOwned + Default>(&mut self, tree: &DeTable<'_>, key: &str) -> T {
        tree.get(key).and_then(|value| self.typed(value)).unwrap_or_default()
    }

    fn list<T: DeserializeOwned>(&mut self, tree: &DeTable<'_>, key: &str) -> Vec<T> {
        let Some(value) = tree.get(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            let text = format!("`{key}` is a list of tables: write `[[{key}]]`");
            self.mistakes.push(Mistake::at(self.text, Some(value.span()), text));
            return Vec::new();
        };
        items.iter().filter_map(|item| self.typed(item)).collect()
    }

    fn typed<T: DeserializeOwned>(&mut self, value: &Spanned<DeValue<'_>>) -> Option<T> {
        let mut value = value.clone();
        let mut whole = true;
        loop {
            let error = match T::deserialize(value.clone().into_deserializer()) {
                Ok(typed) => return whole.then_some(typed),
                Err(error) => error,
            };
            let message = error.message();
            let span = error.span().or(Some(value.span()));
            if self.mistakes.len() > LISTED {
                return None;
            }
            self.mistakes.push(Mistake::at(self.text, span.clone(), reworded(message)));
            let unknown_key = message.starts_with("unknown field");
            if !unknown_key || !span.is_some_and(|span| take_out(value.get_mut(), &span)) {
                return None;
            }
            whole = false;
        }
    }
}

/// Removes the key that lies at `span`, at any depth.
fn take_out(value: &mut DeValue<'_>, span: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => {
            let key = table.keys().find(|key| key.span() == *span).cloned();
            if let Some(key) = key {
                return table.remove(key.get_ref().as_ref()).is_some();
            }
            table.iter_mut().any(|(_, value)| take_out(value.get_mut(), span))
        }
        DeValue::Array(items) => items.iter_mut().any(|item| take_out(item.get_mut(), span)),
        _ => false,
    }
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ")
}

/// serde's message about an unknown key, with the nearest key that exists.
fn reworded(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    match words.next() {
        Some(key) if message.starts_with("unknown field") => unknown(key, words),
        Some(key) if message.starts_with("missing field") => format!("missing key `{key}`"),
        _ => one_line(message),
    }
}

fn unknown<'w>(key: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match nearest(key, words.iter().copied()) {
        Some(near) => format!("unknown key `{key}`: did you mean `{near}`?"),
        None => format!("unknown key `{key}`: known are {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_recipes_are_right() {
        for (name, text) in crate::recipe::embedded::RECIPES {
            let recipe = read(text).unwrap_or_else(|m| panic!("{name}: {m:?}"));
            assert_eq!(recipe.name, name);
        }
    }
}
