//! The search: which configurations the next block holds.

use crate::choose::{Candidate, Choice};
use crate::model::{Effects, Model, Observation, Prior};
use crate::space::{Configuration, Space};
use carat_stats::simulate::SeededRng;

/// What one unit beyond a limit costs, in units of memory, both as logarithms: so much that no saving is worth a limit that
/// is clearly broken. At a fifth of it, a search spends its trials on what saves a third and is known to break a limit.
const EXCESS_COST: f64 = 20.0;
/// Random configurations among which the screen takes the one whose levels were tried least.
const SCREEN_DRAWS: usize = 30;
/// Settings that a configuration of the screen should have, and what each more or less costs there.
const SCREEN_SETTINGS: f64 = 5.0;
const SCREEN_DISTANCE_COST: f64 = 0.15;
/// Draws for one place of a block, after which it may hold a configuration that is in the block already.
const MOST_DRAWS: usize = 20;
/// A crash is the fault of a level that crashed this often and never succeeded.
const CRASHES_TO_BAN: usize = 2;
/// Random configurations that stand for all where the space is too large to enumerate.
const SAMPLED_CANDIDATES: usize = 50_000;
/// Standard errors of headroom of the first candidate, and how many more each further attempt requires.
const HEADROOM: f64 = 1.0;
const MORE_HEADROOM: f64 = 0.5;

/// How a search is done.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// The seed of every random number.
    pub seed: u64,
    pub screen_blocks: usize,
    /// Configurations in a block, the default included.
    pub block_size: usize,
    /// Most trials of the search, without those of confirmations.
    pub trials: usize,
    /// The metric to make small, then one for each limit.
    pub priors: Vec<Prior>,
    /// Upper limit of each metric but the first, as the logarithm of a ratio to the default. A metric of which more is
    /// better enters with the opposite sign.
    pub limits: Vec<f64>,
}

impl SearchPlan {
    /// The plan that simulations chose: 4 blocks of 6, then more up to `trials`.
    pub fn new(seed: u64, trials: usize, priors: Vec<Prior>, limits: Vec<f64>) -> Self {
        Self { seed, screen_blocks: 4, block_size: 6, trials, priors, limits }
    }
}

/// A configuration and the natural logarithms of its metrics, or `None` where the server failed.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchTrial {
    /// What was tried.
    pub configuration: Configuration,
    /// The logarithm of each metric, in the order of the plan.
    pub logarithms: Option<Vec<f64>>,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    space: &'a Space,
    plan: SearchPlan,
    /// Configurations to begin with, the first last.
    profiles: Vec<Configuration>,
    candidates: Vec<Candidate>,
    observations: Vec<Observation>,
    failed: Vec<u64>,
    succeeded: Vec<u64>,
    /// How often the screen used each level.
    shown: Vec<usize>,
    blocks: usize,
    trials: usize,
    attempted: Vec<u64>,
    model: Model,
}

impl<'a> Search<'a> {
    /// A search without trials. The screen begins with `profiles`, known good configurations.
    pub fn new(space: &'a Space, plan: SearchPlan, profiles: &[Configuration]) -> Self {
        let model = Model::new(space.bits(), &plan.priors);
        let mut profiles: Vec<Configuration> =
            // Profiles are taken from the end, and the first is to be tried first.
            profiles.iter().rev().filter(|profile| !profile.is_default()).cloned().collect();
        profiles.dedup();
        let seed = plan.seed;
        Self {
            space,
            plan,
            profiles,
            candidates: candidates(space, seed),
            observations: Vec::new(),
            failed: Vec::new(),
            succeeded: Vec::new(),
            shown: vec![0; space.bits()],
            blocks: 0,
            trials: 0,
            attempted: Vec::new(),
            model,
        }
    }

