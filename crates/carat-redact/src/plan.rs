//! The experiment file of a shared report: without comments, and without the values that may say whose it is.

use crate::forms::{common_title, is_common_text, is_kept_variable, is_plain_value};
use crate::rules::RedactionRules;
use carat_model::{HIDDEN, is_secret_name};
use std::collections::BTreeSet;
use toml::Value;

/// Shorter values are not searched for in other texts.
const SHORTEST_VALUE: usize = 4;

/// Stands before a text that lost something.
const NOTE: &str = "# [hidden]: comments, and what may name its owner\n";
/// Keys whose values are what a user of the server sends.
const SENT: [&str; 7] = ["headers", "form", "json", "body", "cookies", "multipart", "data_text"];

/// What the values of a table or an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Plain,
    Variable,
    CommandWord,
    Sent,
}

/// The plan for a shared report: as it is if nothing in it is private.
pub(crate) fn shared_plan(text: &str, rules: &RedactionRules) -> String {
    // What is no TOML has no keys by which values could be judged.
    let Ok(table) = text.parse::<toml::Table>() else { return rules.text(text) };
    let shown = shown_table(&table, ValueKind::Plain, rules);
    // A comment may say anything, and writing the table leaves comments out.
    if shown == table && !text.contains('#') {
        return text.to_owned();
    }
    // A table that was read can be written.
    let written = toml::to_string(&shown).unwrap_or_else(|_| HIDDEN.to_owned());
    format!("{NOTE}{written}")
}

fn shown_table(table: &toml::Table, kind: ValueKind, rules: &RedactionRules) -> toml::Table {
    let values = table.iter().map(|(key, value)| {
        let below = match (kind, key.as_str()) {
            // Everything below is what users of the server send.
            (ValueKind::Sent, _) => kind,
            (_, "env") => ValueKind::Variable,
            (_, "command") => ValueKind::CommandWord,
            (_, key) if SENT.contains(&key) => ValueKind::Sent,
            _ => kind,
        };
        (rules.text(key), shown_value(key, value, below, rules))
    });
    values.collect()
}

fn shown_value(key: &str, value: &Value, kind: ValueKind, rules: &RedactionRules) -> Value {
    let text = match value {
        Value::Table(table) => return Value::Table(shown_table(table, kind, rules)),
        Value::Array(values) => {
            let shown = values.iter().map(|value| shown_value(key, value, kind, rules));
            return Value::Array(shown.collect());
        }
        Value::String(text) => text,
        // A number or a date says nothing unless its name is that of a secret.
        _ if is_secret_name(key) || kind == ValueKind::Sent => return HIDDEN.into(),
        other => return other.clone(),
    };
    Value::String(match kind {
        ValueKind::Sent => HIDDEN.to_owned(),
        ValueKind::CommandWord => common_title(&rules.text(text)),
        ValueKind::Variable => rules.variable(key, text),
        ValueKind::Plain => rules.value(key, text),
    })
}

/// The values of environment variables in a plan that may be private: they may stand in any other text, too.
pub(crate) fn private_values(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        collect_private(&Value::Table(table), false, &mut found);
    }
    found
}

fn collect_private(value: &Value, in_env: bool, found: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                match value {
                    Value::String(text) if in_env && is_private_value(key, text) => {
                        found.insert(text.clone());
                    }
                    _ => collect_private(value, in_env || key == "env", found),
                }
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| collect_private(value, in_env, found));
        }
        _ => {}
    }
}

fn is_private_value(name: &str, value: &str) -> bool {
    let said = is_kept_variable(name) || is_plain_value(name, value) || is_common_text(value);
    value.len() >= SHORTEST_VALUE && !said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Audience;

    #[test]
    fn a_plan_that_names_nobody_is_shared_as_it_is() {
        let plan = "name = \"x\"\n[server]\ncommand = [\"puma\", \"-w\", \"2\"]\nenv = { WORKERS = \"2\" }\n";
        assert_eq!(shared_plan(plan, &RedactionRules::of(Audience::Shared)), plan);
    }

    #[test]
    fn private_values_of_variables_are_known_wherever_they_stand() {
        let plan = "[server.env]\nFEED = \"acme\"\nYJIT = \"on\"\nNAME = \"puma\"\n[[variant]]\nenv = { b = \"wallaby\" }";
        assert_eq!(private_values(plan).into_iter().collect::<Vec<_>>(), ["acme", "wallaby"]);
    }

    #[test]
    fn comments_values_and_words_that_may_name_the_owner_are_left_out_of_a_shared_plan() {
        let plan = r#"
            name = "x" # for acme
            [server]
            command = ["puma", "--tag", "acme", "-C", "apps/acme/puma.rb"]
            env = { customer = "acme", ACME = """acme "and" more""", PORTAL_CUSTOMER = "acme", YJIT = "on" }
            [load.http]
            path = "/customers/acme"
            headers = { X-Customer = "acme" }
            [[load.http.scenario]]
            name = "a"
            [[load.http.scenario.step]]
            post = "/login"
            json = { user = "acme", n = 7 }
        "#;
        let rules = RedactionRules::of(Audience::Shared);
        let shown = shared_plan(plan, &rules);
        assert!(
            !shown.replace("ACME = \"[hidden]\"", "").to_lowercase().contains("acme"),
            "{shown}"
        );
        assert!(shown.contains("YJIT = \"on\"") && shown.contains("…/puma.rb"), "{shown}");
        assert!(shown.contains("post = \"/login\""), "{shown}");
        assert_eq!(shared_plan(&shown, &rules), shown, "it can be shared again");
    }

    #[test]
    fn a_comment_or_a_private_value_alone_is_left_out_of_a_shared_plan() {
        let rules = RedactionRules::of(Audience::Shared);
        for (plan, shown) in [
            ("port = 3000 # of acme\n", "port = 3000\n"),
            ("token = \"acme\"\n", "token = \"[hidden]\"\n"),
            ("session_key = 7\nport = 3000\n", "port = 3000\nsession_key = \"[hidden]\"\n"),
            ("path = \"/srv/acme/app\"\n", "path = \"…/app\"\n"),
            ("[json]\nn = 7\nenv = \"on\"\n", "[json]\nenv = \"[hidden]\"\nn = \"[hidden]\"\n"),
            ("[env]\nCITY = \"acme\"\nN = 7\n", "[env]\nCITY = \"[hidden]\"\nN = 7\n"),
            ("command = [\"puma\", \"acme\"]\n", "command = [\"puma\", \"…\"]\n"),
        ] {
            assert_eq!(shared_plan(plan, &rules), format!("{NOTE}{shown}"), "{plan}");
        }
        assert_eq!(shared_plan("no plan of /srv/acme/app", &rules), "no plan of …/app");
    }

    #[test]
    fn a_value_is_private_if_it_is_long_enough_and_says_nothing_that_is_common() {
        for (name, value, private) in [
            ("CITY", "oslo", true),
            ("CITY", "ulm", false),
            ("CITY", "puma", false),
            ("CITY", "debug", false),
            ("CITY", "123456", false),
            ("RUBY_GC_X", "oslo", false),
        ] {
            assert_eq!(is_private_value(name, value), private, "{name}={value}");
        }
        let plan = "note = \"oslo\"\n[[variant]]\nenv = { deep = { CITY = \"wallaby\", N = 7 } }\n[server]\nhost = \"bergen\"\n";
        assert_eq!(private_values(plan).into_iter().collect::<Vec<_>>(), ["wallaby"]);
        assert!(private_values("no plan").is_empty());
    }
}
