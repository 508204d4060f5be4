//! Findings: what makes a load's result doubtful, each with a stable code.
//!
//! The generator itself is checked first: a slow generator must never be read as a slow server. Every rule is a pure
//! function of counted facts, so that a test can provoke each one alone.

use crate::histogram::DurationHistogram;
use crate::meter::GeneratorCost;
use crate::ports::PortRange;
use crate::server_files::explain;
use carat_model::Percent;
use carat_model::load::{LoadFlag, OwnCost, Severity};
use carat_proc::process::OpenFiles;

/// Lag and lateness below this many seconds are never flagged: a wake-up on a busy machine takes as long.
const GRACE: f64 = 2e-3;
/// Share of a core above which the generator's own speed affects the result.
const CPU_SHARE: f64 = 0.7;
/// Share of the time that a thread may wait for a core.
const RUN_DELAY_SHARE: f64 = 0.1;
/// Share of requests that wait for a connection above which that is worth a warning.
const BACKLOG_SHARE: f64 = 0.01;
/// Share of messages with a bounded arrival that is worth a note.
const BOUNDED_SHARE: f64 = 0.1;

/// The findings of one load.
#[derive(Debug)]
pub(crate) struct Findings {
    flags: Vec<LoadFlag>,
    /// Share of errors, missing or duplicate deliveries above which the figures are invalid.
    limit: f64,
}

/// What the reactor knows about a run after it has ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFacts {
    pub threads: u32,
    /// Least seconds between two wake-ups.
    pub quantum: f64,
    /// Connection requests that the kernel dropped during the run.
    pub syn_drops: Option<u64>,
    /// Peak resident memory of the generator in bytes.
    pub rss_peak: Option<u64>,
    /// The machine's range of local ports.
    pub ports: Option<PortRange>,
    /// The server's process that was seen to have no file left.
    pub server_full: Option<OpenFiles>,
}

/// What every protocol knows about the generator's own part in a result.
#[derive(Debug)]
pub(crate) struct GeneratorFacts<'a> {
    /// The sum of all threads.
    pub cost: &'a GeneratorCost,
    /// Length of the measured load in seconds.
    pub seconds: f64,
    /// Median latency in seconds.
    pub median: Option<f64>,
    pub run: &'a RunFacts,
}

impl Findings {
    /// No findings yet. `limit` is the share of errors above which the figures are invalid, as a fraction.
    pub(crate) fn with_limit(limit: f64) -> Self {
        Self { flags: Vec::new(), limit }
    }

    pub(crate) fn add(&mut self, code: &str, severity: Severity, message: String) {
        self.flags.push(LoadFlag { code: code.to_owned(), severity, message });
    }

    /// Adds a finding if a share is above zero: a warning, and fatal above the limit.
    // Nothing lost is no finding, even where nothing was expected.
    pub(crate) fn share(&mut self, code: &str, part: u64, whole: u64, message: &str) {
        if part > 0 {
            // Something lost of nothing expected is all of it.
            let share = part as f64 / whole.max(1) as f64;
            // Above, not at: a limit of 1 % allows 1 %.
            if share > self.limit {
                let limit = Percent(self.limit);
                let message = format!(
                    "{part} of {whole} {message}; the limit is {limit}, which `errors` of the load sets"
                );
                return self.add(code, Severity::Fatal, message);
            }
            self.add(code, Severity::Warning, format!("{part} of {whole} {message}"));
        }
    }

    /// Adds a warning if more than 1 % waited.
    pub(crate) fn backlog(&mut self, waited: u64, due: u64, message: &str) {
        if waited as f64 > due as f64 * BACKLOG_SHARE {
            self.add("backlog", Severity::Warning, format!("{waited} of {due} {message}"));
        }
    }

    /// Judges by the pace of the sends ([`DueSpan::pace`](crate::schedule::DueSpan::pace)) whether the requested rate was reached.
    pub(crate) fn rate(&mut self, requested: f64, pace: f64) {
        let severity = match pace {
            share if share < 0.95 => Severity::Fatal,
            share if share < 0.99 => Severity::Warning,
            _ => return,
        };
        let reached = requested * pace;
        let message = format!(
            "{reached:.1} of {requested:.1} per second were sent, so the variants had different loads: lower the rate"
        );
        self.add("rate-not-reached", severity, message);
    }

