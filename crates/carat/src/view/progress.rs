//! The progress of an experiment in words.

use crate::run::trial::{TrialPlan, TrialProgress};
use crate::view::ExperimentEffort;
use carat_model::{Conclusion, LoadReport, Outcome, Role, Trial, metric};
use carat_report::numbers::{percent, time_left};
use std::fmt::Write;
use std::time::Duration;

/// Composes the progress line of an experiment from what has happened so far.
#[derive(Debug)]
pub struct ProgressText {
    primary: String,
    max_blocks: u32,
    variants: usize,
    durations: Vec<f64>,
    estimates: String,
    /// What the experiment is a part of, with its own time left.
    context: Option<String>,
    /// What its first trial tells the time of; `None` once it was said.
    effort: Option<ExperimentEffort>,
}

impl ProgressText {
    /// TrialProgress of an experiment that has not begun.
    pub fn new(primary: &str, max_blocks: u32, variants: usize) -> Self {
        Self {
            primary: primary.to_owned(),
            max_blocks,
            variants,
            durations: Vec::new(),
            estimates: String::new(),
            context: None,
            effort: None,
        }
    }

    /// The progress of an experiment that is a part of something larger.
    pub fn within(self, context: String) -> Self {
        Self { context: Some(context), ..self }
    }

    /// The progress of an experiment whose first trial tells how long it takes.
    pub fn announced(self, effort: ExperimentEffort) -> Self {
        Self { effort: Some(effort), ..self }
    }

    /// Says nothing of how long it takes.
    pub fn forget_effort(&mut self) {
        self.effort = None;
    }

    /// How long the experiment takes, as its first trial that succeeded shows; nothing after any other.
    pub fn effort(&mut self, trial: &Trial) -> Option<String> {
        let effort = self.effort.take_if(|_| trial.outcome == Outcome::Ok)?;
        effort.text(trial.seconds, trial.load.as_ref().map(|load| load.seconds))
    }

    /// One line on the trial that runs, `elapsed` after it began.
    pub fn line(
        &self,
        plan: &TrialPlan,
        progress: Option<&TrialProgress>,
        elapsed: Duration,
    ) -> String {
        let mut line = format!("{} · {}", self.block(plan.block), plan.name);
        if let Some(context) = &self.context {
            line = format!("{context} · {line}");
        }
        if let Some(progress) = progress {
            let _ = write!(line, " · {}", progress.phase);
            if let Some(done) = progress.done {
                let _ = write!(line, " {}", percent(done, 0));
            }
            if let Some(memory) = progress.memory {
                let _ = write!(line, " · {memory}");
            }
        }
        // What it is a part of shows the time that is left of the whole.
        let left = self.left(plan.block, elapsed).filter(|_| self.context.is_none());
        if let Some(left) = left {
            let _ = write!(line, " · at most {} left", time_left(left));
        }
        if !self.estimates.is_empty() {
            let _ = write!(line, " · {}", self.estimates);
        }
        line
    }

    /// Counts a finished trial and describes it.
    pub fn trial_line(&mut self, trial: &Trial) -> String {
        self.durations.push(trial.seconds);
        let (block, seconds) = (self.block(trial.block), trial.seconds);
        let value = trial.metrics.get(&self.primary).zip(metric::find(&self.primary));
        let value = value.map(|(value, metric)| metric.unit.show(*value));
        let value = value.unwrap_or_else(|| format!("{} is unknown", self.primary));
        if trial.outcome == Outcome::Ok {
            return format!("{block} · {} · {value} · {seconds:.1} s", trial.variant);
        }
        let why = trial.detail.as_deref().unwrap_or("no reason is known");
        let mut line = format!("{block} · {} · {}: {why}", trial.variant, trial.outcome);
        for failure in trial.load.iter().flat_map(LoadReport::wrong_bodies) {
            let _ = write!(line, "\n  {failure}");
        }
        line
    }

    /// Remembers the estimates after a block.
    pub fn block_ended(&mut self, conclusions: &[Conclusion]) {
        let primaries = conclusions.iter().filter(|conclusion| conclusion.role == Role::Primary);
        self.estimates = primaries.filter_map(estimate).collect::<Vec<_>>().join(", ");
    }

    /// The block and the most that count. One beyond them replaces a block that does not count.
    fn block(&self, block: u32) -> String {
        match (block, self.max_blocks) {
            (0, _) => "warm-up block".to_owned(),
            (block, most) if block > most => {
                format!("block {block}, in place of one that does not count")
            }
            (block, most) => format!("block {block}/{most}"),
        }
    }

    fn left(&self, block: u32, elapsed: Duration) -> Option<Duration> {
        // Before the first trial this is no number, and it is not used then.
        let mean = self.durations.iter().sum::<f64>() / self.durations.len() as f64;
        let blocks = f64::from(self.max_blocks.saturating_sub(block) + 1);
        // The running trial can take longer than the mean.
        let seconds = mean * blocks * self.variants as f64 - elapsed.as_secs_f64();
        (!self.durations.is_empty()).then(|| Duration::from_secs_f64(seconds.max(0.0)))
    }
}

fn estimate(conclusion: &Conclusion) -> Option<String> {
    let estimate = conclusion.estimate.filter(|_| conclusion.has_required_confidence())?;
    if estimate.in_own_unit {
        let difference = carat_report::numbers::estimate(&conclusion.metric, &estimate);
        return Some(format!("{} {difference}", conclusion.variant));
    }
    let (low, high) = estimate.ratio_interval;
    let [ratio, low, high] = [estimate.ratio, low, high].map(|share| share * 100.0);
    Some(format!("{} {ratio:+.1} % ({low:+.1} to {high:+.1})", conclusion.variant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::metric::MEMORY_PSS_PEAK;

    fn trial(outcome: Outcome) -> Trial {
        Trial { outcome, seconds: 25.0, ..Trial::bare(1, "default") }
    }

    #[test]
    fn how_long_an_experiment_takes_is_said_once_and_never_of_one_that_goes_on() {
        let effort =
            ExperimentEffort { first_verdict: Some(30), most: 93, requests: None, needed: 0 };
        let new = || ProgressText::new(MEMORY_PSS_PEAK.id, 31, 3).announced(effort);
        let [failed, ok] = [Outcome::NeverReady, Outcome::Ok].map(trial);
        let mut begun = new();
        assert_eq!(begun.effort(&failed), None);
        assert!(begun.effort(&ok).is_some_and(|text| text.contains("after 30 trials")));
        assert_eq!(begun.effort(&ok), None);
        let mut continued = new();
        continued.forget_effort();
        assert_eq!(continued.effort(&ok), None);
    }

    #[test]
    fn a_block_beyond_those_that_count_is_said_to_replace_one() {
        let text = ProgressText::new(MEMORY_PSS_PEAK.id, 3, 2);
        for (block, words) in [
            (0, "warm-up block"),
            (3, "block 3/3"),
            (5, "block 5, in place of one that does not count"),
        ] {
            assert_eq!(text.block(block), words);
        }
    }
}
