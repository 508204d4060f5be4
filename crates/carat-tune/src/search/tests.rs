//! Whole searches of spaces whose effects are known.

use super::*;
use crate::space::tests::factor;

/// Saves 20 % with `a`, 10 % with `b`; `c` saves half but breaks the limit; `d` fails; the rest does nothing.
fn space() -> Space {
    switches(&["a", "b", "c", "d", "e", "f"])
}

fn switches(names: &[&str]) -> Space {
    let factors = names.iter().map(|name| factor(name, &["off", "on"])).collect();
    Space::new(factors, Vec::new()).unwrap()
}

fn plan(seed: u64) -> SearchPlan {
    SearchPlan::new(seed, 60, vec![Prior::MEMORY, Prior::LATENCY], vec![0.05])
}

fn outcome(space: &Space, one: &Configuration, rng: &mut SeededRng) -> SearchTrial {
    let on = |name: &str| space.describe(one).iter().any(|(known, _)| *known == name);
    let memory = [("a", -0.2), ("b", -0.1), ("c", -0.7)];
    let saved: f64 = memory.iter().filter(|(name, _)| on(name)).map(|(_, effect)| effect).sum();
    let latency = if on("c") { 0.15 } else { 0.0 };
    let logarithms = vec![18.0 + saved + 0.01 * rng.normal(), 3.0 + latency + 0.05 * rng.normal()];
    SearchTrial { configuration: one.clone(), logarithms: (!on("d")).then_some(logarithms) }
}

fn searched<'a>(space: &'a Space, seed: u64, blocks: usize) -> Search<'a> {
    let mut search = Search::new(space, plan(seed), &[]);
    let mut rng = SeededRng::new(seed + 1_000);
    for _ in 0..blocks {
        let Some(block) = search.next_block() else { break };
        let outcomes: Vec<_> = block.iter().map(|one| outcome(space, one, &mut rng)).collect();
        search.observe(&outcomes);
    }
    search
}

#[test]
fn it_finds_what_saves_within_the_limits_and_names_what_fails() {
    let space = space();
    let mut right = 0;
    for seed in 0..10 {
        let mut search = searched(&space, seed, usize::MAX);
        assert_eq!(search.trials(), 60);
        assert_eq!(search.banned_levels(), [("d", "on")], "seed {seed}");
        let candidate = search.candidate().unwrap();
        let chosen: Vec<&str> = space.describe(&candidate).iter().map(|(name, _)| *name).collect();
        let saves = ["a", "b"].iter().all(|name| chosen.contains(name));
        right += usize::from(saves && !chosen.contains(&"c") && !chosen.contains(&"d"));
        let effects = search.choice(&[]).effects(&candidate);
        assert_eq!(effects[0].name, "a", "seed {seed}: {effects:?}");
        assert!((effects[0].logarithm + 0.2).abs() < 4.0 * effects[0].standard_error + 0.01);
    }
    assert!(right >= 9, "{right} of 10");
}

/// As the server of `bin/bench tune --planted`: amounts, not shares, of which the model knows only logarithms.
fn planted(space: &Space, one: &Configuration, rng: &mut SeededRng) -> SearchTrial {
    let on = |name: &str| space.describe(one).iter().any(|(known, _)| *known == name);
    let saved = [(on("a"), 10.0), (on("a") && on("b"), 5.0), (on("c"), 20.0)];
    let saved: f64 = saved.iter().filter(|(is, _)| *is).map(|(_, amount)| amount).sum();
    let slower = if on("c") { 1.15_f64.ln() } else { 0.0 };
    let logarithms =
        vec![(74.0 - saved).ln() + 0.001 * rng.normal(), -2.5 + slower + 0.01 * rng.normal()];
    SearchTrial { configuration: one.clone(), logarithms: (!on("d")).then_some(logarithms) }
}

fn planted_space() -> Space {
    switches(&["a", "b", "c", "d", "e"])
}

/// A whole search of the planted server; `delay` is added to the logarithm of each latency of a block.
fn searched_planted(
    space: &Space,
    plan: SearchPlan,
    delay: impl Fn(usize, &mut SeededRng) -> f64,
) -> Search<'_> {
    let mut rng = SeededRng::new(plan.seed + 1_000);
    let mut search = Search::new(space, plan, &[]);
    while let Some(block) = search.next_block() {
        let mut outcomes: Vec<_> = block.iter().map(|one| planted(space, one, &mut rng)).collect();
        for logarithms in outcomes.iter_mut().filter_map(|one| one.logarithms.as_mut()) {
            logarithms[1] += delay(search.blocks, &mut rng);
        }
        search.observe(&outcomes);
    }
    search
}

