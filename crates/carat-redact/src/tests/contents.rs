//! What becomes of the fields of results, recordings, ledgers, readings and searches: the tables are in files beside this one.

use super::fates::{TELLTALE, assert_fates, fates};
use super::filled::filled;
use crate::{
    Audience, SearchReport, redact_ledger, redact_outside, redact_recording, redact_results,
    redact_search,
};
use carat_analysis::{
    AblatedSetting, Attempt, Hint, Recommendation, TriedConfiguration, TuneOutcome, TunedMetric,
};
use carat_model::recording::Recording;
use carat_model::{
    ClassComparison, ClassDifference, ControlComparison, Ledger, OutsideReading, Results,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Results in which every field has the telltale.
fn results() -> Results {
    let text = TELLTALE.as_str();
    Results {
        info: filled(text, 0),
        trials: filled(text, 0),
        conclusions: filled(text, 0),
        controls: vec![ControlComparison {
            control: text.to_owned(),
            conclusion: filled(text, 0),
            part: None,
        }],
        curves: filled(text, 0),
        growth: filled(text, 0),
        moments: filled(text, 0),
        least: filled(text, 0),
        machines: filled(text, 0),
        classes: vec![ClassComparison {
            variant: text.to_owned(),
            baseline_trials: filled(text, 0),
            trials: filled(text, 0),
            with_malloc: true,
            all: filled(text, 0),
            classes: vec![ClassDifference { class: text.to_owned(), medians: filled(text, 0) }],
        }],
        warnings: filled(text, 0),
    }
}

/// A line per field: what an own and a shared report have of it.
fn shown<T, S: Serialize>(
    given: &T,
    redact: impl Fn(&T, Audience) -> T,
    parts: impl Fn(&T) -> S,
) -> BTreeSet<String> {
    let [own, shared] = [Audience::Own, Audience::Shared].map(|audience| redact(given, audience));
    fates(&parts(given), &parts(&own), &parts(&shared))
}

#[test]
fn every_field_of_results_is_shown_as_the_audience_may_see_it() {
    let found = shown(&results(), redact_results, Clone::clone);
    assert_fates(&found, include_str!("results.txt"));
}

fn recording(pick: usize) -> Recording {
    let text = TELLTALE.as_str();
    Recording {
        info: filled(text, pick),
        samples: filled(text, pick),
        markers: filled(text, pick),
        jit_code_before: None,
        ledger: filled(text, pick),
        growth: filled(text, pick),
        end: filled(text, pick),
    }
}

#[test]
fn every_field_of_a_recording_is_shown_as_the_audience_may_see_it() {
    let parts = |of: &Recording| {
        let written = [
            ("info", serde_json::to_value(&of.info)),
            ("samples", serde_json::to_value(&of.samples)),
            ("ledger", serde_json::to_value(&of.ledger)),
            ("end", serde_json::to_value(&of.end)),
        ];
        BTreeMap::from(written.map(|(name, part)| (name, part.expect("it can be written"))))
    };
    // Two, so that what keeps a class is a variable of Ruby and one of a library.
    let found = (0..2).flat_map(|pick| shown(&recording(pick), redact_recording, parts));
    assert_fates(&found.collect(), include_str!("recording.txt"));
}

#[test]
fn a_ledger_and_its_server_are_shown_as_in_a_recording() {
    let ledger: Ledger = filled(&TELLTALE, 0);
    for audience in [Audience::Own, Audience::Shared] {
        let shown = redact_recording(&recording(0), audience);
        let expected = (shown.info.what, shown.ledger.expect("a ledger"));
        assert_eq!(redact_ledger(&TELLTALE, &ledger, audience), expected);
    }
}

#[test]
fn every_field_of_a_reading_is_shown_as_the_audience_may_see_it() {
    // As many as the largest enumeration has variants.
    let found = (0..17).flat_map(|pick| {
        let given: OutsideReading = filled(&TELLTALE, pick);
        shown(&given, redact_outside, Clone::clone)
    });
    assert_fates(&found.collect(), include_str!("reading.txt"));
}

/// A search in which every field has the telltale.
fn search() -> SearchReport {
    let text = || TELLTALE.clone();
    let hint = || Hint { setting: text(), change: 0.0, standard_error: 0.0 };
    let values = || BTreeMap::from([(text(), text())]);
    let outcome = TuneOutcome {
        metrics: vec![TunedMetric { metric: text(), guard: None }],
        recommendation: Some(Recommendation {
            text: text(),
            settings: values(),
            env: values(),
            conclusions: filled(&text(), 0),
            notes: vec![text()],
        }),
        attempts: vec![Attempt { text: text(), why: text(), conclusions: filled(&text(), 0) }],
        ablation: vec![AblatedSetting { setting: text(), conclusion: filled(&text(), 0) }],
        hints: vec![hint()],
        effects: vec![hint()],
        left_out: values(),
        failing: vec![text()],
        tried: vec![TriedConfiguration {
            text: text(),
            succeeded: 0,
            trials: 0,
            changes: Vec::new(),
            failure: Some(text()),
        }],
        trials: 0,
        seconds: 0.0,
    };
    SearchReport {
        name: text(),
        command: vec![text()],
        env: [(text(), text())].into(),
        settings: values(),
        seed: 0,
        outcome,
    }
}

#[test]
fn every_field_of_a_search_is_shown_as_the_audience_may_see_it() {
    let found = shown(&search(), redact_search, |of| {
        (of.name.clone(), of.command.clone(), of.outcome.clone())
    });
    assert_fates(&found, include_str!("search.txt"));
}
