//! The simulated app: what memory, p95 and throughput every configuration really has, and noisy trials of it.
//!
//! Memory is the sum of parts (shared pages, pages lost by copy on write, free memory of malloc, free slots, the rest), so
//! that savings interact and saturate as on real servers: fewer arenas, trimming and another allocator reduce the same
//! free memory. Three of five apps are preforking clusters, one in five has a level that makes the server fail.

use crate::space::{Condition, Configuration, Factor, Space};
use carat_stats::simulate::SeededRng;

/// Names and levels of the factors of a cluster, in the order of [`Index`].
const FACTORS: [(&str, &[&str]); 12] = [
    ("allocator", &["system", "jemalloc", "mimalloc", "tcmalloc"]),
    ("arena_max", &["default", "4", "2", "1"]),
    ("malloc.thresholds", &["default", "fixed"]),
    ("malloc_conf", &["default", "decay 1 s", "decay 0"]),
    ("trim", &["off", "full-gc", "idle"]),
    ("compact", &["off", "boot", "auto"]),
    ("prepare_fork", &["off", "warmup", "full"]),
    ("gc_pacing", &["off", "idle"]),
    ("gc.growth_factor", &["1.8", "1.1"]),
    ("gc.oldobject_limit_factor", &["2.0", "1.2"]),
    ("puma", &["4x3", "3x4", "2x6", "6x2"]),
    ("yjit", &["ruby", "on", "after-fork"]),
];

/// Index of each factor of [`FACTORS`].
#[derive(Debug, Clone, Copy)]
enum Index {
    Allocator,
    Arenas,
    Thresholds,
    Conf,
    Trim,
    Compact,
    PrepareFork,
    Pacing,
    Growth,
    OldObjects,
    Workers,
    Yjit,
}

/// What is true of the simulated apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Settings save and cost as on real servers.
    Real,
    /// No setting does anything.
    Null,
    /// Memory as in `Real`; every configuration has its p95 exactly at a limit of +5 %.
    AtTheLimit,
}

#[derive(Debug, Clone)]
pub struct SimulatedApp {
    world: World,
    /// The configurations of this app.
    pub space: Space,
    /// Index of each of `space`'s factors in [`FACTORS`].
    indices: Vec<usize>,
    memory: MemoryParts,
    /// Logarithm of the p95 and of the throughput, by bit of the level.
    p95: Vec<f64>,
    throughput: Vec<f64>,
    /// What two levels together add to each of the three metrics.
    pairs: [Vec<f64>; 3],
    /// Standard deviation of one trial of each metric, as a fraction.
    noise: [f64; 3],
    /// The level with which the server fails, as a factor of [`FACTORS`] and a level.
    fails: Option<(usize, u8)>,
}

/// Shares of the default's memory and what settings make of them.
#[derive(Debug, Clone)]
struct MemoryParts {
    shared: f64,
    copied: f64,
    malloc_free: f64,
    slots_free: f64,
    rest: f64,
    allocator: [f64; 4],
    arenas: [f64; 4],
    thresholds: f64,
    conf: [f64; 3],
    /// Under glibc, then under another allocator.
    trim: [[f64; 3]; 2],
    compact_slots: [f64; 3],
    compact_adds: f64,
    prepared: [f64; 3],
    prepared_under_glibc: f64,
    pacing: (f64, f64),
    growth: f64,
    old_objects: (f64, f64),
    workers: [f64; 4],
    yjit: [f64; 3],
}

/// A uniform number.
fn between(rng: &mut SeededRng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.uniform()
}

/// A normal number.
fn normal(rng: &mut SeededRng, mean: f64, sd: f64) -> f64 {
    mean + sd * rng.normal()
}