#[test]
fn a_candidate_is_proposed_although_the_machine_was_disturbed_during_half_of_the_search() {
    let space = planted_space();
    let delay = |block: usize, rng: &mut SeededRng| match block {
        8..15 => 0.6 * rng.normal().abs(),
        _ => 0.0,
    };
    let mut right = 0;
    for seed in 0..40 {
        let plan = SearchPlan { trials: 96, ..plan(seed) };
        let candidate = searched_planted(&space, plan, delay).candidate();
        let candidate = candidate.unwrap_or_else(|| panic!("seed {seed}: none"));
        right += usize::from(space.mask(&candidate) == 0b11);
    }
    assert!(right >= 10, "{right} of 40 are a and b");
}

#[test]
fn what_does_nothing_is_within_its_standard_error_of_nothing_where_savings_are_amounts() {
    let space = planted_space();
    let mut wrong = 0;
    for seed in 0..50 {
        let plan = SearchPlan { trials: 36, ..plan(seed) };
        let mut search = searched_planted(&space, plan, |_, _| 0.0);
        search.candidate().unwrap();
        let effects = search.choice(&[]).single_effects();
        let idle = effects.iter().find(|effect| effect.name == "e").unwrap();
        wrong += usize::from(idle.logarithm.abs() > 3.0 * idle.standard_error);
    }
    assert!(wrong <= 1, "{wrong} of 50 are further from nothing than three standard errors");
}

#[test]
fn what_is_known_to_break_a_limit_is_hardly_tried_however_much_it_saves() {
    let space = space();
    let (mut tried, mut breaking) = (0, 0);
    for seed in 0..10 {
        let block = searched(&space, seed, 8).next_block().unwrap();
        let has_c = |one: &&Configuration| one.level(2) > 0;
        tried += block.len() - 1;
        breaking += block.iter().filter(has_c).count();
    }
    assert!(2 * breaking < tried, "{breaking} of {tried}");
}

#[test]
fn every_block_begins_with_the_default_and_holds_no_configuration_twice_while_there_are_others() {
    let space = space();
    let mut search = Search::new(&space, plan(1), &[]);
    let mut rng = SeededRng::new(2);
    for _ in 0..3 {
        let block = search.next_block().unwrap();
        assert!(block[0].is_default() && block.len() == 6);
        let mut unique = block.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 6, "{block:?}");
        let outcomes: Vec<_> = block.iter().map(|one| outcome(&space, one, &mut rng)).collect();
        search.observe(&outcomes);
    }
}

#[test]
fn no_block_holds_what_may_not_be_tried_however_few_configurations_are_left() {
    // Of two switches and a third that fails, four configurations may be tried: fewer than the places of a block.
    let space = switches(&["d", "a", "b"]);
    for seed in 0..20 {
        let mut search = Search::new(&space, plan(seed), &[]);
        let mut rng = SeededRng::new(seed);
        while let Some(block) = search.next_block() {
            let banned = search.banned();
            for one in &block {
                assert!(search.may_try(one, banned), "seed {seed}: {one:?} of {block:?}");
            }
            let outcomes = block.iter().map(|one| outcome(&space, one, &mut rng));
            search.observe(&outcomes.collect::<Vec<_>>());
        }
        assert_eq!(search.banned_levels(), [("d", "on")], "seed {seed}");
    }
}

#[test]
fn a_space_that_fits_into_a_block_is_tried_evenly_and_the_default_once_in_each_block() {
    for (names, seed) in
        [(&["e"][..], 1), (&["e"], 2), (&["a"], 3), (&["e", "f"], 4), (&["a", "d"], 5)]
    {
        let space = switches(names);
        let all = space.all().unwrap().len();
        let mut search = Search::new(&space, plan(seed), &[]);
        assert_eq!(search.most_trials(), 10 * all, "{names:?}");
        let mut rng = SeededRng::new(seed);
        let mut blocks = 0;
        while let Some(mut block) = search.next_block() {
            blocks += 1;
            let outcomes = block.iter().map(|one| outcome(&space, one, &mut rng));
            search.observe(&outcomes.collect::<Vec<_>>());
            let tried = block.len();
            block.sort();
            block.dedup();
            assert_eq!(block.len(), tried, "{names:?}, block {blocks}");
        }
        // As many blocks as a larger space has.
        assert_eq!(blocks, 10, "{names:?}");
    }
}

