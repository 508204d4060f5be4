//! When a trial has the value of a metric.

/// The moment of a trial that a value is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricMoment {
    /// The server is ready; no load yet.
    BeforeLoad,
    /// The measured load begins.
    StartOfLoad,
    /// The last quarter of the load, or of a command that ends by itself.
    LastQuarter,
    /// After the last response and the time to settle.
    AfterLoad,
    /// After the idle time that follows the load.
    AfterIdle,
    /// Any moment: the value is an extreme.
    WholeTrial,
}

impl MetricMoment {
    /// The moment in words, to follow the phrase of a metric. A report may name the number of requests or the idle time.
    pub fn words(self) -> &'static str {
        match self {
            Self::BeforeLoad => "before any load",
            Self::StartOfLoad => "at the start of the load",
            Self::LastQuarter => "over the last quarter of the load",
            Self::AfterLoad => "after the load",
            Self::AfterIdle => "after the idle time",
            Self::WholeTrial => "over the whole trial",
        }
    }
}