    /// The configurations of the next block, the default first; `None` when the trials of the plan are spent, or when every
    /// configuration fails.
    pub fn next_block(&mut self) -> Option<Vec<Configuration>> {
        let banned = self.banned();
        // A block that does not fit into the plan would leave the trials without their default.
        let is_over = self.trials + self.plan.block_size > self.plan.trials;
        if is_over || !self.candidates.iter().any(|one| self.may_try(&one.configuration, banned)) {
            return None;
        }
        // By block, so that a search that continues from its trials draws the same numbers.
        let mut rng = block_rng(self.plan.seed, self.blocks);
        Some(match self.is_screening() {
            true => self.screen_block(&mut rng),
            false => self.adapted_block(&mut rng),
        })
    }

    /// Whether the next block belongs to the screen.
    pub fn is_screening(&self) -> bool {
        self.blocks < self.plan.screen_blocks
    }

    /// Takes the outcomes of the block that was proposed last.
    pub fn observe(&mut self, outcomes: &[SearchTrial]) {
        self.trials += outcomes.len();
        self.learn(outcomes);
    }

    /// Takes the trials of a confirmation that failed, block by block, and never proposes its candidate again.
    pub fn observe_confirmation(&mut self, candidate: &Configuration, blocks: &[Vec<SearchTrial>]) {
        // Even a candidate that a limit broke teaches the model, so its trials are learned below.
        self.attempted.push(self.space.mask(candidate));
        for block in blocks {
            self.learn(block);
        }
    }

    fn learn(&mut self, outcomes: &[SearchTrial]) {
        for trial in outcomes {
            let mask = self.space.mask(&trial.configuration);
            match &trial.logarithms {
                Some(logarithms) => {
                    self.succeeded.push(mask);
                    let logarithms = logarithms.clone();
                    // Trials of a block share an effect of the machine, so its number goes along.
                    self.observations.push(Observation { block: self.blocks, mask, logarithms });
                }
                None => self.failed.push(mask),
            }
        }
        self.blocks += 1;
    }

    /// Levels that failed repeatedly and never succeeded, as bits. A failure counts against one level only: the one that
    /// explains most failures.
    fn banned(&self) -> u64 {
        // A level in any server that ran is innocent, whatever else failed with it.
        let innocent = self.succeeded.iter().fold(0, |bits, mask| bits | mask);
        let mut unexplained: Vec<u64> = self.failed.clone();
        let mut banned = 0;
        loop {
            let failures = |bit: &u64| unexplained.iter().filter(|mask| *mask & bit != 0).count();
            // `max_by_key` takes the last of equals: reversed, that is always the lowest bit.
            let suspects = (0..self.space.bits()).rev().map(|bit| 1_u64 << bit);
            let worst = suspects.filter(|bit| innocent & bit == 0).max_by_key(failures);
            match worst.filter(|bit| failures(bit) >= CRASHES_TO_BAN) {
                Some(bit) => {
                    banned |= bit;
                    // What this level explains must not count against another one as well.
                    unexplained.retain(|mask| mask & bit == 0);
                }
                None => return banned,
            }
        }
    }

    /// Name and level of what failed repeatedly and never succeeded.
    pub fn banned_levels(&self) -> Vec<(&str, &str)> {
        let banned = self.banned();
        (0..self.space.bits())
            .filter(|bit| banned >> bit & 1 == 1)
            .map(|bit| {
                let (factor, level) = self.space.level_of(bit);
                let factor = &self.space.factors()[factor];
                (factor.name.as_str(), factor.levels[usize::from(level)].as_str())
            })
            .collect()
    }

    fn may_try(&self, configuration: &Configuration, banned: u64) -> bool {
        let mask = self.space.mask(configuration);
        mask & banned == 0 && !self.failed.contains(&mask)
    }

    /// Profiles first, then random configurations that show each level about equally often.
    fn screen_block(&mut self, rng: &mut SeededRng) -> Vec<Configuration> {
        let banned = self.banned();
        // The default is in every block: effects are ratios to it.
        let mut block = vec![self.space.default_configuration()];
        let mut draws = 0;
        // Where few configurations are left, a block stays smaller rather than loop for ever.
        while block.len() < self.plan.block_size && draws < MOST_DRAWS * self.plan.block_size {
            draws += 1;
            let next = self.profiles.pop().or_else(|| self.least_shown(&block, banned, rng));
            let fits = |one: &Configuration| !block.contains(one) && self.may_try(one, banned);
            let Some(next) = next.filter(fits) else { continue };
            for bit in bits(self.space.mask(&next)) {
                self.shown[bit] += 1;
            }
            block.push(next);
        }
        block
    }

