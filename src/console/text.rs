//! Text from the image, made harmless for terminals and for the logs that CI runners read. Pure.

/// Text from the image, fit for a terminal and for a CI runner's log: control characters escaped, and the forms broken
/// in which a runner takes orders (`##[…]` anywhere, `::` at the start of a line).
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let trimmed = line.trim_start();
        let line = if let Some(rest) = trimmed.strip_prefix("::") {
            format!("{}: :{rest}", &line[..line.len() - trimmed.len()])
        } else {
            line.to_owned()
        };
        for c in line.replace("##[", "## [").chars() {
            match c {
                '\t' => out.push(' '),
                c if c.is_control() || is_bidi(c) => out.extend(c.escape_default()),
                c => out.push(c),
            }
        }
    }
    out
}

/// Characters that reorder or hide text.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// JSON that a CI runner takes no order from, with the same meaning: `##[` can only stand in a string, where the second
/// `#` may be written as an escape. `::` counts only at the start of a line, where JSON has none.
#[must_use]
pub fn harmless_json(json: &str) -> String {
    json.replace("##[", "#\\u0023[")
}

/// Text without colours, for files.
#[must_use]
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A path for people.
#[must_use]
pub fn path(path: &std::path::Path) -> String {
    harmless(&path.to_string_lossy()).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_gives_no_orders() {
        assert_eq!(harmless("  ::error::x"), "  : :error::x");
        assert_eq!(harmless("a\n::set-output name=x::y"), "a\n: :set-output name=x::y");
        assert_eq!(harmless("#12 0.3 ##[error]x"), "#12 0.3 ## [error]x");
        assert_eq!(harmless("a\x1b[31mb\rc\td"), "a\\u{1b}[31mb\\rc d");
        assert_eq!(harmless("\u{202e}x"), "\\u{202e}x");
    }

    #[test]
    fn json_means_the_same_without_the_runners_marker() {
        let value = serde_json::json!({"a": "x ##[error]y", "b": "###[z"});
        let text = harmless_json(&value.to_string());
        assert!(!text.contains("##["), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
