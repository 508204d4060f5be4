//! What the user sees while trials run: one live line on a terminal, one line per trial elsewhere.

use crate::cli::output;
use crate::core::{Conclusion, Outcome, Role, Trial, metric};
use crate::run::experiment::{Event, Listener};
use crate::run::trial::{Progress, TrialPlan};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Shows an experiment as it goes.
pub(crate) struct Display {
    bar: ProgressBar,
    live: bool,
    primary: String,
    max_blocks: u32,
    variants: usize,
    current: Option<TrialPlan>,
    began: Instant,
    durations: Vec<f64>,
    estimate: String,
}

impl Display {
    /// A live line where `live`, plain lines otherwise.
    pub(crate) fn new(live: bool, primary: &str, max_blocks: u32, variants: usize) -> Self {
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        if live {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            bar,
            live,
            primary: primary.to_owned(),
            max_blocks,
            variants,
            current: None,
            began: Instant::now(),
            durations: Vec::new(),
            estimate: String::new(),
        }
    }

    /// Removes the live line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, progress: Option<&Progress>) -> String {
        let Some(plan) = &self.current else { return String::new() };
        let mut line = format!("{} · {}", self.place(plan.block), plan.name);
        if let Some(progress) = progress {
            let _ = write!(line, " · {}", progress.phase);
            if let Some(done) = progress.done {
                let _ = write!(line, " {:.0} %", done * 100.0);
            }
            if let Some(memory) = progress.memory {
                let _ = write!(line, " · {memory}");
            }
        }
        if let Some(left) = self.time_left(plan.block) {
            let _ = write!(line, " · at most {} left", span(left));
        }
        if !self.estimate.is_empty() {
            let _ = write!(line, " · {}", self.estimate);
        }
        line
    }

    fn place(&self, block: u32) -> String {
        match block {
            0 => "warm-up block".to_owned(),
            _ => format!("block {block}/{}", self.max_blocks),
        }
    }

    fn time_left(&self, block: u32) -> Option<Duration> {
        let mean = self.durations.iter().sum::<f64>() / self.durations.len() as f64;
        let blocks = f64::from(self.max_blocks.saturating_sub(block) + 1);
        let seconds = mean * blocks * self.variants as f64 - self.began.elapsed().as_secs_f64();
        (!self.durations.is_empty()).then(|| Duration::from_secs_f64(seconds.max(0.0)))
    }

    fn tell(&self, text: &str) {
        self.bar.suspend(|| output::tell(text));
    }

    fn trial_ends(&mut self, trial: &Trial) {
        self.durations.push(trial.seconds);
        let (place, seconds) = (self.place(trial.block), trial.seconds);
        let figure = trial.metrics.get(&self.primary).zip(metric::find(&self.primary));
        let shown = figure.map(|(value, metric)| metric.unit.show(*value)).unwrap_or_default();
        let text = format!("{place} · {} · {shown} · {seconds:.1} s", trial.variant);
        match (trial.outcome, &trial.detail) {
            (Outcome::Ok, _) if self.live => {}
            (Outcome::Ok, _) => self.tell(&text),
            (outcome, detail) => {
                let why = detail.as_deref().unwrap_or("no reason is known");
                self.tell(&format!("{place} · {} · {outcome}: {why}", trial.variant));
            }
        }
    }
}

impl Listener for Display {
    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Begin { done: 0 } => {}
            Event::Begin { done } => self.tell(&format!("going on after {done} finished trials")),
            Event::TrialBegins(plan) => {
                self.current = Some((*plan).clone());
                self.began = Instant::now();
                self.bar.set_message(self.line(None));
            }
            Event::Trial(progress) => self.bar.set_message(self.line(Some(progress))),
            Event::TrialEnds(trial) => self.trial_ends(trial),
            Event::BlockEnds { judgement, .. } => {
                self.estimate = estimate(&judgement.conclusions);
            }
        }
    }
}

/// The estimates so far, one per variant.
fn estimate(conclusions: &[Conclusion]) -> String {
    let of = |conclusion: &Conclusion| {
        let estimate = conclusion.estimate?;
        let (low, high) = estimate.ratio_interval;
        let percent = |share: f64| share * 100.0;
        Some(format!(
            "{} {:+.1} % ({:+.1} to {:+.1})",
            conclusion.variant,
            percent(estimate.ratio),
            percent(low),
            percent(high)
        ))
    };
    let primaries = conclusions.iter().filter(|conclusion| conclusion.role == Role::Primary);
    primaries.filter_map(of).collect::<Vec<_>>().join(", ")
}

/// A span of time in words: "about 3 min".
pub(crate) fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5400 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_what_a_waiting_person_wants() {
        for (seconds, text) in [(5, "5 s"), (89, "89 s"), (150, "3 min"), (7200, "2.0 h")] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
