//! A document in YAML as the value that it would have in JSON.

use crate::http::replay::shown::shown;
use serde_json::Value;
use serde_saphyr::Error;

// An alias repeats what its anchor names, so a short document can have many values. What aliases repeat counts in every
// limit.

/// Scalars, maps and lists.
const VALUES_MAX: usize = 2_000_000;
/// Bytes of all scalars.
const TEXT_MAX: usize = 64 * 1024 * 1024;
/// Maps and lists within each other: the parser needs the stack for each.
const DEPTH_MAX: usize = 64;
/// Values that aliases repeat.
const REPEATED_MAX: usize = 250_000;

/// Reads one document. Keys are texts, and only `true` and `false` are truth values, as in YAML 1.2.
///
/// # Errors
/// If it is malformed, or would take too much memory; the message says where.
pub(super) fn read_yaml(content: &[u8]) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: VALUES_MAX,
            // A map or a list ends by an event of its own.
            max_events: 2 * VALUES_MAX,
            max_depth: DEPTH_MAX,
            max_total_scalar_bytes: TEXT_MAX,
            // Many aliases of one anchor are usual in generated documents, and the other limits bound them.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPEATED_MAX },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(content, options).map_err(|error| {
        let what = shown(&error.to_string());
        match is_too_much(&error) {
            true => format!("it has too many values ({what}): keep fewer paths"),
            false => what,
        }
    })
}

fn is_too_much(error: &Error) -> bool {
    match error {
        // Of a value that an alias repeats.
        Error::AliasError { error, .. } => is_too_much(error),
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_has_the_values_that_it_would_have_in_json() {
        let text = "---\nopenapi: 3.1.0\nversion: 3.1\n'on': yes\n200: [1, -2, true, null, ~]\n\
                    base: &base\n  a: \"x\\ty\"\n  b: |\n    one\n    two\n\
                    same: *base\nmore:\n  <<: *base\n  c: 2026-11-22\n";
        let base = json!({ "a": "x\ty", "b": "one\ntwo\n" });
        let expected = json!({
            "openapi": "3.1.0",
            "version": 3.1,
            "on": "yes",
            "200": [1, -2, true, null, null],
            "base": base,
            "same": base,
            "more": { "a": "x\ty", "b": "one\ntwo\n", "c": "2026-11-22" },
        });
        assert_eq!(read_yaml(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn what_is_malformed_says_where() {
        for text in ["a: [1", "a: 1\n b: 2", "a: *none", "a: 'x", "a: 1\na: 2", "a: 1\n---\nb: 2"] {
            let error = read_yaml(text.as_bytes()).unwrap_err();
            assert!(error.contains("line "), "{text}: {error}");
        }
        assert!(read_yaml(b"a: \xff").is_err());
    }

    /// A list of ten aliases of the list before it, so many times.
    fn laughs(levels: usize) -> String {
        let mut text = "l0: &l0 x\n".to_owned();
        for level in 1..=levels {
            let before = vec![format!("*l{}", level - 1); 10].join(", ");
            text.push_str(&format!("l{level}: &l{level} [{before}]\n"));
        }
        text
    }

    #[test]
    fn aliases_that_would_take_too_much_memory_are_refused() {
        assert_eq!(read_yaml(laughs(3).as_bytes()).unwrap()["l3"][9][9][9], "x");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 400].join(", "));
        let deep: String = (1..100).fold("a0: &a0 x\n".to_owned(), |text, level| {
            format!("{text}a{level}: &a{level} [[[[*a{}]]]]\n", level - 1)
        });
        let nested = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let itself = "a: &a [*a]".to_owned();
        for text in [laughs(9), long, deep] {
            let error = read_yaml(text.as_bytes()).unwrap_err();
            assert!(error.contains("too many values") && error.contains("fewer paths"), "{error}");
        }
        assert!(read_yaml(nested.as_bytes()).is_err());
        assert!(read_yaml(itself.as_bytes()).is_err());
    }
}
