//! The latency histograms of the load generator, merged per variant.

use crate::facts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carat_model::Results;
use carat_model::metric::BEYOND;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// A quantile in seconds; `None` if fewer than [`BEYOND`] values are beyond it, except for the maximum.
pub(crate) fn quantile(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    let beyond = histogram.len() as f64 * (1.0 - quantile);
    // The maximum is known whatever its rank.
    let is_known = quantile >= 1.0 || beyond.round() as u64 >= BEYOND;
    is_known.then(|| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

/// All trials of a variant that count in one histogram of microseconds; `None` if none has a readable histogram.
pub(crate) fn merged(results: &Results, variant: &str) -> Option<Histogram<u64>> {
    let packed = facts::counted_trials(results, variant)
        .filter_map(|trial| trial.load.as_ref()?.latency_hdr.as_deref());
    let mut packed = packed.filter_map(|packed| {
        let bytes = STANDARD.decode(packed.trim()).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    });
    let mut sum: Histogram<u64> = packed.next()?;
    // Trials may have longer latencies than the first one.
    sum.auto(true);
    for one in packed {
        // Cannot fail, because this histogram resizes itself.
        sum.add(&one).ok()?;
    }
    (!sum.is_empty()).then_some(sum)
}

/// Number of nines and latency in seconds, evenly spaced in nines, up to the quantile that [`BEYOND`] values are
/// beyond; further out a percentile is noise.
pub(crate) fn percentiles(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    // Beyond this many nines there are fewer than ten responses.
    let most = (histogram.len() as f64 / BEYOND as f64).log10().clamp(1.0, 5.0);
    let places = (most * 24.0) as usize;
    (0..=places)
        .map(|at| {
            let nines = most * at as f64 / places as f64;
            let quantile = 1.0 - 10f64.powf(-nines);
            (nines, histogram.value_at_quantile(quantile) as f64 / 1e6)
        })
        .collect()
}

/// Places at which the share of responses is given.
const PLACES: usize = 120;

/// Latency in seconds and the share of responses within it, over the whole range.
pub(crate) fn cumulative(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    // A logarithm needs a lower end above zero.
    let (low, high) = (histogram.min().max(1) as f64, histogram.max().max(2) as f64);
    (0..=PLACES)
        .map(|at| {
            // Evenly by ratio, as the axis is logarithmic.
            let micros = low * (high / low).powf(at as f64 / PLACES as f64);
            let below = histogram.count_between(0, micros.round() as u64);
            (micros / 1e6, below as f64 / histogram.len() as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_with_fewer_than_ten_values_beyond_is_unknown() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|micros| histogram.record(micros).unwrap());
        for (share, known) in [(0.5, true), (0.99, true), (0.999, false), (1.0, true)] {
            assert_eq!(quantile(&histogram, share).is_some(), known, "{share}");
        }
        assert_eq!(percentiles(&histogram).last().map(|place| place.0), Some(2.0));
    }
}
