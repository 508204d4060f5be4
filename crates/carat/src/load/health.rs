//! The generator is a suspect in every result: what speaks against this one, with stable codes.
//!
//! Every rule is a pure function of counted facts, so that each can be provoked by itself.

use crate::core::load::{LoadFlag, OwnCost, Severity};
use crate::load::meter::GeneratorCost;

/// Lag and lateness below this many seconds are never flagged: a wake-up on a busy machine takes as long.
const GRACE: f64 = 2e-3;
/// Share of a core above which the generator's own speed shows in the result.
const CPU_SHARE: f64 = 0.7;
/// Share of the time that a thread may wait for a core.
const RUN_DELAY_SHARE: f64 = 0.1;
/// Share of errors, missing or surplus deliveries above which the figures mean nothing.
pub(crate) const FATAL_SHARE: f64 = 0.01;
/// Share of messages with a bounded arrival that is worth a word.
const BOUNDED_SHARE: f64 = 0.1;

/// Findings in the making.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<LoadFlag>);

/// What every kind of load knows about itself.
#[derive(Debug)]
pub(crate) struct GeneratorFacts<'a> {
    /// The threads' own cost, added up.
    pub(crate) own: &'a GeneratorCost,
    /// Length of the measured load in seconds.
    pub(crate) seconds: f64,
    /// Threads that shared it.
    pub(crate) threads: u32,
    /// Least seconds between two wake-ups.
    pub(crate) quantum: f64,
    /// Median latency in seconds.
    pub(crate) median: Option<f64>,
    /// Connection requests that the kernel dropped meanwhile.
    pub(crate) syn_drops: Option<u64>,
}

impl Findings {
    /// Adds a finding.
    pub(crate) fn add(&mut self, code: &str, severity: Severity, message: String) {
        self.0.push(LoadFlag { code: code.to_owned(), severity, message });
    }

    /// Adds a finding where a share is above zero: a warning, and fatal above one in a hundred.
    pub(crate) fn share(&mut self, code: &str, part: u64, whole: u64, message: &str) {
        if part > 0 {
            let share = part as f64 / whole.max(1) as f64;
            let severity = if share > FATAL_SHARE { Severity::Fatal } else { Severity::Warning };
            self.add(code, severity, format!("{part} of {whole} {message}"));
        }
    }

    /// Adds a warning where more than one in a hundred waited.
    pub(crate) fn backlog(&mut self, waited: u64, due: u64, message: &str) {
        if waited as f64 > due as f64 * FATAL_SHARE {
            self.add("backlog", Severity::Warning, format!("{waited} of {due} {message}"));
        }
    }

    /// Compares the rate that was reached with the one that was asked for.
    pub(crate) fn rate(&mut self, asked: f64, reached: f64) {
        let severity = match reached / asked {
            share if share < 0.95 => Severity::Fatal,
            share if share < 0.99 => Severity::Warning,
            _ => return,
        };
        let message = format!(
            "{reached:.1} of {asked:.1} per second were sent, so variants were not loaded alike: lower the rate"
        );
        self.add("rate-not-reached", severity, message);
    }

    /// Adds what speaks against the generator itself.
    pub(crate) fn own(&mut self, facts: &GeneratorFacts<'_>) {
        self.speed(facts);
        self.processor(facts);
        if facts.own.clock_steps > 0 {
            let steps = facts.own.clock_steps;
            let message = format!(
                "the clock was set {steps} times; arrivals around that were taken when read: stop clock adjustments"
            );
            self.add("clock-step", Severity::Warning, message);
        }
        if facts.own.slow_connects > 0 {
            let message = format!(
                "{} handshakes took a second or more, {} connection requests were dropped: the server's accept queue is too short for the ramp",
                facts.own.slow_connects,
                facts.syn_drops.map_or_else(|| "unknown".to_owned(), |drops| drops.to_string()),
            );
            self.add("syn-drop", Severity::Warning, message);
        }
        let bounded = facts.own.bounded as f64 / facts.own.messages.max(1) as f64;
        if bounded > BOUNDED_SHARE {
            let message = format!(
                "{:.0} % of the messages came several in one read, so their arrival is an upper bound",
                bounded * 100.0
            );
            self.add("bounded-stamps", Severity::Info, message);
        }
    }

