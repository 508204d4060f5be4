//! Results for other programs: JSON, CSV, OpenMetrics, and reading that JSON.

use crate::facts;
use crate::lists::counted;
use crate::part_differences::{VariantParts, part_differences};
use crate::text::one_line;
use carat_model::results::assign_file_facts;
use carat_model::{Conclusion, MachineFacts, Results, Unit, metric};
use carat_redact::{Audience, redact_results};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use thiserror::Error;

/// Name and version of the schema of the JSON. The version rises if a reader of the old one would misread the new one.
pub const SCHEMA: &str = "carat.results/2";
/// The schema where variants have controls: a reader that ignores them draws other conclusions from the trials.
pub const SCHEMA_WITH_CONTROLS: &str = "carat.results/3";
/// The schema before it, which has one set of machine facts for the whole file.
const SCHEMA_1: &str = "carat.results/1";

#[derive(Serialize)]
struct ExportedResults<'a> {
    schema: &'static str,
    results: &'a Results,
    /// Computed from the ledgers among the samples, for readers; not read back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    part_differences: Vec<Value>,
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: String,
}

#[derive(Deserialize)]
struct ImportedResults {
    results: Results,
}

/// Why a text cannot be read as exported results.
#[derive(Debug, Error)]
pub enum ImportError {
    /// Not JSON, or of another structure.
    #[error("not results as `carat report --json` writes them: {0}")]
    Shape(#[from] serde_json::Error),
    /// Of a schema that this version does not know.
    #[error(
        "its schema is `{0}`; this version of carat reads `{SCHEMA_1}`, `{SCHEMA}` and `{SCHEMA_WITH_CONTROLS}`"
    )]
    Schema(String),
    /// A number that no trial can have.
    #[error("{0}")]
    Impossible(String),
}

/// Reads what [`json`] wrote.
///
/// # Errors
/// If the text is something else, or of another schema.
pub fn from_json(text: &str) -> Result<Results, ImportError> {
    // First, because results of another schema may have any structure.
    let schema = schema_of(text)?;
    if ![SCHEMA_1, SCHEMA, SCHEMA_WITH_CONTROLS].contains(&schema.as_str()) {
        return Err(ImportError::Schema(schema));
    }
    let ImportedResults { mut results } = serde_json::from_str(text)?;
    for trial in &results.trials {
        let mut metrics = trial.metrics.iter();
        if let Some(why) = metrics.find_map(|(id, value)| metric::impossible(id, *value)) {
            let why = format!("in trial {}: {why}", one_line(&trial.id));
            return Err(ImportError::Impossible(why));
        }
    }
    if schema == SCHEMA_1 {
        let mut file: Value = serde_json::from_str(text)?;
        let facts: MachineFacts = serde_json::from_value(file["results"]["machine"].take())?;
        assign_file_facts(&mut results.trials, &results.info.variants, &facts);
    }
    Ok(results)
}

/// Whether a text is exported results by its schema, of this or another version.
pub fn is_export(text: &str) -> bool {
    schema_of(text).is_ok_and(|schema| schema.starts_with("carat.results/"))
}

/// The schema that a text of JSON names.
pub(crate) fn schema_of(text: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<SchemaOnly>(text).map(|found| found.schema)
}

/// The results as JSON, in a wrapper that names the schema: `{"schema": "carat.results/2", "results": …}`, or 3 where
/// variants have controls.
///
/// # Errors
/// If a value cannot be written as JSON.
pub fn json(results: &Results, audience: Audience) -> Result<String, serde_json::Error> {
    let results = &redact_results(results, audience);
    // Only where controls exist, so that older readers keep reading what they can.
    let controls = results.info.variants.iter().any(|variant| !variant.controls.is_empty());
    let schema = if controls { SCHEMA_WITH_CONTROLS } else { SCHEMA };
    let part_differences = part_differences(results).iter().map(VariantParts::in_json).collect();
    let export = ExportedResults { schema, results, part_differences };
    let mut text = serde_json::to_string_pretty(&export)?;
    text.push('\n');
    Ok(text)
}

/// The columns of the CSV before those of the metrics.
pub(crate) const CSV_COLUMNS: [&str; 9] = [
    "experiment",
    "trial",
    "block",
    "position",
    "variant",
    "outcome",
    "started_ms",
    "seconds",
    "warmup_block",
];