    /// Of some random configurations that may join the block the one whose levels were shown least.
    fn least_shown(
        &self,
        block: &[Configuration],
        banned: u64,
        rng: &mut SeededRng,
    ) -> Option<Configuration> {
        let drawn: Vec<Configuration> = (0..SCREEN_DRAWS).map(|_| self.space.random(rng)).collect();
        drawn
            .into_iter()
            .filter(|one| !block.contains(one) && self.may_try(one, banned))
            .map(|one| (self.novelty(&one), one))
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, one)| one)
    }

    fn novelty(&self, configuration: &Configuration) -> f64 {
        let mask = self.space.mask(configuration);
        // Each repetition of a level tells less than the one before.
        let new: f64 = bits(mask).map(|bit| 1.0 / (1.0 + self.shown[bit] as f64)).sum();
        // Many settings at once cannot be told apart, and few use a trial badly.
        let settings = f64::from(mask.count_ones());
        new - SCREEN_DISTANCE_COST * (settings - SCREEN_SETTINGS).abs()
    }

    /// The default, then in each place the best configuration of one draw from the posterior. Where every draw is in the
    /// block already, trying it again tells more than another would.
    fn adapted_block(&mut self, rng: &mut SeededRng) -> Vec<Configuration> {
        self.model.fit(&self.observations);
        let banned = self.banned();
        let mut block = vec![self.space.default_configuration()];
        while block.len() < self.plan.block_size {
            let Some(next) = self.adapted_place(&block, banned, rng) else { break };
            block.push(next);
        }
        block
    }

    /// The configuration of the next place of a block. It may always be tried; `None` where no draw may.
    fn adapted_place(
        &self,
        block: &[Configuration],
        banned: u64,
        rng: &mut SeededRng,
    ) -> Option<Configuration> {
        let mut again = None;
        for _ in 0..MOST_DRAWS {
            let drawn: Vec<Effects> = self.model.fits.iter().map(|fit| fit.draw(rng)).collect();
            // One draw per place: Thompson sampling explores as much as it doubts.
            let next = self.best_of_draw(&drawn, block, banned, rng);
            if !self.may_try(&next, banned) {
                continue;
            }
            if !block.contains(&next) {
                return Some(next);
            }
            again = Some(next);
        }
        // Repeating the best guess measures its noise, which an unlikely configuration does not.
        again
    }

    /// The best of four descents: from the default, from two random configurations and from the previous choice. None
    /// begins where a level is banned, because it could end there.
    fn best_of_draw(
        &self,
        drawn: &[Effects],
        block: &[Configuration],
        banned: u64,
        rng: &mut SeededRng,
    ) -> Configuration {
        // A descent ends in a local minimum, so it begins at several places.
        let mut starts = vec![self.space.default_configuration()];
        starts.extend([self.space.random(rng), self.space.random(rng)]);
        starts.extend(block.last().cloned());
        starts.retain(|start| self.space.mask(start) & banned == 0);
        // The default uses no level, so it is never banned and always the first start.
        let mut best = self.descend(&starts[0], drawn, banned);
        for start in &starts[1..] {
            let found = self.descend(start, drawn, banned);
            if found.0 < best.0 {
                best = found;
            }
        }
        best.1
    }

    /// Follows the best single change until none is better.
    fn descend(
        &self,
        from: &Configuration,
        drawn: &[Effects],
        banned: u64,
    ) -> (f64, Configuration) {
        let mut here = from.clone();
        let mut value = self.cost(&here, drawn);
        loop {
            let mut better = None;
            for neighbour in self.space.neighbours(&here) {
                let cost = self.cost(&neighbour, drawn);
                // Rounding alone must not count as better, or the descent could circle.
                if cost < value - 1e-9 && self.space.mask(&neighbour) & banned == 0 {
                    value = cost;
                    better = Some(neighbour);
                }
            }
            match better {
                Some(neighbour) => here = neighbour,
                None => return (value, here),
            }
        }
    }

    /// Memory and what is beyond the limits, under effects drawn from the posterior.
    fn cost(&self, configuration: &Configuration, drawn: &[Effects]) -> f64 {
        let mask = self.space.mask(configuration);
        // Only what exceeds a limit costs: being far below one is worth nothing.
        let excess: f64 = drawn[1..]
            .iter()
            .zip(&self.plan.limits)
            .map(|(effects, limit)| (effects.of(mask) - limit).max(0.0))
            .sum();
        drawn[0].of(mask) + EXCESS_COST * excess
    }

    /// The candidate for a confirmation; `None` where nothing promises a saving within the limits.
    pub fn candidate(&mut self) -> Option<Configuration> {
        self.chosen(|choice, candidates| choice.best(candidates))
    }

    /// The configuration with the least predicted memory, whatever its limits.
    pub(crate) fn least_memory(&mut self) -> Option<Configuration> {
        self.chosen(|choice, candidates| choice.least_memory(candidates))
    }

    fn chosen(
        &mut self,
        choose: impl Fn(&Choice<'_>, &[Candidate]) -> Option<Configuration>,
    ) -> Option<Configuration> {
        if self.observations.is_empty() {
            return None;
        }
        self.model.fit(&self.observations);
        let excluded = [self.attempted.as_slice(), self.failed.as_slice()].concat();
        let cautious = self.choice(&excluded);
        let chosen = choose(&cautious, &self.candidates);
        // A second candidate must not have less headroom than the first one that failed.
        if chosen.is_some() || !self.attempted.is_empty() {
            return chosen;
        }
        // Trials that vary much leave no headroom to anything; then the confirmation decides.
        choose(&Choice { headroom: 0.0, ..cautious }, &self.candidates)
    }

    /// What the model says about configurations now.
    pub fn choice<'b>(&'b self, excluded: &'b [u64]) -> Choice<'b> {
        Choice {
            space: self.space,
            model: &self.model,
            limits: &self.plan.limits,
            headroom: HEADROOM + MORE_HEADROOM * self.attempted.len() as f64,
            banned: self.banned(),
            excluded,
        }
    }

    /// Trials of the search so far, without those of confirmations.
    pub fn trials(&self) -> usize {
        self.trials
    }
}

