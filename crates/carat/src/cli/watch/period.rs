//! `carat report` of a store of `carat watch`: the curves of a period.

use crate::cli::output;
use anyhow::ensure;
use carat_model::Span;
use carat_model::watch::{WatchedCurve, WatchedPeriod};
use carat_watch::store::{Period, WatchStore};
use clap::Args;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The period of a page.
#[derive(Debug, Args)]
pub(in crate::cli) struct PeriodArgs {
    /// Of a store of carat watch: begin so long ago, such as 2h [default: all that is kept]
    #[arg(long, value_name = "AGO", value_parser = Span::parse)]
    from: Option<Span>,
    /// Of a store of carat watch: end so long ago [default: now]
    #[arg(long, value_name = "AGO", value_parser = Span::parse)]
    to: Option<Span>,
}

impl PeriodArgs {
    /// Whether a period was asked for, which only a store of `carat watch` has.
    pub(in crate::cli) fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// What was kept of a period.
pub(in crate::cli) fn report(path: &Path, args: &PeriodArgs) -> anyhow::Result<WatchedPeriod> {
    let store = WatchStore::open_to_read(path)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago =
        |span: Span| u64::try_from(now.saturating_sub(span.0).as_millis()).unwrap_or(u64::MAX);
    let to_ms = ago(args.to.unwrap_or(Span::seconds(0)));
    let mut period = Period { from_ms: args.from.map_or(0, ago), to_ms };
    ensure!(period.from_ms < period.to_ms, "--from must be longer ago than --to");
    let processes = store.processes(period)?;
    if args.from.is_none() {
        // Unknown is the beginning of the store, not that of the epoch.
        period.from_ms = processes.iter().map(|one| one.first_ms).min().unwrap_or(to_ms);
    }
    let curves = processes.into_iter().map(|process| {
        let samples = store.samples(process.number, period)?;
        Ok(WatchedCurve { process, samples })
    });
    let processes = curves.collect::<anyhow::Result<Vec<_>>>()?;
    let events = store.events(period)?;
    if processes.is_empty() {
        output::print_message("no process was followed in this time");
    }
    Ok(WatchedPeriod { from_ms: period.from_ms, to_ms, processes, events })
}