    /// Adds what makes the generator itself doubtful.
    pub(crate) fn generator(&mut self, facts: &GeneratorFacts<'_>) {
        self.speed(facts);
        self.processor(facts);
        let cost = facts.cost;
        if cost.clock_steps > 0 {
            let message = format!(
                "the clock was set {} times; arrivals around these moments have the time of reading: stop clock adjustments",
                cost.clock_steps
            );
            self.add("clock-step", Severity::Warning, message);
        }
        if cost.slow_connects > 0 {
            let drops = facts.run.syn_drops.map(|drops| drops.to_string());
            let message = format!(
                "{} handshakes took a second or more, {} connection requests were dropped: the server's accept queue is too short for the ramp",
                cost.slow_connects,
                drops.as_deref().unwrap_or("an unknown number of"),
            );
            self.add("syn-drop", Severity::Warning, message);
        }
        if let Some(full) = facts.run.server_full {
            self.add("server-files", Severity::Warning, explain(full));
        }
        let bounded = cost.bounded as f64 / cost.messages.max(1) as f64;
        if bounded > BOUNDED_SHARE {
            let message = format!(
                "{:.0} % of the messages shared a read with a later one, so their arrival is an upper bound",
                bounded * 100.0
            );
            self.add("bounded-stamps", Severity::Info, message);
        }
    }

    fn speed(&mut self, facts: &GeneratorFacts<'_>) {
        // A generator that wakes once per quantum is late by that without being slow.
        let floor = GRACE.max(2.0 * facts.run.quantum);
        if let Some(late) = facts.cost.late.quantile(0.99)
            && late > floor
        {
            let message = format!(
                "1 % of the sends were at least {:.1} ms late because the generator was late: give it a core or lower the rate",
                late * 1e3
            );
            self.add("late-sends", Severity::Warning, message);
        }
        // Lag matters against the latency that it is part of.
        let floor = floor.max(0.05 * facts.median.unwrap_or_default());
        if let Some(lag) = facts.cost.lag.quantile(0.99)
            && lag > floor
        {
            let message = format!(
                "1 % of the arrivals waited at least {:.1} ms until the generator read them: give it a core or add threads",
                lag * 1e3
            );
            self.add("gen-lag", Severity::Warning, message);
        }
    }

    fn processor(&mut self, facts: &GeneratorFacts<'_>) {
        if facts.cost.share_max > CPU_SHARE {
            let message = format!(
                "the generator used {:.0} % of a core for a second, so it may be the limit: add threads or lower the load",
                facts.cost.share_max * 100.0
            );
            self.add("gen-cpu", Severity::Warning, message);
        }
        let waited = facts.cost.run_delay.unwrap_or_default() as f64 / 1e9;
        // A thread is measured from before the first send until after the last response, and may wait there too.
        let measured = facts.cost.measured as f64 / 1e9;
        let share = waited / measured.max(facts.seconds * f64::from(facts.run.threads));
        // A load that ended before it began has no length, and the share is not finite.
        // A load of milliseconds waits for a core by chance.
        if share.is_finite() && share > RUN_DELAY_SHARE && waited > GRACE {
            let message = format!(
                "the generator waited for a core {:.0} % of the time: stop whatever else is using the machine",
                share * 100.0
            );
            self.add("gen-runqueue", Severity::Warning, message);
        }
    }

    /// The findings, most severe first.
    pub(crate) fn list(mut self) -> Vec<LoadFlag> {
        self.flags.sort_by_key(|flag| std::cmp::Reverse(flag.severity));
        self.flags
    }
}

/// The generator's own cost as a report shows it.
pub(crate) fn own_cost(cost: &GeneratorCost, rss_peak: Option<u64>) -> OwnCost {
    let messages = cost.messages;
    OwnCost {
        cpu_s: cost.cpu as f64 / 1e9,
        cpu_share_max: cost.share_max,
        cpu_us_per_message: (messages > 0).then(|| cost.cpu as f64 / 1e3 / messages as f64),
        rss_peak,
        lag: median_and_p99(&cost.lag),
        late: median_and_p99(&cost.late),
        run_delay_s: cost.run_delay.map(|nanos| nanos as f64 / 1e9),
        messages,
        bounded: cost.bounded as f64 / messages.max(1) as f64,
    }
}

