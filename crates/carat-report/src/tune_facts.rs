//! Facts about a search that the terminal and the page show.

use crate::environment_format::shell_line;
use crate::mark::Mark;
use crate::numbers::{self, count, magnitude_interval};
use crate::use_it::{PLACES, command_words, env_words, exec_line};
use crate::wording::{Sentence, amount, change};
use carat_analysis::{Recommendation, TuneOutcome};
use carat_model::{Better, Conclusion, Role, Verdict, metric};
use carat_redact::SearchReport;

/// What the search leads to, in a sentence with the interval and the number of blocks.
pub(crate) fn headline(outcome: &TuneOutcome) -> Sentence {
    let Some(found) = &outcome.recommendation else {
        let trials = count(outcome.trials, "trial");
        return Sentence {
            variant: "Nothing better than the default".into(),
            mark: Mark::Open,
            rest: format!("was confirmed ({trials})."),
        };
    };
    let goal = found.conclusions.iter().find(|one| one.role == Role::Primary);
    let verdict = goal.map_or(Verdict::Undecided, |goal| goal.verdict);
    Sentence {
        variant: found.text.clone(),
        mark: Mark::of_verdict(verdict),
        rest: goal.map_or_else(String::new, |goal| sentence(goal, &found.conclusions)),
    }
}

fn sentence(goal: &Conclusion, all: &[Conclusion]) -> String {
    let Some(estimate) = &goal.estimate else { return "was confirmed.".into() };
    let (metric, noun) = (goal.metric.as_str(), phrase(&goal.metric));
    let guards = all.iter().filter(|one| matches!(one.role, Role::Guard { .. }));
    let price: String = guards
        .filter_map(|guard| Some(change(&phrase(&guard.metric), guard, guard.estimate.as_ref()?)))
        .collect();
    format!(
        "{} than the default ({}, {}){price}.",
        amount(metric, &noun, estimate),
        magnitude_interval(metric, estimate),
        count(goal.blocks as usize, "block"),
    )
}

/// A metric in words, with its moment.
fn phrase(name: &str) -> String {
    let Some(known) = metric::find(name) else { return name.to_owned() };
    match known.moment {
        Some(moment) => format!("{} {}", known.phrase, moment.words()),
        None => known.phrase.to_owned(),
    }
}

/// The lines of a shell that start the server with the recommended settings, and that print its environment.
pub(crate) fn commands(report: &SearchReport, found: &Recommendation) -> Vec<String> {
    // The recommended levels are over what every configuration has.
    let mut env = report.env.clone();
    env.extend(found.env.clone());
    let mut settings = report.settings.clone();
    settings.extend(found.settings.clone());
    let here = settings.iter().filter(|(name, _)| !PLACES.contains(&name.as_str()));
    let settings: Vec<String> = here.map(|(name, value)| format!("{name}={value}")).collect();
    if settings.is_empty() {
        // Without settings there is nothing for carat to apply.
        return vec![shell_line(&[env_words(&env), command_words(&report.command)].concat())];
    }
    let print = [&settings[..], &["--print-env", "systemd"].map(str::to_owned)].concat();
    [settings, print].map(|options| exec_line(&env, options, &report.command)).to_vec()
}

/// A change of one metric; a dash where it is unknown.
pub(crate) fn change_text(outcome: &TuneOutcome, metric: usize, change: Option<f64>) -> String {
    let name = &outcome.metrics[metric].metric;
    change.map_or_else(|| "–".into(), |change| numbers::single_change(name, change))
}

/// Places of the configurations that no other configuration beats, nor the default, in one of these metrics without being
/// worse in another; the best in the first metric comes first. One whose trials lack a metric is left out.
pub(crate) fn front(outcome: &TuneOutcome, metrics: &[usize]) -> Vec<usize> {
    let costs = (0..outcome.tried.len()).filter_map(|place| {
        let costs = metrics.iter().map(|&metric| cost(outcome, place, metric));
        Some((place, costs.collect::<Option<Vec<f64>>>()?))
    });
    let costs: Vec<(usize, Vec<f64>)> = costs.collect();
    // The default counts as tried: what it beats is no choice.
    let default = vec![0.0; metrics.len()];
    let mut front: Vec<&(usize, Vec<f64>)> = costs
        .iter()
        .filter(|(_, own)| {
            !beats(&default, own) && !costs.iter().any(|(_, other)| beats(other, own))
        })
        .collect();
    front.sort_by(|one, other| one.1[0].total_cmp(&other.1[0]));
    front.into_iter().map(|(place, _)| *place).collect()
}

/// 1 where more of a metric is worse, otherwise −1.
pub(crate) fn worse(outcome: &TuneOutcome, place: usize) -> f64 {
    let known = outcome.metrics.get(place).and_then(|shown| metric::find(&shown.metric));
    if known.is_some_and(|known| known.better == Better::Higher) { -1.0 } else { 1.0 }
}

fn beats(one: &[f64], other: &[f64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one <= other)
        && one.iter().zip(other).any(|(one, other)| one < other)
}

/// Places of the configurations, the best in the goal's metric first; those beyond a limit after the others, and those
/// without the metric last.
pub(crate) fn by_goal(outcome: &TuneOutcome) -> Vec<usize> {
    let mut places: Vec<usize> = (0..outcome.tried.len()).collect();
    let goal = |place: usize| cost(outcome, place, 0).unwrap_or(f64::INFINITY);
    places.sort_by(|one, other| goal(*one).total_cmp(&goal(*other)));
    limits_first(outcome, &mut places);
    // Stable: the order within both groups stays.
    places.sort_by_key(|place| goal(*place).is_infinite());
    places
}

