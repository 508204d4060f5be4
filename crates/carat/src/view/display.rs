//! Shows an experiment while it runs: one live line on a terminal, one line per trial elsewhere.

use crate::run::experiment::{EventHandler, ExperimentEvent};
use crate::run::trial::{TrialPlan, TrialProgress};
use crate::view::{ProgressText, output};
use carat_model::Outcome;
use carat_report::count;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

pub(crate) struct ProgressDisplay {
    bar: ProgressBar,
    live: bool,
    text: ProgressText,
    current: Option<(TrialPlan, Instant)>,
}

impl ProgressDisplay {
    pub(crate) fn new(live: bool, text: ProgressText) -> Self {
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        // Without a live line nothing is drawn, so no thread has to tick.
        if live {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, live, text, current: None }
    }

    /// Removes the live line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, progress: Option<&TrialProgress>) {
        if let Some((plan, began)) = &self.current {
            self.bar.set_message(self.text.line(plan, progress, began.elapsed()));
        }
    }

    fn print(&self, text: &str) {
        // The bar is taken away while a line is printed, or both would be on one line.
        self.bar.suspend(|| output::print_message(text));
    }
}

impl EventHandler for ProgressDisplay {
    fn handle(&mut self, event: &ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::Begin { done: 0 } => {}
            ExperimentEvent::Begin { done } => {
                // Its trials until a verdict are fewer than those of one that begins.
                self.text.forget_effort();
                self.print(&format!("resuming after {}", count(*done, "finished trial")))
            }
            ExperimentEvent::TrialBegins(plan) => {
                self.current = Some(((*plan).clone(), Instant::now()));
                self.update(None);
            }
            ExperimentEvent::TrialProgresses(progress) => self.update(Some(progress)),
            ExperimentEvent::TrialEnds(trial) => {
                let line = self.text.trial_line(trial);
                // On a terminal the live line says enough of a trial that succeeded.
                if !self.live || trial.outcome != Outcome::Ok {
                    self.print(&line);
                }
                if let Some(effort) = self.text.effort(trial) {
                    self.print(&effort);
                }
            }
            ExperimentEvent::BlockEnds { judgement, .. } => {
                self.text.block_ended(&judgement.conclusions)
            }
        }
    }
}
