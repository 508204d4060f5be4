//! Searches of simulated apps, and how often they are right.

use crate::confirm::{Confirmation, ConfirmationEnd};
use crate::model::Prior;
use crate::search::{Search, SearchPlan, SearchTrial};
use crate::simulate::app::{SimulatedApp, World};
use crate::space::Configuration;
use carat_stats::simulate::SeededRng;

/// The limits of the simulations: p95 at most +5 %, throughput at least −3 %, as logarithms.
const LIMITS: [(f64, f64); 2] = [(1.05, 1.0), (1.0, 0.97)];
/// Blocks of a confirmation, attempts, and the smallest saving that matters.
const CONFIRM_BLOCKS: u32 = 60;
const ATTEMPTS: u32 = 2;
const MARGIN: f64 = -0.01;
/// A recommendation within this of the best possible saving is near it, as a fraction of the default's memory.
const NEAR: f64 = 0.03;

fn limits() -> Vec<f64> {
    LIMITS.iter().map(|(most, least)| most.ln() - least.ln()).collect()
}

struct SearchResult {
    search_trials: usize,
    trials: usize,
    /// What was recommended, the interval of its memory, and whether the strongest setting was named right.
    recommended: Option<(Configuration, (f64, f64), bool)>,
    /// Saving of the best configuration that keeps the limits in truth, as a fraction.
    oracle: f64,
}

/// How often the searches of a world are right. Shares and savings are fractions.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub apps: usize,
    /// Mean number of trials of the search.
    pub search_trials: f64,
    /// Mean number of trials with the confirmations, and the ninth decile.
    pub trials: f64,
    /// See `trials`.
    pub trials_p90: f64,
    /// Apps for which something was recommended.
    pub recommends: f64,
    /// Mean true saving; 0 where nothing was recommended.
    pub saving: f64,
    /// Mean saving of the best configuration that keeps the limits in truth.
    pub oracle: f64,
    /// Apps whose recommendation is near the best.
    pub near: f64,
    /// Recommendations that break a limit in truth, as a share of all apps.
    pub breaks_limit: f64,
    /// Recommendations whose true memory lies in their interval.
    pub covered: f64,
    /// Recommendations whose strongest setting was named right.
    pub strongest: f64,
}

/// Searches `apps` apps of a world with at most `trials` trials each, from the app with number `first` on. If `forced`, the
/// configuration with the least predicted memory is confirmed whatever the model says about limits: the hardest test of
/// the claims.
pub fn summarize(world: World, first: u64, apps: usize, trials: usize, forced: bool) -> Summary {
    let mut summary = Summary { apps, ..Summary::default() };
    let mut all_trials = Vec::with_capacity(apps);
    let mut recommended = 0.0;
    for number in (first..).take(apps) {
        let app = SimulatedApp::draw(number, world);
        let outcome = search(&app, number, trials, forced);
        all_trials.push(outcome.trials as f64);
        summary.search_trials += outcome.search_trials as f64;
        summary.oracle += outcome.oracle;
        let Some((configuration, interval, strongest)) = outcome.recommended else { continue };
        recommended += 1.0;
        let truth = app.truth(&configuration);
        let saving = 1.0 - truth[0].exp();
        summary.saving += saving;
        summary.near += f64::from(u8::from(outcome.oracle - saving <= NEAR));
        let broken = truth[1..].iter().zip(limits()).any(|(value, limit)| *value > limit);
        summary.breaks_limit += f64::from(u8::from(broken));
        let covered = interval.0 <= truth[0] && truth[0] <= interval.1;
        summary.covered += f64::from(u8::from(covered));
        summary.strongest += f64::from(u8::from(strongest));
    }
    let count = apps.max(1) as f64;
    all_trials.sort_by(f64::total_cmp);
    summary.trials = all_trials.iter().sum::<f64>() / count;
    let ninth_decile = apps.saturating_sub(1) * 9 / 10;
    summary.trials_p90 = all_trials.get(ninth_decile).copied().unwrap_or_default();
    // Per app, also where nothing was recommended: silence is an outcome too.
    summary.recommends = recommended / count;
    for sum in [
        &mut summary.search_trials,
        &mut summary.saving,
        &mut summary.oracle,
        &mut summary.near,
        &mut summary.breaks_limit,
    ] {
        *sum /= count;
    }
    // Only a recommendation can cover the truth or name a setting.
    for share in [&mut summary.covered, &mut summary.strongest] {
        *share /= f64::max(recommended, 1.0);
    }
    summary
}

fn search(app: &SimulatedApp, number: u64, trials: usize, forced: bool) -> SearchResult {
    // Trials have numbers of their own: they must not follow those that drew the app.
    let mut rng = SeededRng::new(number.wrapping_mul(7_919) + 13);
    let limits = limits();
    let priors = vec![Prior::MEMORY, Prior::LATENCY, Prior::THROUGHPUT];
    let plan = SearchPlan::new(number, trials, priors, limits.clone());
    let mut search = Search::new(&app.space, plan, &profiles(app));
    while let Some(block) = search.next_block() {
        let outcomes = run(app, &block, &mut rng);
        search.observe(&outcomes);
    }
    let rules = Confirmation::new(ATTEMPTS, CONFIRM_BLOCKS);
    let mut outcome = SearchResult {
        search_trials: search.trials(),
        trials: search.trials(),
        recommended: None,
        oracle: oracle(app, &limits),
    };
    for _ in 0..ATTEMPTS {
        let candidate = if forced { search.least_memory() } else { search.candidate() };
        let Some(candidate) = candidate else { break };
        let (blocks, end) = confirm(app, &rules, &candidate, &mut rng);
        outcome.trials += blocks.iter().map(Vec::len).sum::<usize>();
        if let Some((ConfirmationEnd::Confirmed, Some(interval))) = end {
            let strongest = is_strongest_right(app, &search, &candidate);
            outcome.recommended = Some((candidate, interval, strongest));
            break;
        }
        // A refuted candidate's blocks are the most precise trials so far: learn from them.
        search.observe_confirmation(&candidate, &blocks);
    }
    outcome
}

