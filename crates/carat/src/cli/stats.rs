//! `carat stats`: analyses stored trials again, also for another question.

use crate::cli::{Exit, output};
use crate::config::Percent;
use crate::input::load_results;
use crate::work::next_for_file;
use carat_analysis::conclude;
use carat_analysis::{QuestionChanges, question, set_question};
use carat_report::{Audience, json, variant_growth_text};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat stats rails-hello.carat
  carat stats rails-hello.carat --metric latency.p95 --margin 2%
  carat stats rails-hello.carat --baseline jemalloc --guard throughput=2%")]
pub(crate) struct StatsArgs {
    /// Results file of `carat compare`, or its JSON
    results: PathBuf,
    /// Metric that decides; several share the error probability [default: the experiment's]
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Difference that does not matter, such as 0.25% [default: the experiment's]
    #[arg(long, value_parser = Percent::parse)]
    margin: Option<Percent>,
    /// Variant that the others are compared with [default: the experiment's first]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// Metric that may become worse by at most this much, such as latency.p95=5% [default: the
    /// experiment's]
    #[arg(long, value_name = "METRIC=LIMIT", value_parser = guard)]
    guard: Vec<(String, f64)>,
    /// Probability of claiming any difference where there is none
    #[arg(long, default_value = "5%", value_parser = error_rate)]
    error: f64,
    /// Also print how each part of every variant's memory changes during its load
    #[arg(long, conflicts_with = "json")]
    growth: bool,
    /// Print every table after the verdict: guards, parts of memory, memory over time, the conditions
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<Exit> {
    let mut results = load_results(&args.results)?;
    let planned = question(&results.info);
    let question = args.changes().apply(&planned)?;
    set_question(&mut results, &question);
    conclude(&mut results, &question);
    if question != planned {
        output::print_message(
            "note: the trials were not run for this question. As it was chosen after seeing them, \
             its answer is a hint to test, not evidence",
        );
    }
    if args.json {
        output::print_data(&json(&results, Audience::Own)?)?;
    } else {
        let mut next = next_for_file(&args.results, &results, question == planned);
        next.details.push(output::details_command(&args.results, &args.question_words()));
        output::print_results(&results, &next, args.details)?;
    }
    if args.growth {
        output::print_text(&variant_growth_text(&results))?;
    }
    Ok(Exit::of_verdicts(&results))
}

impl StatsArgs {
    /// The arguments that ask the same question again.
    fn question_words(&self) -> Vec<String> {
        let percent = |share: f64| format!("{}%", (share * 1e6).round() / 1e4);
        let metrics = self.metric.iter().flat_map(|name| ["--metric".into(), name.clone()]);
        let margin = self.margin.iter().flat_map(|of| ["--margin".into(), percent(of.0)]);
        let baseline = self.baseline.iter().flat_map(|name| ["--baseline".into(), name.clone()]);
        let limit = |(name, limit): &(String, f64)| format!("{name}={}", percent(*limit));
        let guards = self.guard.iter().flat_map(|guard| ["--guard".into(), limit(guard)]);
        let is_other = (self.error - 0.05).abs() > 1e-9;
        let error = is_other.then(|| ["--error".into(), percent(self.error)]).into_iter().flatten();
        metrics.chain(margin).chain(baseline).chain(guards).chain(error).collect()
    }

    fn changes(&self) -> QuestionChanges {
        QuestionChanges {
            metrics: self.metric.clone(),
            margin: self.margin.map(|margin| margin.0),
            baseline: self.baseline.clone(),
            guards: self.guard.clone(),
            alpha: self.error,
        }
    }
}

fn guard(text: &str) -> Result<(String, f64), String> {
    let (name, limit) =
        text.split_once('=').ok_or("write for example latency.p95=5%".to_owned())?;
    Ok((name.trim().to_owned(), Percent::parse(limit)?.0))
}

fn error_rate(text: &str) -> Result<f64, String> {
    let rate = Percent::parse(text)?.0;
    let allowed = (0.0001..=0.5).contains(&rate);
    allowed.then_some(rate).ok_or(format!("`{text}` is not between 0.01% and 50%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_for_details_asks_the_same_question() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: StatsArgs,
        }
        let words =
            "--metric gc.count --margin 0.25% --baseline b --guard latency.p95=7% --error 1%";
        let line = format!("stats x.carat {words}");
        let parsed = <Line as clap::Parser>::try_parse_from(line.split(' ')).unwrap().args;
        assert_eq!(parsed.question_words().join(" "), words);
        let plain = <Line as clap::Parser>::try_parse_from(["stats", "x.carat"]).unwrap().args;
        assert_eq!(plain.question_words(), Vec::<String>::new());
        let command = output::details_command(&parsed.results, &parsed.question_words());
        assert_eq!(command, format!("carat stats x.carat --details {words}"));
    }

    #[test]
    fn guards_and_error_rates_are_parsed() {
        assert_eq!(guard("latency.p95=+5%"), Ok(("latency.p95".to_owned(), 0.05)));
        assert!(guard("latency.p95").is_err() && guard("errors=few").is_err());
        assert_eq!(error_rate("1%"), Ok(0.01));
        assert!(error_rate("0%").is_err() && error_rate("60%").is_err());
    }
}