/// The bits of a mask from the lowest.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}

/// The random numbers of one block.
fn block_rng(seed: u64, block: usize) -> SeededRng {
    // An odd constant near 2⁶⁴ / φ keeps the seeds of neighbouring blocks apart (splitmix64).
    SeededRng::new(seed ^ (block as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn candidates(space: &Space, seed: u64) -> Vec<Candidate> {
    // Too large to enumerate: a sample can miss the best, but it holds good ones.
    let all = space.all().unwrap_or_else(|| {
        let mut rng = SeededRng::new(seed);
        let mut sampled: Vec<_> = (0..SAMPLED_CANDIDATES).map(|_| space.random(&mut rng)).collect();
        sampled.sort();
        sampled.dedup();
        sampled
    });
    all.into_iter()
        .filter(|one| !one.is_default())
        .map(|configuration| Candidate { mask: space.mask(&configuration), configuration })
        .collect()
}

#[cfg(test)]
mod tests {
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
        let logarithms =
            vec![18.0 + saved + 0.01 * rng.normal(), 3.0 + latency + 0.05 * rng.normal()];
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
            let chosen: Vec<&str> =
                space.describe(&candidate).iter().map(|(name, _)| *name).collect();
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
            let mut outcomes: Vec<_> =
                block.iter().map(|one| planted(space, one, &mut rng)).collect();
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
    fn every_block_begins_with_the_default_and_holds_no_configuration_twice_while_there_are_others()
    {
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
        let failed =
            |one: &Configuration| SearchTrial { configuration: one.clone(), logarithms: None };
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
}