/// Moves configurations after the others whose median is beyond a limit or unknown.
pub(crate) fn limits_first(outcome: &TuneOutcome, places: &mut [usize]) {
    places.sort_by_key(|place| {
        outcome.metrics.iter().enumerate().any(|(metric, shown)| {
            let cost = cost(outcome, *place, metric);
            shown.guard.is_some_and(|limit| cost.is_none_or(|cost| cost > limit))
        })
    });
}

/// The change of a metric, more of which is worse; `None` if it is unknown.
fn cost(outcome: &TuneOutcome, place: usize, metric: usize) -> Option<f64> {
    let change = outcome.tried[place].changes.get(metric).copied().flatten()?;
    Some(worse(outcome, metric) * change)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{conclusion, estimate};
    use carat_analysis::{Attempt, Hint, TriedConfiguration, TunedMetric};
    use std::collections::BTreeMap;

    fn tried(text: &str, changes: [Option<f64>; 2]) -> TriedConfiguration {
        let (succeeded, trials, failure) = (2, 2, None);
        TriedConfiguration {
            text: text.into(),
            succeeded,
            trials,
            changes: changes.into(),
            failure,
        }
    }

    pub(crate) fn report(recommendation: Option<Recommendation>) -> SearchReport {
        let metrics = [("memory.pss.late", None), ("latency.p95", Some(0.05))];
        let metrics = metrics.map(|(name, guard)| TunedMetric { metric: name.into(), guard });
        let failing = TriedConfiguration {
            succeeded: 0,
            failure: Some("crashed: D is on".into()),
            ..tried("compact=auto", [None, None])
        };
        let outcome = TuneOutcome {
            metrics: metrics.into(),
            recommendation,
            attempts: vec![Attempt {
                text: "trim=idle".into(),
                why: "it is not smaller by what matters".into(),
                conclusions: Vec::new(),
            }],
            ablation: Vec::new(),
            hints: vec![Hint { setting: "trim=idle".into(), change: -0.021, standard_error: 0.01 }],
            effects: Vec::new(),
            left_out: BTreeMap::from([("ksm".into(), "the server forks no workers".into())]),
            failing: vec!["compact=auto".into()],
            tried: vec![
                tried("arena_max=1", [Some(-0.3), Some(0.2)]),
                tried("trim=idle", [Some(-0.02), Some(-0.01)]),
                tried("beaten", [Some(-0.01), Some(0.01)]),
                tried("worse", [Some(0.01), Some(0.01)]),
                failing,
            ],
            trials: 42,
            seconds: 120.0,
        };
        let command = ["puma", "-p", "{port}", "-C", "puma.rb"].map(str::to_owned).into();
        let env = [("RACK_ENV", "production"), ("PORT", "{port}"), ("WORKERS", "4")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let settings = BTreeMap::new();
        SearchReport { name: "blog".into(), command, env, settings, seed: 3, outcome }
    }

    pub(crate) fn recommended() -> Recommendation {
        let conclusion = Conclusion {
            variant: "candidate 1".into(),
            metric: "memory.pss.late".into(),
            blocks: 12,
            ..conclusion(Verdict::Smaller, Some(estimate(-0.33, -0.31, -0.29)))
        };
        Recommendation {
            text: "arena_max=2 puma=2x6".into(),
            settings: BTreeMap::from([("arena_max".into(), "2".into())]),
            env: BTreeMap::from([("WORKERS".into(), "2".into())]),
            conclusions: vec![conclusion],
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_front_has_what_nothing_beats_and_the_default_beats_too() {
        let outcome = report(None).outcome;
        let texts = |places: Vec<usize>| {
            places.iter().map(|&place| outcome.tried[place].text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(front(&outcome, &[0, 1])), ["arena_max=1", "trim=idle"]);
        assert_eq!(texts(front(&outcome, &[0])), ["arena_max=1"]);
        // The first saves most, but its latency is beyond the limit; the last has no figures.
        assert_eq!(by_goal(&outcome), [1, 2, 3, 0, 4]);
    }

    #[test]
    fn a_recommendation_is_a_sentence_and_a_line_that_can_be_run() {
        let report = report(Some(recommended()));
        assert_eq!(
            headline(&report.outcome).whole(),
            "arena_max=2 puma=2x6 uses 31 % less memory over the last quarter of the load than the default (29 to 33 %, 12 blocks)."
        );
        let lines = commands(&report, &recommended());
        assert_eq!(
            lines[0],
            "env RACK_ENV=production WORKERS=2 carat exec arena_max=2 -- puma -C puma.rb"
        );
        assert!(lines[1].contains("--print-env systemd -- puma"), "{lines:?}");
        // What every trial had belongs to what was confirmed; where the server's files are does not.
        let settings = [("yjit", "on"), ("arena_max", "4"), ("root", "/r")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let common = SearchReport { settings, ..report.clone() };
        assert_eq!(
            commands(&common, &recommended())[0],
            "env RACK_ENV=production WORKERS=2 carat exec arena_max=2 yjit=on -- puma -C puma.rb"
        );
        let only_knobs = Recommendation { settings: BTreeMap::new(), ..recommended() };
        assert_eq!(
            commands(&report, &only_knobs),
            ["env RACK_ENV=production WORKERS=2 puma -C puma.rb"]
        );
    }
}