impl MemoryParts {
    fn draw(rng: &mut SeededRng, cluster: bool) -> Self {
        let (shared, copied, malloc_free, slots_free) = if cluster {
            (
                between(rng, 0.05, 0.15),
                between(rng, 0.15, 0.45),
                between(rng, 0.05, 0.25),
                between(rng, 0.03, 0.10),
            )
        } else {
            (between(rng, 0.1, 0.2), 0.0, between(rng, 0.05, 0.35), between(rng, 0.03, 0.12))
        };
        let mut arenas =
            [between(rng, 0.75, 0.97), between(rng, 0.4, 0.8), between(rng, 0.15, 0.6)];
        // Fewer arenas have less free memory, never more.
        arenas.sort_by(|one, other| other.total_cmp(one));
        let decay = between(rng, 0.55, 1.0);
        let warmed = between(rng, 0.2, 0.6);
        let yjit = between(rng, 0.02, 0.08);
        // Logarithms: an allocator may halve memory as easily as double it.
        let mut allocator = |typical: f64| (typical.ln() + normal(rng, 0.0, 0.4)).exp();
        let allocator = [1.0, allocator(0.8), allocator(0.9), allocator(1.0)];
        Self {
            shared,
            copied,
            malloc_free,
            slots_free,
            rest: 1.0 - shared - copied - malloc_free - slots_free,
            allocator,
            arenas: [1.0, arenas[0], arenas[1], arenas[2]],
            thresholds: between(rng, 0.75, 1.05),
            conf: [1.0, decay, decay * between(rng, 0.5, 0.95)],
            trim: [
                [1.0, between(rng, 0.6, 0.95), between(rng, 0.6, 0.95)],
                [1.0, between(rng, 0.85, 1.0), between(rng, 0.85, 1.0)],
            ],
            compact_slots: [1.0, between(rng, 0.7, 1.05), between(rng, 0.5, 0.9)],
            compact_adds: between(rng, 0.0, 0.01),
            prepared: [0.0, warmed, (warmed + between(rng, 0.05, 0.3)).min(0.92)],
            prepared_under_glibc: between(rng, 0.4, 0.9),
            pacing: (between(rng, 0.8, 1.02), between(rng, 0.85, 1.0)),
            growth: between(rng, 0.5, 0.95),
            old_objects: (between(rng, 0.7, 1.0), between(rng, 0.97, 1.0)),
            workers: [
                1.0,
                0.75 + between(rng, 0.0, 0.08),
                0.5 + between(rng, 0.02, 0.14),
                1.5 - between(rng, 0.0, 0.1),
            ],
            yjit: [0.0, yjit, yjit * between(rng, 0.8, 1.1)],
        }
    }

    /// Memory under these levels, as a ratio to the default.
    fn total(&self, level: impl Fn(Index) -> usize) -> f64 {
        let allocator = level(Index::Allocator);
        // Arenas, thresholds and trimming are glibc's; another allocator has effects of its own.
        let other_allocator = usize::from(allocator > 0);
        let mut malloc_free = self.malloc_free
            * self.allocator[allocator]
            * self.arenas[level(Index::Arenas)]
            * self.conf[level(Index::Conf)]
            * self.trim[other_allocator][level(Index::Trim)];
        if level(Index::Thresholds) > 0 {
            malloc_free *= self.thresholds;
        }
        let mut slots_free = self.slots_free * self.compact_slots[level(Index::Compact)];
        let mut rest = self.rest;
        if level(Index::Pacing) > 0 {
            slots_free *= self.pacing.0;
            malloc_free *= self.pacing.1;
        }
        if level(Index::Growth) > 0 {
            slots_free *= self.growth;
        }
        if level(Index::OldObjects) > 0 {
            slots_free *= self.old_objects.0;
            rest *= self.old_objects.1;
        }
        let kept = self.prepared[level(Index::PrepareFork)]
            * if other_allocator > 0 { 1.0 } else { self.prepared_under_glibc };
        // The parts are added and each factor acts on its own part, so savings saturate.
        let private = self.copied * (1.0 - kept) + malloc_free + slots_free + rest;
        // Workers multiply only what each has for itself.
        let private =
            (private + self.yjit[level(Index::Yjit)]) * self.workers[level(Index::Workers)];
        // Another allocator is a library more to map.
        let library = if other_allocator > 0 { 0.01 } else { 0.0 };
        let compacted = if level(Index::Compact) == 1 { self.compact_adds } else { 0.0 };
        self.shared + private + library + compacted
    }
}