fn run(app: &SimulatedApp, block: &[Configuration], rng: &mut SeededRng) -> Vec<SearchTrial> {
    let outcomes = app.block(block, rng);
    block
        .iter()
        .zip(outcomes)
        .map(|(configuration, logarithms)| SearchTrial {
            configuration: configuration.clone(),
            logarithms,
        })
        .collect()
}

/// Blocks of default and candidate until the rules end them, or until the server fails.
#[expect(clippy::type_complexity, reason = "the pair is taken apart where it is used")]
fn confirm(
    app: &SimulatedApp,
    rules: &Confirmation,
    candidate: &Configuration,
    rng: &mut SeededRng,
) -> (Vec<Vec<SearchTrial>>, Option<(ConfirmationEnd, Option<(f64, f64)>)>) {
    let pair = [app.space.default_configuration(), candidate.clone()];
    let (mut blocks, mut differences) = (Vec::new(), Vec::new());
    while let Some(next) = rules.next_look(blocks.len()) {
        while blocks.len() < next as usize {
            let trials = run(app, &pair, rng);
            let values = (trials[0].logarithms.clone(), trials[1].logarithms.clone());
            blocks.push(trials);
            // A server that fails has no difference, and its candidate cannot be confirmed.
            let (Some(default), Some(other)) = values else { return (blocks, None) };
            differences.push(other.iter().zip(&default).map(|(o, d)| o - d).collect());
        }
        let end = rules.end(&differences, MARGIN, &limits());
        if end.is_some() {
            return (blocks, end);
        }
    }
    (blocks, None)
}

/// The saving of the best configuration that keeps the limits in truth.
fn oracle(app: &SimulatedApp, limits: &[f64]) -> f64 {
    let all = app.space.all().unwrap_or_default();
    let memory = all
        .iter()
        .filter(|configuration| !app.fails(configuration))
        .map(|configuration| app.truth(configuration))
        .filter(|truth| truth[1..].iter().zip(limits).all(|(value, limit)| value <= limit))
        .map(|truth| truth[0]);
    // The default is always allowed, so the best saving is at least 0.
    1.0 - memory.fold(0.0, f64::min).exp()
}

/// Whether the setting that the model calls strongest is the strongest in truth.
fn is_strongest_right(app: &SimulatedApp, search: &Search<'_>, chosen: &Configuration) -> bool {
    let named = search.choice(&[]).effects(chosen);
    // Memory without the strongest setting is the largest.
    let truth = (0..app.space.factors().len())
        .filter(|&factor| chosen.level(factor) > 0)
        .map(|factor| (app.truth(&app.space.with(chosen, factor, 0))[0], factor))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let truth = truth.map(|(_, factor)| app.space.factors()[factor].name.as_str());
    named.first().map(|effect| effect.name.as_str()) == truth
}

/// Known good combinations, as far as an app has their settings.
fn profiles(app: &SimulatedApp) -> Vec<Configuration> {
    let profiles: [&[(&str, &str)]; 6] = [
        &[("arena_max", "2"), ("prepare_fork", "full")],
        &[("arena_max", "2"), ("prepare_fork", "full"), ("trim", "full-gc")],
        &[("allocator", "jemalloc"), ("malloc_conf", "decay 0")],
        &[("allocator", "jemalloc"), ("prepare_fork", "full")],
        &[
            ("allocator", "jemalloc"),
            ("malloc_conf", "decay 0"),
            ("prepare_fork", "full"),
            ("trim", "full-gc"),
        ],
        &[("arena_max", "1"), ("trim", "idle"), ("compact", "boot")],
    ];
    let known: Vec<&str> = app.space.factors().iter().map(|factor| factor.name.as_str()).collect();
    profiles
        .iter()
        .filter_map(|levels| {
            app.space.configuration(levels.iter().copied().filter(|(name, _)| known.contains(name)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_apps_are_searched_and_no_recommendation_breaks_a_limit() {
        let summary = summarize(World::Real, 100, 12, 96, false);
        assert!(summary.recommends > 0.5, "{summary:?}");
        assert!(summary.saving > 0.5 * summary.oracle, "{summary:?}");
        assert!(summary.breaks_limit < 0.1, "{summary:?}");
        assert!(summary.search_trials <= 96.0 && summary.trials > summary.search_trials);
    }

    #[test]
    fn where_no_setting_does_anything_nothing_is_recommended() {
        let summary = summarize(World::Null, 0, 12, 60, true);
        assert!(summary.recommends < 0.2, "{summary:?}");
    }
}
