//! The outcome of a search for an audience.

use crate::forms::common_title;
use crate::rules::{Audience, RedactionRules};
use carat_analysis::TuneOutcome;
use carat_model::HIDDEN;
use std::collections::BTreeSet;

/// Everything that is shown of a search: its name, the server's command, and the outcome.
#[derive(Debug, Clone)]
pub struct SearchReport {
    /// Name of the search.
    pub name: String,
    /// The words of the server's command.
    pub command: Vec<String>,
    /// Seed of every random number.
    pub seed: u64,
    /// What the search led to.
    pub outcome: TuneOutcome,
}

/// The outcome of a search for that audience.
pub fn redact_search(report: &SearchReport, audience: Audience) -> SearchReport {
    let rules = RedactionRules::new(report, BTreeSet::new(), audience);
    let mut shown = report.clone();
    rules.edit(&mut shown.name);
    for word in &mut shown.command {
        rules.edit(word);
        if rules.is_shared() {
            *word = common_title(word);
        }
    }
    let outcome = &mut shown.outcome;
    if let Some(found) = &mut outcome.recommendation {
        rules.edit(&mut found.text);
        for values in [&mut found.settings, &mut found.env] {
            *values = std::mem::take(values)
                .into_iter()
                .map(|(name, value)| {
                    let value = rules.setting(&name, &value);
                    (plain(&rules, name), value)
                })
                .collect();
        }
    }
    for attempt in &mut outcome.attempts {
        rules.edit(&mut attempt.text);
    }
    for part in &mut outcome.ablation {
        rules.edit(&mut part.setting);
    }
    for hint in outcome.hints.iter_mut().chain(&mut outcome.effects) {
        rules.edit(&mut hint.setting);
    }
    outcome.failing.iter_mut().for_each(|name| rules.edit(name));
    for tried in &mut outcome.tried {
        rules.edit(&mut tried.text);
        // It quotes what the server printed.
        match &mut tried.failure {
            Some(failure) if rules.is_shared() => *failure = HIDDEN.to_owned(),
            failure => failure.iter_mut().for_each(|failure| rules.edit(failure)),
        }
    }
    shown
}

fn plain(rules: &RedactionRules, mut text: String) -> String {
    rules.edit(&mut text);
    text
}