fn median_and_p99(histogram: &DurationHistogram) -> Option<(f64, f64)> {
    histogram.quantile(0.5).zip(histogram.quantile(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(cost: &GeneratorCost, median: f64) -> Vec<String> {
        let mut findings = Findings::with_limit(0.01);
        let run = RunFacts { threads: 1, quantum: 1e-3, syn_drops: Some(3), ..RunFacts::default() };
        let facts = GeneratorFacts { cost, seconds: 10.0, median: Some(median), run: &run };
        findings.generator(&facts);
        findings.list().into_iter().map(|flag| flag.code).collect()
    }

    fn cost(change: impl FnOnce(&mut GeneratorCost)) -> GeneratorCost {
        let mut cost = GeneratorCost::default();
        change(&mut cost);
        cost
    }

    #[test]
    fn every_fault_of_the_generator_raises_its_flag_and_no_other() {
        let slow = 50_000_000;
        for (cost, code) in [
            (cost(|cost| cost.late.record(slow)), "late-sends"),
            (cost(|cost| cost.lag.record(slow)), "gen-lag"),
            (cost(|cost| cost.share_max = 0.71), "gen-cpu"),
            (cost(|cost| cost.run_delay = Some(1_100_000_000)), "gen-runqueue"),
            (cost(|cost| cost.clock_steps = 1), "clock-step"),
            (cost(|cost| cost.slow_connects = 1), "syn-drop"),
            (cost(|cost| (cost.messages, cost.bounded) = (10, 2)), "bounded-stamps"),
        ] {
            assert_eq!(codes(&cost, 0.001), [code]);
        }
    }

    #[test]
    fn a_server_without_a_file_left_is_named_with_its_limit() {
        let server_full = Some(OpenFiles { pid: 7, open: 300, limit: 300 });
        let run = RunFacts { threads: 1, server_full, ..RunFacts::default() };
        let cost = GeneratorCost::default();
        let mut findings = Findings::with_limit(0.01);
        findings.generator(&GeneratorFacts { cost: &cost, seconds: 1.0, median: None, run: &run });
        let flags = findings.list();
        assert_eq!(flags.len(), 1, "{flags:?}");
        assert!(flags[0].message.contains("process 7 has 300 of 300"), "{}", flags[0].message);
    }

    #[test]
    fn a_generator_that_keeps_up_raises_nothing() {
        let cost = cost(|cost| {
            cost.late.record(1_900_000);
            cost.lag.record(1_900_000);
            cost.share_max = 0.69;
            cost.run_delay = Some(900_000_000);
        });
        assert!(codes(&cost, 0.001).is_empty());
    }

    #[test]
    fn a_core_that_was_waited_for_outside_of_a_short_load_is_no_share_of_the_load() {
        let waited = |measured| {
            let run = RunFacts { threads: 1, ..RunFacts::default() };
            let cost = cost(|cost| (cost.run_delay, cost.measured) = (Some(9_500_000), measured));
            let mut findings = Findings::with_limit(0.01);
            let facts = GeneratorFacts { cost: &cost, seconds: 0.005, median: None, run: &run };
            findings.generator(&facts);
            findings.list().pop().map(|flag| flag.message)
        };
        assert!(waited(19_000_000).unwrap().contains("for a core 50 % of the time"));
        assert_eq!(waited(95_100_000), None);
    }

    #[test]
    fn a_lag_that_is_small_compared_with_the_latency_is_not_flagged() {
        assert!(codes(&cost(|cost| cost.lag.record(50_000_000)), 2.0).is_empty());
    }

    #[test]
    fn a_share_of_errors_is_fatal_only_above_the_limit() {
        for (limit, severity) in [(0.01, Severity::Fatal), (0.05, Severity::Warning)] {
            let mut findings = Findings::with_limit(limit);
            findings.share("errors", 3, 100, "requests had no correct response");
            findings.share("missing", 0, 100, "deliveries never came");
            let flags = findings.list();
            let [flag] = &flags[..] else { panic!("one finding: {flags:?}") };
            assert_eq!(flag.severity, severity, "{flag:?}");
            assert_eq!(flag.message.contains("the limit is 1%"), severity == Severity::Fatal);
        }
    }

    #[test]
    fn a_rate_below_99_percent_is_a_warning_and_below_95_percent_fatal() {
        for (reached, severity) in
            [(99.5, None), (98.0, Some(Severity::Warning)), (90.0, Some(Severity::Fatal))]
        {
            let mut findings = Findings::with_limit(0.01);
            findings.rate(100.0, reached / 100.0);
            assert_eq!(findings.list().first().map(|flag| flag.severity), severity, "{reached}");
        }
    }
}
