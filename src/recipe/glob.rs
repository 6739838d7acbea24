//! Globs of `[[library]]`: `?` and `*` within a path component, `**` across. Pure, no I/O, no back-tracking blow-up.

/// Whether the whole of `path` (components joined by `/`) matches `pattern`.
#[must_use]
pub fn glob_matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    // fits[n]: the components so far match the first n components of the path.
    let mut fits = vec![false; path.len() + 1];
    fits[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for n in 0..=path.len() {
            if part == "**" {
                next[n] = fits[n] || n > 0 && next[n - 1];
            } else if n > 0 {
                next[n] = fits[n - 1] && component(part.as_bytes(), path[n - 1].as_bytes());
            }
        }
        fits = next;
    }
    fits[path.len()]
}

fn component(pattern: &[u8], name: &[u8]) -> bool {
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for &byte in pattern {
        let mut next = vec![false; name.len() + 1];
        for n in 0..=name.len() {
            next[n] = match byte {
                b'*' => fits[n] || n > 0 && next[n - 1],
                b'?' => n > 0 && fits[n - 1],
                _ => n > 0 && fits[n - 1] && name[n - 1] == byte,
            };
        }
        fits = next;
    }
    fits[name.len()]
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn stars_stay_within_a_component_and_double_stars_do_not() {
        for (pattern, path) in [
            ("lib/*.so", "lib/libx.so"),
            ("**/libclang_rt.*", "lib/llvm/lib/clang/libclang_rt.asan.so"),
            ("**/libclang_rt.*", "libclang_rt.asan.so"),
            ("lib/**/x", "lib/x"),
            ("lib/lib?.so", "lib/liba.so"),
            ("**", "a/b"),
        ] {
            assert!(glob_matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in
            [("lib/*.so", "lib/a/libx.so"), ("*.so", "libx.so.1"), ("lib", "lib/x"), ("", "x")]
        {
            assert!(!glob_matches(pattern, path), "{pattern} {path}");
        }
    }
}
