//! How long an experiment takes, said after its first trial, and what makes it shorter.

use crate::config::Experiment;
use carat_analysis::question;
use carat_model::{ExperimentInfo, metric};
use carat_report::numbers::time_left;
use std::time::Duration;

/// Below it nobody has to plan, so nothing is said.
const SHORT: f64 = 60.0;
/// A verdict later than this is worth a hint.
const LONG: f64 = 15.0 * 60.0;
/// How far away the first verdict is with the number of requests that the hint names.
const WISHED: f64 = 12.0 * 60.0;
/// Fewer say little of memory.
const FEWEST_REQUESTS: u64 = 100;
/// A number that is an estimate looks like one.
const STEP: u64 = 10;

/// What is known of an experiment before its first trial.
#[derive(Debug, Clone, Copy)]
pub struct ExperimentEffort {
    /// Trials until a verdict is possible; `None` where the budget allows none.
    pub first_verdict: Option<u64>,
    /// Trials at most.
    pub most: u64,
    /// Requests of a trial, where their number is fixed.
    pub requests: Option<u64>,
    /// The fewest that the metrics need.
    pub needed: u64,
}

impl ExperimentEffort {
    /// The effort that the plan of an experiment asks for.
    pub fn of(experiment: &Experiment, info: &ExperimentInfo) -> Self {
        let warmup = u64::from(experiment.trials.warmup_block);
        let trials = |blocks: u32| (u64::from(blocks) + warmup) * info.variants.len() as u64;
        let metrics = info.guards.keys().chain([&info.primary]);
        let needed = metrics.filter_map(|name| Some(metric::find(name)?.least)).max();
        Self {
            first_verdict: question(info).first_verdict().map(trials),
            most: trials(info.max_blocks),
            requests: experiment.task.requests(),
            needed: needed.unwrap_or(0),
        }
    }

    /// How long it takes if every trial takes so many `seconds`, of which its load takes `load`; `None` where that is short.
    pub fn text(&self, seconds: f64, load: Option<f64>) -> Option<String> {
        let time = |trials: u64| time_left(span(trials as f64 * seconds));
        let first = self.first_verdict.unwrap_or(self.most);
        let until_first = first as f64 * seconds;
        if until_first < SHORT {
            return None;
        }
        let (one, all) = (time(1), time(self.most));
        let mut text = match self.first_verdict {
            Some(first) if first < self.most => format!(
                "a trial takes about {one}: a verdict is possible after {first} trials, about {}; all {} would take about {all}",
                time(first),
                self.most,
            ),
            _ => format!("a trial takes about {one}: all {} take about {all}", self.most),
        };
        if until_first > LONG {
            text += &format!("\n{}", self.hint(seconds, load, first));
        }
        Some(text)
    }

    /// What makes it shorter.
    fn hint(&self, seconds: f64, load: Option<f64>, first: u64) -> String {
        match load.and_then(|load| self.fewer_requests(seconds, load, first)) {
            Some(fewer) => format!(
                "shorter: about {} with `requests = {fewer}` in the experiment file, which then measures memory after fewer requests; \
                 stop with Ctrl-C, and start again with --fresh",
                time_left(span(WISHED))
            ),
            None => "shorter: fewer variants, or --for 30m, which ends in time with or without a verdict".into(),
        }
    }

    /// Requests with which the first verdict is about as far away as wished; `None` where the load is not what takes long.
    fn fewer_requests(&self, seconds: f64, load: f64, first: u64) -> Option<u64> {
        let requests = self.requests?;
        // The warm-up counts as fixed, though most loads have one in proportion: rather too few requests than too many.
        let left = WISHED / first as f64 - (seconds - load);
        // Where the load took no time this is infinite, and too many.
        let fewer = (left * requests as f64 / load).max(0.0) as u64;
        let fewer = fewer / STEP * STEP;
        (FEWEST_REQUESTS.max(self.needed)..requests).contains(&fewer).then_some(fewer)
    }
}

fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE_VARIANTS: ExperimentEffort =
        ExperimentEffort { first_verdict: Some(30), most: 93, requests: Some(2000), needed: 100 };

    #[test]
    fn what_is_soon_decided_is_not_announced() {
        assert_eq!(THREE_VARIANTS.text(1.9, Some(1.0)), None);
    }

    #[test]
    fn a_verdict_within_a_quarter_of_an_hour_is_announced_without_a_hint() {
        assert_eq!(
            THREE_VARIANTS.text(25.0, Some(18.0)).as_deref(),
            Some(
                "a trial takes about 25 s: a verdict is possible after 30 trials, about 13 min; all 93 would take about 39 min"
            )
        );
    }

    #[test]
    fn a_later_verdict_is_announced_with_the_number_of_requests_that_makes_it_early() {
        // 12 min allow 24 s for each of 30 trials. 10 s are no load, and 2,000 requests take 30 s.
        let text = THREE_VARIANTS.text(40.0, Some(30.0)).unwrap();
        assert!(text.contains("after 30 trials, about 20 min"), "{text}");
        assert!(text.contains("about 12 min with `requests = 930`"), "{text}");
    }

    #[test]
    fn where_the_start_takes_long_or_the_requests_have_no_number_none_is_proposed() {
        let more = ExperimentEffort { needed: 1000, ..THREE_VARIANTS };
        let timed = ExperimentEffort { requests: None, ..THREE_VARIANTS };
        for (effort, seconds, load) in [
            (THREE_VARIANTS, 60.0, Some(5.0)),
            (THREE_VARIANTS, 60.0, Some(0.0)),
            (THREE_VARIANTS, 60.0, None),
            (more, 40.0, Some(30.0)),
            (timed, 60.0, Some(55.0)),
        ] {
            let text = effort.text(seconds, load).unwrap();
            assert!(text.contains("\nshorter: fewer variants, or --for 30m"), "{text}");
        }
    }

    #[test]
    fn without_a_possible_verdict_the_time_is_that_of_all_trials() {
        let effort = ExperimentEffort { first_verdict: None, most: 6, ..THREE_VARIANTS };
        let text = effort.text(40.0, Some(30.0));
        assert_eq!(text.as_deref(), Some("a trial takes about 40 s: all 6 take about 4 min"));
    }
}
