//! `requires.txt` of an egg-info (`setup.py install`, `setup.py develop`), whose PKG-INFO names no dependencies; read as
//! `importlib.metadata` and pip read it.

/// Its requirements, as a `Requires-Dist` would have them.
pub(super) fn requirements(text: &str) -> Vec<String> {
    let whole = |(section, line): (&str, &str)| {
        let (extra, marker) = section.split_once(':').unwrap_or((section, ""));
        let condition = match (extra, marker) {
            ("", "") => return line.to_owned(),
            ("", marker) => marker.to_owned(),
            (extra, "") => format!("extra == \"{extra}\""),
            (extra, marker) => format!("({marker}) and extra == \"{extra}\""),
        };
        // A URL would take a `;` that follows at once for a part of itself.
        let space = if line.contains('@') { " " } else { "" };
        format!("{line}{space}; {condition}")
    };
    lines(text).map(whole).collect()
}

/// The extras that have requirements.
pub(super) fn extras(text: &str) -> Vec<String> {
    let names = lines(text).map(|(section, _)| section.split(':').next().unwrap_or_default());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.dedup();
    names
}

/// The lines, each with the name of its section.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut section = "";
    lines.filter_map(move |line| match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        Some(name) => {
            section = name;
            None
        }
        None => Some((section, line)),
    })
}
