//! Writes the experiment that would test the findings about a ledger.

use crate::core::{Ledger, metric};
use crate::observe::Finding;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Why no experiment can be suggested.
#[derive(Debug, thiserror::Error)]
pub enum SuggestError {
    /// Nothing to compare.
    #[error("no finding names a setting, so there is nothing to compare")]
    NoSetting,
    /// Nothing to start.
    #[error("the ledger has no process, so there is no command to start")]
    NoProcess,
}

/// The text of an experiment file with one variant for every finding that names a setting.
///
/// # Errors
/// If no finding names a setting, or the ledger has no process.
pub fn suggested_experiment(ledger: &Ledger, findings: &[Finding]) -> Result<String, SuggestError> {
    let mut variants: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for finding in findings {
        if let Some((name, value)) = &finding.setting {
            variants.insert(finding.code, (name, value));
        }
    }
    if variants.is_empty() {
        return Err(SuggestError::NoSetting);
    }
    let leader = ledger.processes.first().ok_or(SuggestError::NoProcess)?;
    let mut text = String::from(
        "# Suggested by `carat explain`. How a server was started cannot be read from outside:\n\
         # check the command, the path and the number of requests before `carat compare`.\n\
         name = \"suggested\"\n\n[server]\n",
    );
    let command = toml::Value::Array(probable_command(&leader.title));
    let _ = writeln!(text, "command = {command}");
    text.push_str("env     = { PORT = \"{port}\" }\nready   = { tcp = true }\n");
    text.push_str("\n[load.http]\npath = \"/\"\nconnections = 8\nrequests = 6000\n");
    text.push_str("\n[[variant]]\nname = \"as-it-is\"\n");
    for (code, (name, value)) in variants {
        let (code, name, value) = (quoted(code), quoted(name), quoted(value));
        let settings = format!("settings = {{ {name} = {value} }}");
        let _ = write!(text, "\n[[variant]]\nname = {code}\n{settings}\n");
    }
    let primary = match ledger.processes.len() {
        0 | 1 => metric::MEMORY_RSS_FINAL.id,
        _ => metric::MEMORY_PSS_FINAL.id,
    };
    let guards = format!("guards  = {{ \"{}\" = \"+5%\" }}", metric::LATENCY_P95.id);
    let _ = write!(text, "\n[measure]\nprimary = \"{primary}\"\n{guards}\n");
    Ok(text)
}

fn quoted(text: &str) -> toml::Value {
    toml::Value::String(text.to_owned())
}

/// The process title as a command. Puma and others overwrite their command line with a title; then it is a guess.
fn probable_command(title: &str) -> Vec<toml::Value> {
    let words: Vec<&str> = if title.starts_with("puma ") && title.contains('(') {
        vec!["puma", "-C", "config/puma.rb"]
    } else {
        title.split_ascii_whitespace().collect()
    };
    words.into_iter().map(quoted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;
    use std::path::Path;

    fn finding(code: &'static str, setting: Option<(&'static str, String)>) -> Finding {
        Finding { code, evidence: String::new(), remedy: String::new(), setting, at_most: None }
    }

    fn ledger(title: &str) -> Ledger {
        let text = format!(
            r#"{{"pid":1,"parent":null,"title":"{title}","rss":1,"pss":1,"uss":1,"swap":null,"huge":null,
            "threads":1,"basis":"proc_only","parts":[],"unexplained":0,"ruby":null,"heap":null,"returnable":null,"arenas":[],
            "allocator":{{"active":null,"loaded":[],"evidence":""}},"environment":[]}}"#
        );
        Ledger { processes: vec![serde_json::from_str(&text).unwrap()], ..Ledger::default() }
    }

    #[test]
    fn a_suggested_experiment_is_valid() {
        let findings = [
            finding("arenas", Some(("arena_max", "2".into()))),
            finding("slots-free", Some(("compact", "boot".into()))),
            finding("swap", None),
        ];
        for title in
            ["puma 5.6.5 (tcp://127.0.0.1:3000) [app]", "ruby server.rb --name \\\"x y\\\""]
        {
            let text = suggested_experiment(&ledger(title), &findings).unwrap();
            let plan = Experiment::parse(&text, Path::new("s.toml"), Path::new("."))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(plan.variants.len(), 3, "{text}");
        }
    }

    #[test]
    fn without_a_setting_no_experiment_is_suggested() {
        assert!(suggested_experiment(&ledger("x"), &[finding("swap", None)]).is_err());
    }
}
