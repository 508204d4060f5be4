//! A distribution of durations: microseconds in, seconds out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carat_model::load::Times;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// An HDR histogram of microseconds with three significant digits that grows as needed.
#[derive(Debug, Clone)]
pub struct DurationHistogram(Histogram<u32>);

impl Default for DurationHistogram {
    fn default() -> Self {
        // Three digits are an error of 0.1 %, far below the noise of any latency.
        Self(Histogram::new(3).expect("three digits are within the crate's 0 to 5"))
    }
}

impl DurationHistogram {
    /// Records a duration in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        // `record` resizes the histogram; it fails only beyond 64 bits of microseconds.
        let _ = self.0.record(nanos / 1_000);
    }

    /// Number of recorded durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration in seconds at that quantile; `None` if nothing was recorded.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(share) as f64 / 1e6)
    }

    /// The longest duration in seconds.
    pub fn max(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e6)
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        // Resizing histograms with the same number of digits can always be added.
        let _ = self.0.add(&other.0);
    }

    /// HdrHistogram V2, deflated, base64; `None` if nothing was recorded.
    pub fn encode(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).ok()?;
        Some(STANDARD.encode(bytes))
    }

    /// The usual figures with the whole histogram; `None` if nothing was recorded.
    pub fn times(&self) -> Option<Times> {
        let hdr = self.encode()?;
        let at = |share| self.quantile(share).unwrap_or_default();
        Some(Times {
            count: self.count(),
            min: self.0.min() as f64 / 1e6,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: self.max().unwrap_or_default(),
            hdr,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn an_encoded_histogram_reads_back_as_it_was() {
        let mut durations = DurationHistogram::default();
        for micros in [1, 50, 700, 12_000_000] {
            durations.record(micros * 1_000);
        }
        let bytes = STANDARD.decode(durations.encode().unwrap()).unwrap();
        let back: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!((back.len(), back.min()), (4, 1));
        assert!(back.max().abs_diff(12_000_000) < 12_000);
    }

    #[test]
    fn nothing_recorded_has_no_quantile() {
        assert_eq!(DurationHistogram::default().quantile(0.5), None);
        assert_eq!(DurationHistogram::default().encode(), None);
    }
}
