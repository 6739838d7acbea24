//! The report as one JSON document (docs/json.md). Pure.

use crate::console::harmless_json;
use crate::report::Report;

/// The document, ending in a newline.
///
/// # Errors
/// Never seen: all fields are plain values.
pub fn render(report: &Report) -> serde_json::Result<String> {
    Ok(harmless_json(&serde_json::to_string_pretty(report)?) + "\n")
}
