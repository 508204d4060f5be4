//! `carat watch`: the recorder for production.

use crate::cli::Exit;
use crate::input::parse_pid;
use crate::work::{LastRequest, RuleRequest, WatchRequest, print_last_words, watch};
use carat_model::Span;
use carat_watch::listen::ListenAddress;
use carat_watch::rule::parse_size;
use carat_watch::store::StoreBounds;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  carat watch                          every Ruby here, until Ctrl-C\n  \
    carat watch --match puma --keep 3d   only trees with this text in their name or a command line\n  \
    carat watch --listen 127.0.0.1:9394  metrics for Prometheus at /metrics\n  \
    carat watch last                     how the last process ended, and what had grown\n  \
    carat report watch.db --from 2h      the curves of the last two hours as a page"
)]
pub(crate) struct WatchArgs {
    #[command(subcommand)]
    command: Option<WatchCommand>,
    #[command(flatten)]
    run: WatchRunArgs,
}

#[derive(Debug, Subcommand)]
enum WatchCommand {
    /// Show how the last processes ended, how large they were, and what had grown
    Last(LastArgs),
}

#[derive(Debug, Args)]
struct WatchRunArgs {
    /// The store [default: /var/lib/carat/watch.db for root, else ~/.local/state/carat/watch.db]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Follow only trees with this text in their name or a command line; several texts are alternatives
    #[arg(long = "match", value_name = "TEXT")]
    matching: Vec<String>,
    /// Time from one round to the next
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "10s")]
    every: Span,
    /// Forget what is older
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "7d")]
    keep: Span,
    /// The largest size of the store; the oldest is thinned before
    #[arg(long, value_name = "SIZE", value_parser = store_size, default_value = "500m")]
    max: u64,
    /// Share of one core that watching may take, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    budget: f64,
    /// Find out too how much of malloc the objects of each class hold, which takes more time and memory
    #[arg(long)]
    owners: bool,
    /// Serve metrics (OpenMetrics) at 127.0.0.1:PORT or unix:PATH [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = ListenAddress::parse)]
    listen: Option<ListenAddress>,
    /// Serve the number of objects of so many classes of each process too
    #[arg(long, value_name = "N", default_value_t = 0, requires = "listen")]
    classes: usize,
    #[command(flatten)]
    rules: RuleArgs,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = Span::parse)]
    limit: Option<Span>,
}

/// What to do when a figure is too large.
#[derive(Debug, Args)]
struct RuleArgs {
    /// Run COMMAND when RULE holds in two rounds: 'worker.pss > 800m' 'kill -TERM {pid}'. Only said, unless --act is given
    #[arg(long, num_args = 2, value_names = ["RULE", "COMMAND"])]
    on: Vec<String>,
    /// Really run the commands of --on
    #[arg(long, requires = "on")]
    act: bool,
    /// The shortest time between two commands of one rule
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "10m", requires = "on")]
    pause: Span,
    /// Processes with the same role that must be left in the tree
    #[arg(long, value_name = "N", default_value_t = 1, requires = "on")]
    leave: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  carat watch last\n  carat watch last 4312 --json\n  carat watch last -n 5"
)]
struct LastArgs {
    /// Only the process that had this pid
    #[arg(value_parser = parse_pid)]
    pid: Option<u32>,
    /// The store [default: as of carat watch]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// How many processes
    #[arg(short, value_name = "N", default_value_t = 1)]
    number: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The period of a page.
#[derive(Debug, Args)]
pub(super) struct PeriodArgs {
    /// Of a store of carat watch: begin so long ago, such as 2h [default: all that is kept]
    #[arg(long, value_name = "AGO", value_parser = Span::parse)]
    pub(super) from: Option<Span>,
    /// Of a store of carat watch: end so long ago [default: now]
    #[arg(long, value_name = "AGO", value_parser = Span::parse)]
    pub(super) to: Option<Span>,
}

impl PeriodArgs {
    /// Whether a period was asked for, which only a store of `carat watch` has.
    pub(super) fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    if let Some(WatchCommand::Last(last)) = &args.command {
        return print_last_words(&LastRequest {
            pid: last.pid,
            store: last.store.clone(),
            number: last.number,
            json: last.json,
        });
    }
    let (run, rules) = (&args.run, &args.run.rules);
    watch(&WatchRequest {
        store: run.store.clone(),
        matching: run.matching.clone(),
        every: run.every.0,
        bounds: StoreBounds { keep: run.keep.0, most: run.max },
        budget: run.budget,
        owners: run.owners,
        listen: run.listen.clone(),
        classes: run.classes,
        rules: RuleRequest {
            on: rules.on.clone(),
            act: rules.act,
            pause: rules.pause.0,
            leave: rules.leave,
        },
        limit: run.limit.map(|limit| limit.0),
    })
}

/// The size of a store.
fn store_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < 1_000_000 {
        return Err(format!("`{text}` is too small for a store; give at least 1m"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_decimal_unit_and_nothing_is_guessed() {
        assert_eq!(store_size("500m"), Ok(500_000_000));
        assert_eq!(store_size("2G"), Ok(2_000_000_000));
        for wrong in ["500", "m", "1x", "-1m", "99999999999g", "10k"] {
            store_size(wrong).unwrap_err();
        }
    }
}