impl SimulatedApp {
    /// The app of this seed.
    pub fn draw(seed: u64, world: World) -> Self {
        let mut rng = SeededRng::new(seed);
        let cluster = rng.uniform() < 0.6;
        let (space, indices) = space(cluster);
        let memory = MemoryParts::draw(&mut rng, cluster);
        let (p95, throughput) = costs(&space, &indices, &mut rng);
        let squared = space.bits() * space.bits();
        let mut pairs = |sd: f64| (0..squared).map(|_| sd * rng.normal()).collect::<Vec<f64>>();
        let pairs = [pairs(0.01), pairs(0.015), pairs(0.007)];
        let noise = [
            between(&mut rng, 0.005_f64.ln(), 0.03_f64.ln()).exp(),
            if world == World::Real { between(&mut rng, 0.05, 0.15) } else { 0.05 },
            between(&mut rng, 0.01, 0.04),
        ];
        let failing = [
            (Index::Compact as usize, 2),
            (Index::Allocator as usize, 2),
            (Index::Allocator as usize, 3),
            (Index::Compact as usize, 1),
        ];
        let chosen = failing[(rng.uniform() * failing.len() as f64) as usize];
        let fails = (rng.uniform() < 0.2).then_some(chosen);
        Self { world, space, indices, memory, p95, throughput, pairs, noise, fails }
    }

    fn level(&self, configuration: &Configuration, wanted: usize) -> usize {
        let factor = self.indices.iter().position(|&index| index == wanted);
        factor.map_or(0, |factor| usize::from(configuration.level(factor)))
    }

    /// What is true: logarithms of memory, p95 and the inverse of throughput as ratios to the default.
    pub fn truth(&self, configuration: &Configuration) -> [f64; 3] {
        // Ratios to the default, so its own are exactly 1.
        if self.world == World::Null || configuration.is_default() {
            return [0.0; 3];
        }
        let mut memory = self.memory.total(|index| self.level(configuration, index as usize)).ln();
        let default = self.memory.total(|_| 0).ln();
        memory -= default;
        let (mut p95, mut throughput) = (0.0, 0.0);
        let mask = self.space.mask(configuration);
        let on: Vec<usize> = (0..self.space.bits()).filter(|bit| mask >> bit & 1 == 1).collect();
        for (position, &bit) in on.iter().enumerate() {
            p95 += self.p95[bit];
            throughput += self.throughput[bit];
            for &other in &on[position + 1..] {
                let pair = bit * self.space.bits() + other;
                memory += self.pairs[0][pair];
                p95 += self.pairs[1][pair];
                throughput += self.pairs[2][pair];
            }
        }
        match self.world {
            // Just beyond the limit of +5 %: every "kept" is then a false claim.
            World::AtTheLimit => [memory, 1.0501_f64.ln(), 0.0],
            // Higher is worse for every limit of the search, so throughput changes its sign.
            World::Real | World::Null => [memory, p95, -throughput],
        }
    }

    /// Whether the server fails under a configuration.
    pub fn fails(&self, configuration: &Configuration) -> bool {
        self.world == World::Real
            && self.fails.is_some_and(|(factor, level)| {
                self.level(configuration, factor) == usize::from(level)
            })
    }

    /// The trials of one block; `None` where the server failed.
    pub fn block(
        &self,
        configurations: &[Configuration],
        rng: &mut SeededRng,
    ) -> Vec<Option<Vec<f64>>> {
        // A busy machine disturbs a whole block; latency and throughput more than memory.
        let shares = [0.4, 0.7, 0.7];
        let shared: Vec<f64> =
            self.noise.iter().zip(shares).map(|(sd, share)| share * sd * rng.normal()).collect();
        configurations
            .iter()
            .map(|configuration| {
                let truth = self.truth(configuration);
                let mut values: Vec<f64> = (0..3)
                    .map(|metric| {
                        truth[metric] + shared[metric] + self.noise[metric] * rng.normal()
                    })
                    .collect();
                // A neighbour's burst hits latency and throughput of the same trial.
                if rng.uniform() < 0.03 {
                    values[1] += between(rng, 0.2, 0.8);
                    values[2] += between(rng, 0.02, 0.1);
                }
                // One more growth of the heap, as real servers show in a few trials.
                if rng.uniform() < 0.02 {
                    values[0] += between(rng, 0.03, 0.10);
                }
                (!self.fails(configuration)).then_some(values)
            })
            .collect()
    }
}

