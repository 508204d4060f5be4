//! `carat report` of a store of `carat watch`: the curves of a period.

use crate::view::output;
use anyhow::ensure;
use carat_model::Span;
use carat_model::watch::{WatchedCurve, WatchedPeriod};
use carat_watch::store::{Period, WatchStore};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What was kept of a period: from so long ago, or from the beginning, to so long ago.
///
/// # Errors
/// Where the store cannot be read, or the period ends before it begins.
pub(crate) fn watched_period(
    path: &Path,
    from: Option<Span>,
    to: Option<Span>,
) -> anyhow::Result<WatchedPeriod> {
    let store = WatchStore::open_to_read(path)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago =
        |span: Span| u64::try_from(now.saturating_sub(span.0).as_millis()).unwrap_or(u64::MAX);
    let to_ms = ago(to.unwrap_or(Span::seconds(0)));
    let mut period = Period { from_ms: from.map_or(0, ago), to_ms };
    ensure!(period.from_ms < period.to_ms, "--from must be longer ago than --to");
    let processes = store.processes(period)?;
    if from.is_none() {
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
