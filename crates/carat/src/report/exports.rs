//! Results for other programs: JSON, CSV, OpenMetrics.

use crate::core::results::assign_file_facts;
use crate::core::{MachineFacts, Results, Unit, metric};
use crate::report::facts;
use crate::report::redact::{Audience, prepare};
use crate::report::text::one_line;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use thiserror::Error;

/// Name and version of the JSON's schema; the number rises when a reader of the old one would misread the new one.
pub const SCHEMA: &str = "carat.results/2";
/// The schema before it, which has one set of machine facts for the whole file.
const SCHEMA_1: &str = "carat.results/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    results: &'a Results,
}

#[derive(Deserialize)]
struct Named {
    schema: String,
}

#[derive(Deserialize)]
struct Import {
    results: Results,
}

#[derive(Deserialize)]
struct FileFacts {
    results: FileMachine,
}

#[derive(Deserialize)]
struct FileMachine {
    machine: MachineFacts,
}

/// Why a text cannot be read as exported results.
#[derive(Debug, Error)]
pub enum ImportError {
    /// Not JSON, or not of this shape.
    #[error("not results as `carat report --json` writes them: {0}")]
    Shape(#[from] serde_json::Error),
    /// Of a schema that this carat does not know.
    #[error("it has the schema `{0}`; this carat reads `{SCHEMA_1}` and `{SCHEMA}`")]
    Schema(String),
}

/// The results that [`json`] wrote.
///
/// # Errors
/// Where the text is something else, or of another schema.
pub fn from_json(text: &str) -> Result<Results, ImportError> {
    // First, because another schema may have any other shape.
    let schema = schema_of(text)?;
    if schema != SCHEMA && schema != SCHEMA_1 {
        return Err(ImportError::Schema(schema));
    }
    let Import { mut results } = serde_json::from_str(text)?;
    if schema == SCHEMA_1 {
        let facts: FileFacts = serde_json::from_str(text)?;
        assign_file_facts(&mut results.trials, &results.header.variants, &facts.results.machine);
    }
    Ok(results)
}

/// Whether a text says that it is exported results, of this version or another.
pub fn is_export(text: &str) -> bool {
    schema_of(text).is_ok_and(|schema| schema.starts_with("carat.results/"))
}

fn schema_of(text: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<Named>(text).map(|named| named.schema)
}

/// The results as JSON, in a wrapper that names the schema: `{"schema": "carat.results/2", "results": …}`.
///
/// # Errors
/// Where a figure cannot be written as JSON.
pub fn json(results: &Results, audience: Audience) -> Result<String, serde_json::Error> {
    let results = &prepare(results, audience);
    let mut text = serde_json::to_string_pretty(&Document { schema: SCHEMA, results })?;
    text.push('\n');
    Ok(text)
}

/// A row per trial (RFC 4180): what it was, how it ended, every metric in its base unit.
pub fn csv(results: &Results, audience: Audience) -> String {
    let results = &prepare(results, audience);
    let metrics: BTreeSet<&str> =
        results.trials.iter().flat_map(|trial| trial.metrics.keys().map(String::as_str)).collect();
    let mut rows = vec![
        ["experiment", "trial", "block", "position", "variant", "outcome", "started_ms", "seconds"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows[0].extend(metrics.iter().map(|name| (*name).to_owned()));
    for trial in &results.trials {
        let mut row = vec![
            results.header.name.clone(),
            trial.id.clone(),
            trial.block.to_string(),
            trial.position.to_string(),
            trial.variant.clone(),
            trial.outcome.to_string(),
            trial.started_ms.to_string(),
            trial.seconds.to_string(),
        ];
        row.extend(metrics.iter().map(|name| match trial.metrics.get(*name) {
            Some(value) if value.is_finite() => value.to_string(),
            _ => String::new(),
        }));
        rows.push(row);
    }
    rows.iter()
        .map(|row| row.iter().map(|c| cell(c)).collect::<Vec<_>>().join(",") + "\r\n")
        .collect()
}

/// One cell: quoted where it must be; what a spreadsheet would run as a formula gets an apostrophe in front.
fn cell(text: &str) -> String {
    let number = text.parse::<f64>().is_ok();
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number;
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) || formula {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// Medians, differences and outcomes as OpenMetrics text, in base units.
pub fn openmetrics(results: &Results, audience: Audience) -> String {
    let results = &prepare(results, audience);
    let mut out = String::new();
    for name in facts::metrics(results) {
        push_metric(&mut out, results, &name);
    }
    push_differences(&mut out, results);
    push_outcomes(&mut out, results);
    out.push_str("# EOF\n");
    out
}

fn push_metric(out: &mut String, results: &Results, name: &str) {
    let unit = match metric::find(name).map(|known| known.unit) {
        Some(Unit::Bytes) => "bytes",
        Some(Unit::Seconds) => "seconds",
        Some(Unit::Fraction) => "ratio",
        Some(Unit::PerSecond) => "per_second",
        Some(Unit::Count) | None => "",
    };
    let mut family = format!("carat_{}", snake(name));
    if !unit.is_empty() && !family.ends_with(unit) {
        family = format!("{family}_{unit}");
    }
    let _ = writeln!(out, "# TYPE {family} gauge");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {family} {unit}");
    }
    let _ = writeln!(out, "# HELP {family} {}", label(&facts::heading(name)));
    for variant in &results.header.variants {
        let Some(spread) = facts::variant_summary(results, &variant.name, name) else { continue };
        for (stat, value) in [("median", spread.median), ("min", spread.min), ("max", spread.max)] {
            let labels = labels(results, &[("variant", &variant.name), ("stat", stat)]);
            let _ = writeln!(out, "{family}{{{labels}}} {value}");
        }
    }
}

fn push_differences(out: &mut String, results: &Results) {
    let family = "carat_difference_ratio";
    let _ = writeln!(out, "# TYPE {family} gauge\n# UNIT {family} ratio");
    let _ = writeln!(out, "# HELP {family} Relative difference to the baseline with its interval");
    for conclusion in &results.conclusions {
        let Some(estimate) = conclusion.estimate else { continue };
        let (lower, upper) = estimate.ratio_interval;
        for (bound, value) in [("estimate", estimate.ratio), ("lower", lower), ("upper", upper)] {
            let named = [
                ("variant", conclusion.variant.as_str()),
                ("metric", &conclusion.metric),
                ("bound", bound),
            ];
            let _ = writeln!(out, "{family}{{{}}} {value}", labels(results, &named));
        }
    }
}

fn push_outcomes(out: &mut String, results: &Results) {
    let _ = writeln!(out, "# TYPE carat_trials gauge\n# HELP carat_trials Trials by outcome");
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for trial in &results.trials {
        *counts.entry((&trial.variant, trial.outcome.word())).or_default() += 1;
    }
    for ((variant, outcome), count) in counts {
        let labels = labels(results, &[("variant", variant), ("outcome", outcome)]);
        let _ = writeln!(out, "carat_trials{{{labels}}} {count}");
    }
}

fn labels(results: &Results, named: &[(&str, &str)]) -> String {
    let all =
        std::iter::once(("experiment", results.header.name.as_str())).chain(named.iter().copied());
    all.map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect::<Vec<_>>().join(",")
}

fn label(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

fn snake(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_schema_are_told_whatever_their_shape() {
        let error = from_json("{\"schema\": \"carat.results/9\", \"trials\": 3}").unwrap_err();
        assert!(error.to_string().contains("`carat.results/9`"), "{error}");
        assert!(matches!(from_json("{}"), Err(ImportError::Shape(_))));
    }

    #[test]
    fn a_spreadsheet_runs_no_cell() {
        for (given, written) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("-12.5", "-12.5"),
            ("+1e3", "+1e3"),
            ("-x", "\"'-x\""),
        ] {
            assert_eq!(cell(given), written, "{given}");
        }
    }
}
