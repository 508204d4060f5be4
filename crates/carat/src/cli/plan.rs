//! `carat plan`: from a few blocks, what an experiment could find in how much time.

use crate::analysis::{Forecast, Outlook, forecast};
use crate::cli::{Exit, compare, output};
use crate::report::{self, duration, load_results};
use crate::run::experiment::question;
use crate::run::trial::FakeVariant;
use anyhow::Context;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `carat plan`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat plan workloads/rails-hello/carat.toml
  carat plan rails-hello.carat")]
pub(crate) struct PlanArgs {
    /// Experiment file to run a pilot of, or a results file or its JSON
    file: PathBuf,
    /// Blocks of the pilot; a pilot that was stopped goes on
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(5..=100))]
    pilot: u32,
    /// Where the pilot's trials go [default: the experiment's name with -pilot.carat]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let is_experiment = args.file.extension().is_some_and(|extension| extension == "toml");
    let (path, results) = if is_experiment {
        let pilot = args.output.clone().unwrap_or_else(|| pilot_path(&args.file));
        let store = compare::pilot(&args.file, pilot, args.pilot, args.fake.clone())?;
        (store.path().to_owned(), store.results()?)
    } else {
        (args.file.clone(), load_results(&args.file)?)
    };
    let outlook = forecast(&question(&results.header), &results.trials).with_context(|| {
        format!("{} has too few blocks that count for a forecast; five are needed", path.display())
    })?;
    output::print_data(&text(&outlook))?;
    Ok(Exit::Fine)
}

fn pilot_path(experiment: &Path) -> PathBuf {
    let folder = experiment.canonicalize().ok();
    let parent = folder.as_deref().and_then(Path::parent).and_then(Path::file_name);
    let name = parent.map_or("experiment".into(), |name| name.to_string_lossy().into_owned());
    format!("{name}-pilot.carat").into()
}

fn text(outlook: &Outlook) -> String {
    let mut text = format!(
        "From {} blocks of {} each. So few tell a scatter only within a factor of about two.\n",
        outlook.blocks,
        duration(outlook.block_seconds)
    );
    for forecast in &outlook.forecasts {
        push_forecast(&mut text, forecast, outlook.block_seconds);
    }
    text
}

fn push_forecast(text: &mut String, forecast: &Forecast, block_seconds: f64) {
    let taken = |blocks: u32| duration(f64::from(blocks) * block_seconds);
    let _ = writeln!(
        text,
        "\n{}: single trials scatter by {}\n  blocks       time  finds a difference of",
        forecast.metric,
        percent(forecast.spread)
    );
    for &(blocks, difference) in &forecast.detectable {
        let _ = writeln!(text, "  {blocks:>6}  {:>9}  {}", taken(blocks), percent(difference));
    }
    let asked = percent(forecast.requested);
    let _ = match forecast.needed {
        Some(blocks) => {
            writeln!(text, "  {asked}, as asked, takes about {blocks} blocks, {}", taken(blocks))
        }
        None => writeln!(text, "  {asked}, as asked, can never be decided; set a margin above 0"),
    };
}

fn percent(share: f64) -> String {
    report::percent(share, if share < 0.001 { 3 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(block_seconds: f64) -> Outlook {
        let forecast = Forecast {
            metric: "memory.rss.final".to_owned(),
            spread: 0.0041,
            detectable: vec![(8, 0.0088), (100, 0.0025)],
            requested: 0.0025,
            needed: Some(100),
        };
        Outlook { blocks: 6, block_seconds, forecasts: vec![forecast] }
    }

    #[test]
    fn short_blocks_take_seconds_and_never_no_time_at_all() {
        let told = text(&outlook(0.04));
        assert!(told.starts_with("From 6 blocks of 40.00 ms each."), "{told}");
        assert!(told.contains("      8  320.00 ms  0.88 %"), "{told}");
        assert!(told.ends_with("takes about 100 blocks, 4.0 s\n"), "{told}");
    }

    #[test]
    fn a_forecast_is_told_in_blocks_and_time() {
        assert_eq!(
            text(&outlook(30.0)),
            "From 6 blocks of 30 s each. So few tell a scatter only within a factor of about two.\n\
             \nmemory.rss.final: single trials scatter by 0.41 %\n\
             \x20 blocks       time  finds a difference of\n\
             \x20      8    4.0 min  0.88 %\n\
             \x20    100     50 min  0.25 %\n\
             \x20 0.25 %, as asked, takes about 100 blocks, 50 min\n"
        );
    }
}
