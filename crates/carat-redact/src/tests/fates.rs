//! What became of every field, as lines of a table.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A text with an escape sequence, a secret, a private folder and a name; longer than any line that is shown.
pub(super) static TELLTALE: LazyLock<String> = LazyLock::new(|| {
    format!("a\u{1b}[1m\ntoken=s3cret in /home/annabel/x by annabel{}", " app".repeat(120))
});

/// The telltale without what must not be seen in an own and in a shared report.
static SHOWN: LazyLock<[String; 2]> = LazyLock::new(|| {
    let own = TELLTALE.replace("\u{1b}[1m", "").replace("s3cret", "[hidden]");
    let shared = own.replace("/home/annabel/x", "…/[file]").replace("annabel", "[name]");
    [own, shared]
});

/// A line per field: where it is, and what an own and a shared report have of it.
///
/// `text` is all of the telltale but what the audience must not see; `line` is that on one line of at most 500 characters,
/// `title` of 400, `name` of 120; `-` is nothing.
pub(super) fn fates<T: Serialize>(given: &T, own: &T, shared: &T) -> BTreeSet<String> {
    let [given, own, shared] = [given, own, shared]
        .map(|value| serde_json::to_value(value).expect("every content can be written"));
    let mut lines = BTreeSet::new();
    add_fates(&given, [Some(&own), Some(&shared)], "", &mut lines);
    lines
}

fn add_fates(given: &Value, shown: [Option<&Value>; 2], path: &str, lines: &mut BTreeSet<String>) {
    match given {
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                let below = shown.map(|shown| shown?.get(place));
                add_fates(value, below, &format!("{path}[]"), lines);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if *name == *TELLTALE {
                    // The name of an entry is a text like others.
                    let entry = shown.map(|shown| shown?.as_object()?.iter().next());
                    let names = entry.map(|entry| Some(Value::from(entry?.0.as_str())));
                    let names = names.each_ref().map(Option::as_ref);
                    add_fates(&Value::from(name.as_str()), names, &format!("{path} name"), lines);
                    let below = entry.map(|entry| Some(entry?.1));
                    add_fates(value, below, &format!("{path} value"), lines);
                } else {
                    let below = shown.map(|shown| shown?.get(name));
                    add_fates(value, below, &format!("{path}.{name}"), lines);
                }
            }
        }
        Value::Null => {}
        // Figures and words of Carat's own are worth a line only where they change.
        other if *other != *TELLTALE && shown == [Some(other); 2] => {}
        _ => {
            let [own, shared] = [0, 1].map(|audience| fate(shown[audience], &SHOWN[audience]));
            lines.insert(format!("{} {own} | {shared}", path.trim_start_matches('.')));
        }
    }
}

fn fate(shown: Option<&Value>, text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = |most: usize| format!("{}…", line.chars().take(most - 1).collect::<String>());
    match shown {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(shown)) if *shown == *TELLTALE => "as given".to_owned(),
        Some(Value::String(shown)) if shown == text => "text".to_owned(),
        Some(Value::String(shown)) if *shown == cut(500) => "line".to_owned(),
        Some(Value::String(shown)) if *shown == cut(400) => "title".to_owned(),
        Some(Value::String(shown)) if *shown == cut(120) => "name".to_owned(),
        Some(other) => other.to_string().replace(" app", ""),
    }
}

/// Compares the lines with those of a table, and names every line that differs.
pub(super) fn assert_fates(found: &BTreeSet<String>, table: &str) {
    // The columns of a table are aligned for its readers.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: BTreeSet<String> = table.lines().map(words).collect();
    let more: Vec<_> = found.difference(&expected).collect();
    let less: Vec<_> = expected.difference(found).collect();
    assert!(more.is_empty() && less.is_empty(), "found {more:#?}\nand not {less:#?}");
}