/// A row per trial (RFC 4180): its position, its outcome, whether it is in the unscored warm-up block, and every metric in its base unit.
pub fn csv(results: &Results, audience: Audience) -> String {
    let results = &redact_results(results, audience);
    let metrics: BTreeSet<&str> =
        results.trials.iter().flat_map(|trial| trial.metrics.keys().map(String::as_str)).collect();
    let mut writer =
        // RFC 4180 wants CRLF between lines.
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory cannot fail, and all rows have the same length.
    let _ = writer.write_record(CSV_COLUMNS.iter().chain(&metrics).map(|name| cell(name)));
    for trial in &results.trials {
        let cells: [String; CSV_COLUMNS.len()] = [
            results.info.name.clone(),
            trial.id.clone(),
            trial.block.to_string(),
            trial.position.to_string(),
            trial.variant.clone(),
            trial.outcome.to_string(),
            trial.started_ms.to_string(),
            trial.seconds.to_string(),
            (trial.block == 0).to_string(),
        ];
        let values = metrics.iter().map(|name| {
            // A spreadsheet would read `NaN` as text and sort it among the numbers.
            let value = trial.metrics.get(*name).filter(|value| value.is_finite());
            value.map_or_else(String::new, f64::to_string)
        });
        let _ = writer.write_record(cells.into_iter().chain(values).map(|text| cell(&text)));
    }
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

/// A cell with an apostrophe in front if a spreadsheet would execute it as a formula.
fn cell(text: &str) -> String {
    // Negative numbers begin like a formula and must stay numbers.
    let number = text.parse::<f64>().is_ok();
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number;
    if formula { format!("'{text}") } else { text.to_owned() }
}

/// Medians, differences and outcomes as OpenMetrics text, in base units.
pub fn openmetrics(results: &Results, audience: Audience) -> String {
    let results = &redact_results(results, audience);
    let mut out = String::new();
    for name in facts::metrics(results) {
        push_metric(&mut out, results, name);
    }
    let of_baseline = results.conclusions.iter().map(|conclusion| (None, conclusion));
    let family = ("carat_difference_ratio", "the baseline");
    push_differences(&mut out, results, family, of_baseline);
    // A family of its own: a reader of the other one adds or charts its series by variant.
    if !results.controls.is_empty() {
        let of_controls = results.controls.iter();
        let of_controls = of_controls.map(|one| (Some(one.control.as_str()), &one.conclusion));
        let family = ("carat_control_difference_ratio", "a control");
        push_differences(&mut out, results, family, of_controls);
    }
    push_outcomes(&mut out, results);
    out.push_str("# EOF\n");
    out
}

fn push_metric(out: &mut String, results: &Results, name: &str) {
    let unit = match metric::find(name).map(|known| known.unit) {
        Some(Unit::Bytes) => "bytes",
        Some(Unit::Seconds) => "seconds",
        Some(Unit::Fraction | Unit::Ratio) => "ratio",
        Some(Unit::PerSecond) => "per_second",
        Some(Unit::Count) | None => "",
    };
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let mut family = format!("carat_{}", name.chars().map(letter).collect::<String>());
    // OpenMetrics requires the unit as the suffix of the family's name.
    if !unit.is_empty() && !family.ends_with(unit) {
        family = format!("{family}_{unit}");
    }
    let _ = writeln!(out, "# TYPE {family} gauge");
    // A family without a unit must not declare an empty one.
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {family} {unit}");
    }
    let _ = writeln!(out, "# HELP {family} {}", label(&facts::heading(name)));
    for variant in &results.info.variants {
        let Some(spread) = facts::variant_summary(results, &variant.name, name) else { continue };
        for (stat, value) in [("median", spread.median), ("min", spread.min), ("max", spread.max)] {
            let labels = labels(results, &[("variant", &variant.name), ("stat", stat)]);
            let _ = writeln!(out, "{family}{{{labels}}} {value}");
        }
    }
}

/// A family of differences, each with the name of its control if it has one.
fn push_differences<'a>(
    out: &mut String,
    results: &Results,
    (family, to): (&str, &str),
    all: impl Iterator<Item = (Option<&'a str>, &'a Conclusion)>,
) {
    let _ = writeln!(out, "# TYPE {family} gauge\n# UNIT {family} ratio");
    let _ = writeln!(out, "# HELP {family} Relative difference to {to} with its interval");
    for (control, conclusion) in all {
        // The family is of ratios.
        let Some(estimate) = conclusion.estimate.filter(|one| !one.in_own_unit) else { continue };
        let (lower, upper) = estimate.ratio_interval;
        for (bound, value) in [("estimate", estimate.ratio), ("lower", lower), ("upper", upper)] {
            let mut named = vec![("variant", conclusion.variant.as_str())];
            named.extend(control.map(|control| ("control", control)));
            named.extend([("metric", conclusion.metric.as_str()), ("bound", bound)]);
            let _ = writeln!(out, "{family}{{{}}} {value}", labels(results, &named));
        }
    }
}

fn push_outcomes(out: &mut String, results: &Results) {
    let _ = writeln!(out, "# TYPE carat_trials gauge\n# HELP carat_trials Trials by outcome");
    let outcomes = results.trials.iter().map(|one| (one.variant.as_str(), one.outcome.word()));
    for ((variant, outcome), count) in counted(outcomes) {
        let labels = labels(results, &[("variant", variant), ("outcome", outcome)]);
        let _ = writeln!(out, "carat_trials{{{labels}}} {count}");
    }
}

fn labels(results: &Results, named: &[(&str, &str)]) -> String {
    let all =
        std::iter::once(("experiment", results.info.name.as_str())).chain(named.iter().copied());
    all.map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect::<Vec<_>>().join(",")
}

fn label(text: &str) -> String {
    // Backslash and quote are special in OpenMetrics; line breaks are gone already.
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_is_named_whatever_the_structure() {
        let error = from_json("{\"schema\": \"carat.results/9\", \"trials\": 3}").unwrap_err();
        assert!(error.to_string().contains("`carat.results/9`"), "{error}");
        assert!(matches!(from_json("{}"), Err(ImportError::Shape(_))));
    }

    #[test]
    fn a_spreadsheet_executes_no_cell() {
        for (given, written) in [
            ("plain", "plain"),
            ("a,b", "a,b"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-12.5", "-12.5"),
            ("+1e3", "+1e3"),
            ("-x", "'-x"),
        ] {
            assert_eq!(cell(given), written, "{given}");
        }
    }
}