/// The configurations of a cluster or of one process, and the index of each factor in [`FACTORS`].
fn space(cluster: bool) -> (Space, Vec<usize>) {
    let only_cluster = [Index::PrepareFork as usize, Index::Workers as usize];
    let indices: Vec<usize> =
        (0..FACTORS.len()).filter(|index| cluster || !only_cluster.contains(index)).collect();
    let factors = indices.iter().map(|&index| {
        let (name, levels) = FACTORS[index];
        // The last level of YJIT acts after a fork.
        let levels = if !cluster && index == Index::Yjit as usize { &levels[..2] } else { levels };
        Factor { name: name.into(), levels: levels.iter().map(|&level| level.into()).collect() }
    });
    let at = |wanted: Index| indices.iter().position(|&index| index == wanted as usize);
    let conditions = [
        (Index::Arenas, None, Index::Allocator, vec![0]),
        (Index::Thresholds, None, Index::Allocator, vec![0]),
        (Index::Conf, None, Index::Allocator, vec![1]),
        // A full preparation compacts.
        (Index::Compact, Some(1), Index::PrepareFork, vec![0, 1]),
    ];
    let conditions = conditions.into_iter().filter_map(|(factor, level, on, among)| {
        Some(Condition { factor: at(factor)?, level, on: at(on)?, among })
    });
    let built = Space::new(factors.collect(), conditions.collect());
    (built.unwrap_or_else(|error| unreachable!("the factors are constant: {error}")), indices)
}

/// What each level costs: logarithm of the p95 and of the throughput, by bit.
fn costs(space: &Space, indices: &[usize], rng: &mut SeededRng) -> (Vec<f64>, Vec<f64>) {
    let (mut p95, mut throughput) = (vec![0.0; space.bits()], vec![0.0; space.bits()]);
    let mut previous = 0.0;
    for bit in 0..space.bits() {
        let (factor, level) = space.level_of(bit);
        previous = p95_of(indices[factor], level, previous, rng);
        p95[bit] = previous;
        throughput[bit] = -0.5 * previous + normal(rng, 0.0, 0.005);
        if indices[factor] == Index::Workers as usize {
            throughput[bit] += match level {
                1 => -between(rng, 0.0, 0.08),
                2 => -between(rng, 0.0, 0.2),
                _ => between(rng, -0.03, 0.05),
            };
        }
    }
    (p95, throughput)
}

/// The logarithm of the p95 of a level; `previous` is that of the level before it.
fn p95_of(factor: usize, level: u8, previous: f64, rng: &mut SeededRng) -> f64 {
    let (signed, mean, sd) = match (FACTORS[factor].0, level) {
        ("allocator", 3) => (true, -0.01, 0.03),
        ("allocator", _) => (true, -0.02, 0.03),
        ("arena_max", 1) => (true, 0.005, 0.01),
        ("arena_max", 2) => (true, 0.02, 0.025),
        ("arena_max", _) => (false, 0.05, 0.05),
        ("malloc.thresholds" | "malloc_conf", 1) => (false, 0.01, 0.015),
        ("malloc_conf", _) => (false, 0.015, 0.02),
        ("trim", 1) => (false, 0.01, 0.015),
        ("trim", _) => (false, 0.005, 0.01),
        ("compact", 1) => (true, 0.0, 0.01),
        ("compact", _) => (false, 0.06, 0.05),
        ("prepare_fork", 2) => (true, previous, 0.02),
        ("prepare_fork" | "gc_pacing", _) => (true, -0.03, 0.03),
        ("gc.growth_factor", _) => (false, 0.03, 0.03),
        ("gc.oldobject_limit_factor", _) => (false, 0.05, 0.04),
        ("puma", 1) => (false, 0.04, 0.04),
        ("puma", 2) => (false, 0.12, 0.08),
        ("puma", _) => (true, -0.02, 0.04),
        ("yjit", 2) => (true, previous + 0.01, 0.02),
        _ => (true, -0.10, 0.05),
    };
    let drawn = normal(rng, mean, sd);
    if signed { drawn } else { drawn.abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_configurations_of_the_catalogue() {
        assert_eq!(space(true).0.all().unwrap().len(), 29_952);
        assert!(space(false).0.all().unwrap().len() < 3_000);
    }

    #[test]
    fn the_default_is_the_default_and_the_worlds_are_what_they_say() {
        for seed in 0..20 {
            for world in [World::Real, World::Null, World::AtTheLimit] {
                let app = SimulatedApp::draw(seed, world);
                let default = app.space.default_configuration();
                assert_eq!(app.truth(&default), [0.0; 3]);
                let other = app.space.random(&mut SeededRng::new(seed));
                let truth = app.truth(&other);
                match world {
                    World::Null => assert_eq!(truth, [0.0; 3]),
                    World::AtTheLimit => assert!(truth[1] > 1.05_f64.ln() && truth[1] < 0.0489),
                    World::Real => assert!(truth[0].abs() < 1.5, "{truth:?}"),
                }
            }
        }
    }
}