    fn speed(&mut self, facts: &GeneratorFacts<'_>) {
        let floor = GRACE.max(2.0 * facts.quantum);
        if let Some(late) = facts.own.late.quantile(0.99)
            && late > floor
        {
            let message = format!(
                "1 % of the sends were {:.1} ms late or more because the generator was: give it a core or lower the rate",
                late * 1e3
            );
            self.add("late-sends", Severity::Warning, message);
        }
        let floor = floor.max(0.05 * facts.median.unwrap_or_default());
        if let Some(lag) = facts.own.lag.quantile(0.99)
            && lag > floor
        {
            let message = format!(
                "1 % of what arrived waited {:.1} ms or more to be read: the generator lags, give it a core or add threads",
                lag * 1e3
            );
            self.add("gen-lag", Severity::Warning, message);
        }
    }

    fn processor(&mut self, facts: &GeneratorFacts<'_>) {
        if facts.own.share_max > CPU_SHARE {
            let message = format!(
                "the generator used {:.0} % of a core for a second, so it may be the limit: add threads or lower the load",
                facts.own.share_max * 100.0
            );
            self.add("gen-cpu", Severity::Warning, message);
        }
        let waited = facts.own.run_delay.unwrap_or_default() as f64 / 1e9;
        let share = waited / (facts.seconds * f64::from(facts.threads));
        // A load that was over before it began has no time to take a share of.
        if share.is_finite() && share > RUN_DELAY_SHARE && waited > GRACE {
            let message = format!(
                "the generator waited for a core {:.0} % of the time: something else is using the machine",
                share * 100.0
            );
            self.add("gen-runqueue", Severity::Warning, message);
        }
    }

    /// The findings, worst first.
    pub(crate) fn list(mut self) -> Vec<LoadFlag> {
        self.0.sort_by_key(|flag| std::cmp::Reverse(flag.severity));
        self.0
    }
}

/// The generator's own cost as a report shows it.
pub(crate) fn own_cost(own: &GeneratorCost, rss_peak: Option<u64>) -> OwnCost {
    let pair =
        |of: &crate::load::histogram::DurationHistogram| of.quantile(0.5).zip(of.quantile(0.99));
    let messages = own.messages;
    OwnCost {
        cpu_s: own.cpu as f64 / 1e9,
        cpu_share_max: own.share_max,
        cpu_us_per_message: (messages > 0).then(|| own.cpu as f64 / 1e3 / messages as f64),
        rss_peak,
        lag: pair(&own.lag),
        late: pair(&own.late),
        run_delay_s: own.run_delay.map(|nanos| nanos as f64 / 1e9),
        messages,
        bounded: own.bounded as f64 / messages.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(own: &GeneratorCost, median: f64) -> Vec<String> {
        let mut findings = Findings::default();
        let facts = GeneratorFacts {
            own,
            seconds: 10.0,
            threads: 1,
            quantum: 1e-3,
            median: Some(median),
            syn_drops: Some(3),
        };
        findings.own(&facts);
        findings.list().into_iter().map(|flag| flag.code).collect()
    }

    fn own(change: impl FnOnce(&mut GeneratorCost)) -> GeneratorCost {
        let mut own = GeneratorCost::default();
        change(&mut own);
        own
    }

    #[test]
    fn every_fault_of_the_generator_raises_its_flag_and_no_other() {
        let slow = 50_000_000;
        for (own, code) in [
            (own(|own| own.late.record(slow)), "late-sends"),
            (own(|own| own.lag.record(slow)), "gen-lag"),
            (own(|own| own.share_max = 0.71), "gen-cpu"),
            (own(|own| own.run_delay = Some(1_100_000_000)), "gen-runqueue"),
            (own(|own| own.clock_steps = 1), "clock-step"),
            (own(|own| own.slow_connects = 1), "syn-drop"),
            (own(|own| (own.messages, own.bounded) = (10, 2)), "bounded-stamps"),
        ] {
            assert_eq!(codes(&own, 0.001), [code]);
        }
    }

    #[test]
    fn a_generator_that_keeps_up_raises_nothing() {
        let own = own(|own| {
            own.late.record(1_900_000);
            own.lag.record(1_900_000);
            own.share_max = 0.69;
            own.run_delay = Some(900_000_000);
        });
        assert!(codes(&own, 0.001).is_empty());
    }

    #[test]
    fn a_lag_that_is_small_beside_the_latency_does_not_matter() {
        assert!(codes(&own(|own| own.lag.record(50_000_000)), 2.0).is_empty());
    }

    #[test]
    fn a_rate_is_reached_or_not() {
        for (reached, severity) in
            [(99.5, None), (98.0, Some(Severity::Warning)), (90.0, Some(Severity::Fatal))]
        {
            let mut findings = Findings::default();
            findings.rate(100.0, reached);
            assert_eq!(findings.list().first().map(|flag| flag.severity), severity, "{reached}");
        }
    }
}