#[test]
fn the_default_is_never_tried_again_in_a_block() {
    let space = space();
    for seed in 0..10 {
        let mut search = Search::new(&space, plan(seed), &[]);
        let mut rng = SeededRng::new(seed);
        while let Some(block) = search.next_block() {
            let defaults = block.iter().filter(|one| one.is_default()).count();
            assert_eq!(defaults, 1, "seed {seed}: {block:?}");
            // Every setting costs memory, so that the default is the best guess.
            let outcomes = block.iter().map(|one| SearchTrial {
                logarithms: Some(vec![
                    18.0 + 0.2 * f64::from(space.mask(one).count_ones()) + 0.001 * rng.normal(),
                    3.0,
                ]),
                configuration: one.clone(),
            });
            search.observe(&outcomes.collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_same_trials_lead_to_the_same_proposals() {
    let space = space();
    for blocks in [0, 3, 6] {
        let (mut one, mut other) = (searched(&space, 7, blocks), searched(&space, 7, blocks));
        assert_eq!(one.next_block(), other.next_block(), "after {blocks} blocks");
    }
}

#[test]
fn known_profiles_come_first_and_each_once() {
    let space = space();
    let profile = space.configuration([("e", "on")]).unwrap();
    let mut search = Search::new(
        &space,
        plan(3),
        &[profile.clone(), profile.clone(), space.default_configuration()],
    );
    let block = search.next_block().unwrap();
    assert_eq!(block[1], profile);
    assert_eq!(block.iter().filter(|one| **one == profile).count(), 1);
}

#[test]
fn a_candidate_that_was_not_confirmed_is_not_proposed_again() {
    let space = space();
    let mut search = searched(&space, 4, usize::MAX);
    let first = search.candidate().unwrap();
    search.observe_confirmation(&first, &[]);
    assert_ne!(search.candidate(), Some(first));
}

#[test]
fn without_a_successful_trial_there_is_no_candidate() {
    let space = space();
    let mut search = Search::new(&space, plan(5), &[]);
    let block = search.next_block().unwrap();
    let failed = |one: &Configuration| SearchTrial { configuration: one.clone(), logarithms: None };
    search.observe(&block.iter().map(failed).collect::<Vec<_>>());
    assert_eq!(search.candidate(), None);
}

#[test]
fn a_search_in_which_every_setting_fails_ends_and_names_them() {
    let names = ["a", "b", "c"].map(|name| factor(name, &["off", "on"]));
    let space = Space::new(names.to_vec(), Vec::new()).unwrap();
    let mut search = Search::new(&space, plan(5), &[]);
    let mut rng = SeededRng::new(5);
    while let Some(block) = search.next_block() {
        let outcomes = block.iter().map(|one| SearchTrial {
            logarithms: outcome(&space, one, &mut rng).logarithms.filter(|_| one.is_default()),
            configuration: one.clone(),
        });
        search.observe(&outcomes.collect::<Vec<_>>());
    }
    assert!(search.banned_levels().contains(&("a", "on")), "{:?}", search.banned_levels());
    assert!(search.trials() < 60, "{}", search.trials());
    assert_eq!(search.candidate(), None);
}

#[test]
fn every_level_has_an_effect_of_its_own_once_there_are_trials() {
    let space = space();
    let mut search = searched(&space, 2, usize::MAX);
    search.candidate().unwrap();
    let effects = search.choice(&[]).single_effects();
    assert_eq!(effects.len(), 6);
    assert_eq!(effects[0].name, "c", "{effects:?}");
    let untried = Search::new(&space, plan(2), &[]);
    let effects = untried.choice(&[]).single_effects();
    assert!(effects.iter().all(|effect| effect.standard_error.is_infinite()));
}

#[test]
fn a_screen_of_failures_ends() {
    let space = Space::new(vec![factor("only", &["off", "on"])], Vec::new()).unwrap();
    let mut search = Search::new(&space, plan(6), &[]);
    assert_eq!(search.next_block().unwrap().len(), 2);
}
