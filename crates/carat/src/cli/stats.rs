//! `carat stats`: the whole analysis again, from stored trials, also of another question.

use crate::analysis::growth::{cause, sentence};
use crate::analysis::{Question, conclude};
use crate::cli::{Exit, output};
use crate::config::{Percent, find_metric};
use crate::core::{Results, Role, Verdict};
use crate::report::{Audience, Style, json, load_results, terminal};
use crate::run::experiment::question;
use clap::Args;
use std::io;
use std::path::PathBuf;

/// Arguments of `carat stats`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat stats rails-hello.carat
  carat stats rails-hello.carat --metric latency.p95 --margin 2%
  carat stats rails-hello.carat --baseline jemalloc --guard throughput=2%")]
pub(crate) struct StatsArgs {
    /// Results file that `carat compare` wrote, or its JSON
    results: PathBuf,
    /// Metric that decides, repeated for several that share the error [default: the experiment's]
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Difference that does not matter, such as 0.25% [default: the experiment's]
    #[arg(long, value_parser = Percent::parse)]
    margin: Option<Percent>,
    /// Variant that the others are compared with [default: the experiment's first]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// Metric that may get worse by at most so much, such as latency.p95=5% [default: the
    /// experiment's]
    #[arg(long, value_name = "METRIC=LIMIT", value_parser = guard)]
    guard: Vec<(String, f64)>,
    /// Chance of claiming any difference where there is none
    #[arg(long, default_value = "5%", value_parser = error_rate)]
    error: f64,
    /// Also say what every part of every variant's memory does during its load
    #[arg(long, conflicts_with = "json")]
    growth: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// A question that the results file cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatsError {
    /// No variant has that name.
    #[error("no variant `{name}` in {}; it has {known}", path.display())]
    Variant {
        /// What was asked for.
        name: String,
        /// The results file.
        path: PathBuf,
        /// The names that there are.
        known: String,
    },
    /// No metric has that name.
    #[error("{0}; `carat report --json` lists those that were measured")]
    Metric(String),
}

pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<Exit> {
    let mut results = load_results(&args.results)?;
    let planned = question(&results.header);
    let asked = asked(args, &planned)?;
    ask(&mut results, &asked);
    conclude(&mut results, &asked);
    if asked != planned {
        output::print_message(
            "note: this is not the question that the trials were run for; chosen after seeing them, \
             its answer is a hint to test, not evidence",
        );
    }
    if args.json {
        output::print_data(&json(&results, Audience::Own)?)?;
    } else {
        let colour = output::colour(&io::stdout(), output::variable);
        output::print_data(&terminal(&results, Style { colour, width: output::width() }))?;
    }
    if args.growth {
        output::print_data(&growth(&results))?;
    }
    let mut primaries = results.conclusions.iter().filter(|c| c.role == Role::Primary);
    let undecided = primaries.any(|c| c.verdict == Verdict::Undecided);
    Ok(if undecided { Exit::Undecided } else { Exit::Fine })
}

/// Every part of every variant's memory during the load.
fn growth(results: &Results) -> String {
    let mut text = "\nDuring the load, all trials of a variant together:\n".to_owned();
    for growth in &results.growth {
        for part in &growth.parts {
            text.push_str(&format!("  {}: {}\n", growth.variant, sentence(part)));
        }
        if let Some(cause) = cause(&growth.parts) {
            text.push_str(&format!("  {}: {cause}\n", growth.variant));
        }
    }
    if results.growth.is_empty() {
        text.push_str("  no samples during the load\n");
    }
    text
}

/// The question of the file, changed as the user asks.
fn asked(args: &StatsArgs, planned: &Question) -> Result<Question, StatsError> {
    let mut asked = planned.clone();
    if let Some((primary, others)) = args.metric.split_first() {
        asked.primary = primary.clone();
        asked.also_primary = others.to_vec();
        asked.guards.retain(|(name, _)| !args.metric.contains(name));
    }
    if let Some(margin) = args.margin {
        asked.margin = margin.0;
    }
    if !args.guard.is_empty() {
        asked.guards = args.guard.clone();
    }
    if let Some(baseline) = &args.baseline {
        let Some(place) = asked.variants.iter().position(|name| name == baseline) else {
            return Err(StatsError::Variant {
                name: baseline.clone(),
                path: args.results.clone(),
                known: asked.variants.join(", "),
            });
        };
        asked.variants[..=place].rotate_right(1);
    }
    asked.alpha = args.error;
    for name in asked.primaries().chain(asked.guards.iter().map(|(name, _)| name.as_str())) {
        find_metric(name).map_err(StatsError::Metric)?;
    }
    Ok(asked)
}

/// Puts the question in the place of the file's own.
fn ask(results: &mut Results, asked: &Question) {
    let place = |name: &str| asked.variants.iter().position(|variant| variant == name);
    results.header.variants.sort_by_key(|variant| place(&variant.name));
    results.header.primary = asked.primary.clone();
    results.header.margin = asked.margin;
}

fn guard(text: &str) -> Result<(String, f64), String> {
    let (name, limit) =
        text.split_once('=').ok_or("write for example latency.p95=5%".to_owned())?;
    Ok((name.trim().to_owned(), Percent::parse(limit)?.0))
}

fn error_rate(text: &str) -> Result<f64, String> {
    let rate = Percent::parse(text)?.0;
    let sensible = (0.0001..=0.5).contains(&rate);
    sensible.then_some(rate).ok_or(format!("`{text}` is not between 0.01% and 50%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_and_error_rates_are_read() {
        assert_eq!(guard("latency.p95=+5%"), Ok(("latency.p95".to_owned(), 0.05)));
        assert!(guard("latency.p95").is_err() && guard("errors=few").is_err());
        assert_eq!(error_rate("1%"), Ok(0.01));
        assert!(error_rate("0%").is_err() && error_rate("60%").is_err());
    }
}
