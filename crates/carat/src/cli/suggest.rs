//! Writes the experiment that would prove what a ledger suggests.

use crate::core::{Ledger, metric};
use crate::observe::Finding;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The text of an experiment file with one variant for every finding that names a setting.
pub(crate) fn experiment_file(ledger: &Ledger, findings: &[Finding]) -> anyhow::Result<String> {
    let mut variants: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for finding in findings {
        if let Some((name, value)) = &finding.setting {
            variants.insert(finding.code, (name, value));
        }
    }
    if variants.is_empty() {
        bail!("no finding names a setting, so there is nothing to compare");
    }
    let leader = ledger.processes.first().context("there is no process to start")?;
    let mut text = String::from(
        "# Suggested by `carat explain`. A running server does not tell how it was started:\n\
         # check the command, the path and the number of requests before `carat compare`.\n\
         name = \"suggested\"\n\n[server]\n",
    );
    let command = toml::Value::Array(started_as(&leader.title));
    writeln!(text, "command = {command}")?;
    text.push_str("env     = { PORT = \"{port}\" }\nready   = { tcp = true }\n");
    text.push_str("\n[load.http]\npath = \"/\"\nconnections = 8\nrequests = 6000\n");
    text.push_str("\n[[variant]]\nname = \"as-it-is\"\n");
    for (code, (name, value)) in variants {
        let (name, value) = (quoted(name), quoted(value));
        write!(
            text,
            "\n[[variant]]\nname = {}\nsettings = {{ {name} = {value} }}\n",
            quoted(code)
        )?;
    }
    let primary = match ledger.processes.len() {
        0 | 1 => metric::MEMORY_RSS_FINAL.id,
        _ => metric::MEMORY_PSS_FINAL.id,
    };
    let guard = metric::LATENCY_P95.id;
    write!(text, "\n[measure]\nprimary = \"{primary}\"\nguards  = {{ \"{guard}\" = \"+5%\" }}\n")?;
    Ok(text)
}

fn quoted(text: &str) -> toml::Value {
    toml::Value::String(text.to_owned())
}

/// Puma and others replace their command line by a title, from which the usual command is a guess.
fn started_as(title: &str) -> Vec<toml::Value> {
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
    fn what_is_suggested_is_an_experiment_that_carat_accepts() {
        let findings = [
            finding("arenas", Some(("arena_max", "2".into()))),
            finding("slots-free", Some(("compact", "boot".into()))),
            finding("swap", None),
        ];
        for title in
            ["puma 5.6.5 (tcp://127.0.0.1:3000) [app]", "ruby server.rb --name \\\"x y\\\""]
        {
            let text = experiment_file(&ledger(title), &findings).unwrap();
            let plan = Experiment::parse(&text, Path::new("s.toml"), Path::new("."))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(plan.variants.len(), 3, "{text}");
        }
    }

    #[test]
    fn without_a_setting_there_is_nothing_to_write() {
        assert!(experiment_file(&ledger("x"), &[finding("swap", None)]).is_err());
    }
}
