//! Latency histograms as the load generator packs them, added up per variant.

use crate::model::Results;
use crate::report::facts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// All trials of a variant that count, as one histogram in microseconds; `None` where none has one that can
/// be read.
pub(crate) fn merged(results: &Results, variant: &str) -> Option<Histogram<u64>> {
    let packed = results
        .trials
        .iter()
        .filter(|trial| trial.variant == variant && facts::counts(trial))
        .filter_map(|trial| trial.load.as_ref()?.latency_hdr.as_deref());
    let mut packed = packed.filter_map(unpack);
    let mut sum = packed.next()?;
    sum.auto(true);
    for one in packed {
        // Cannot fail: a histogram that resizes itself takes every value that another one holds.
        sum.add(&one).ok()?;
    }
    (!sum.is_empty()).then_some(sum)
}

fn unpack(packed: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(packed.trim()).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// Quantile and latency in seconds at places that are even on an axis of "nines", from the median to where
/// one value in `resolution` lies beyond.
pub(crate) fn percentiles(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let most = (histogram.len() as f64).log10().clamp(1.0, 5.0);
    let places = (most * 24.0) as usize;
    (0..=places)
        .map(|at| {
            let nines = most * at as f64 / places as f64;
            let quantile = 1.0 - 10f64.powf(-nines);
            (nines, histogram.value_at_quantile(quantile) as f64 / 1e6)
        })
        .collect()
}

/// Latency in seconds and the share of responses at or below it, over the whole range.
pub(crate) fn cumulative(histogram: &Histogram<u64>, places: usize) -> Vec<(f64, f64)> {
    let (low, high) = (histogram.min().max(1) as f64, histogram.max().max(2) as f64);
    (0..=places)
        .map(|at| {
            let micros = low * (high / low).powf(at as f64 / places as f64);
            let below = histogram.count_between(0, micros.round() as u64);
            (micros / 1e6, below as f64 / histogram.len() as f64)
        })
        .collect()
}
