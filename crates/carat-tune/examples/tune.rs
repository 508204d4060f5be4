//! The tables of the search, as Markdown: `bin/bench tune [APPS [SEARCH_TRIALS]]`.

use carat_tune::simulate::{Summary, World, summarize};
use std::process::ExitCode;
use std::time::Instant;

/// The number of the first app. Apps below it served to choose the procedure.
const FRESH: u64 = 500_000;

fn main() -> ExitCode {
    let numbers: Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let (apps, trials) = match numbers.as_deref() {
        Ok([]) => (200, 96),
        Ok([apps]) => (*apps, 96),
        Ok([apps, trials]) => (*apps, *trials),
        _ => {
            print_error("write: tune [APPS [SEARCH_TRIALS]]");
            return ExitCode::from(2);
        }
    };
    print_line(
        "| world | apps | trials of the search | trials in all (p90) | recommends % | saving % | best possible % | \
         near the best % | breaks a limit % | interval holds % | strongest named right % | seconds |",
    );
    print_line("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let worlds = [
        ("settings as on real servers", World::Real, apps, trials, false),
        ("no setting does anything", World::Null, 2 * apps, 60, true),
        ("every configuration at the limit of p95", World::AtTheLimit, 2 * apps, 60, true),
    ];
    for (name, world, apps, trials, forced) in worlds {
        let started = Instant::now();
        let summary = summarize(world, FRESH, apps, trials, forced);
        print_line(&row(name, &summary, started.elapsed().as_secs_f64()));
    }
    ExitCode::SUCCESS
}

fn row(name: &str, summary: &Summary, seconds: f64) -> String {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    format!(
        "| {name} | {} | {:.0} | {:.0} ({:.0}) | {} | {} | {} | {} | {} | {} | {} | {seconds:.0} |",
        summary.apps,
        summary.search_trials,
        summary.trials,
        summary.trials_p90,
        percent(summary.recommends),
        percent(summary.saving),
        percent(summary.oracle),
        percent(summary.near),
        percent(summary.breaks_limit),
        percent(summary.covered),
        percent(summary.strongest),
    )
}

#[expect(clippy::print_stdout, reason = "the tables are the output")]
fn print_line(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "an example has no other way to report")]
fn print_error(line: &str) {
    eprintln!("{line}");
}
