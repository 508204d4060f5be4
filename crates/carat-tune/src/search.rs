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

    /// Blocks of the search. Also where they are smaller there are no more: each has a trial of the default, which are enough.
    fn blocks(&self) -> usize {
        self.trials / self.block_size.max(1)
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
    /// Blocks that were learned, those of confirmations too.
    blocks: usize,
    /// Blocks and trials of the search.
    searched: usize,
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
            searched: 0,
            trials: 0,
            attempted: Vec::new(),
            model,
        }
    }

    /// The configurations of the next block, the default first; `None` when the trials of the plan are spent, or when every
    /// configuration fails.
    pub fn next_block(&mut self) -> Option<Vec<Configuration>> {
        let banned = self.banned();
        let is_over = self.searched >= self.plan.blocks();
        if is_over || !self.candidates.iter().any(|one| self.may_try(&one.configuration, banned)) {
            return None;
        }
        // By block, so that a search that continues from its trials draws the same numbers.
        let mut rng = block_rng(self.plan.seed, self.blocks);
        // Where all of them fit into a block, there is nothing to choose.
        let block = match self.is_screening() || self.candidates.len() < self.plan.block_size {
            true => self.screen_block(&mut rng),
            false => self.adapted_block(&mut rng),
        };
        // The default alone is compared with nothing.
        (block.len() > 1).then_some(block)
    }

    /// Most trials that the search can take.
    pub fn most_trials(&self) -> usize {
        self.plan.blocks() * (self.candidates.len() + 1).min(self.plan.block_size)
    }

    /// Whether the next block belongs to the screen.
    pub fn is_screening(&self) -> bool {
        self.blocks < self.plan.screen_blocks
    }

    /// Takes the outcomes of the block that was proposed last.
    pub fn observe(&mut self, outcomes: &[SearchTrial]) {
        self.searched += 1;
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
    /// block already, trying it again tells more than another would, but for the default: there is nothing to learn of it.
    fn adapted_block(&mut self, rng: &mut SeededRng) -> Vec<Configuration> {
        self.model.fit(&self.observations);
        let banned = self.banned();
        let mut block = vec![self.space.default_configuration()];
        while block.len() < self.plan.block_size {
            let Some(next) = self.adapted_place(&block, banned, rng) else { break };
            block.push(next);
        }
        if block.len() == 1 {
            // The default seems the best: what is known least may be better yet.
            block.extend(self.least_shown(&block, banned, rng));
        }
        block
    }

    /// The configuration of the next place of a block. It may always be tried; `None` where no draw may, or all are the default.
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
            again = Some(next).filter(|one| !one.is_default()).or(again);
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
mod tests;
