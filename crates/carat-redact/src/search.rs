//! The outcome of a search for an audience.

use crate::forms::common_title;
use crate::rules::{Audience, RedactionRules};
use carat_analysis::TuneOutcome;
use carat_model::{Conclusion, HIDDEN};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is shown of a search: its name, the server's command, and the outcome.
#[derive(Debug, Clone)]
pub struct SearchReport {
    /// Name of the search.
    pub name: String,
    /// The words of the server's command, with placeholders.
    pub command: Vec<String>,
    /// Variables of the server in every configuration, with placeholders.
    pub env: BTreeMap<String, String>,
    /// Settings of the server in every configuration.
    pub settings: BTreeMap<String, String>,
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
    let edited = |values: &mut BTreeMap<String, String>| {
        let given = std::mem::take(values).into_iter();
        *values =
            given.map(|(name, value)| (rules.text(&name), rules.setting(&name, &value))).collect();
    };
    edited(&mut shown.env);
    edited(&mut shown.settings);
    let outcome = &mut shown.outcome;
    outcome.metrics.iter_mut().for_each(|tuned| rules.edit(&mut tuned.metric));
    if let Some(found) = &mut outcome.recommendation {
        rules.edit(&mut found.text);
        edited(&mut found.settings);
        edited(&mut found.env);
        edit_conclusions(&rules, &mut found.conclusions);
        found.notes.iter_mut().for_each(|note| rules.edit(note));
    }
    for attempt in &mut outcome.attempts {
        rules.edit(&mut attempt.text);
        rules.edit(&mut attempt.why);
        edit_conclusions(&rules, &mut attempt.conclusions);
    }
    for part in &mut outcome.ablation {
        rules.edit(&mut part.setting);
        edit_conclusions(&rules, std::slice::from_mut(&mut part.conclusion));
    }
    for hint in outcome.hints.iter_mut().chain(&mut outcome.effects) {
        rules.edit(&mut hint.setting);
    }
    let left_out = std::mem::take(&mut outcome.left_out).into_iter();
    outcome.left_out =
        left_out.map(|(name, reason)| (rules.text(&name), rules.text(&reason))).collect();
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

fn edit_conclusions(rules: &RedactionRules, conclusions: &mut [Conclusion]) {
    for conclusion in conclusions {
        rules.edit(&mut conclusion.variant);
        rules.edit(&mut conclusion.metric);
    }
}
