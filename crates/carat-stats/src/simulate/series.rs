//! Simulated long runs of a process of about 70 MB, for the classification of growth.

use crate::simulate::SeededRng;

/// Samples of a run.
const SAMPLES: usize = 512;
/// The kernel counts memory in pages.
const PAGE: f64 = 4096.0;

/// The true course of memory beside noise and the growth at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoakShape {
    /// Constant.
    Flat,
    /// One step of 3 MB somewhere.
    Step,
    /// 400 kB for every e-fold of requests.
    Logarithm,
    /// 2 MB for every e-fold of requests.
    SteepLogarithm,
    /// 10 kB times the square root of the requests; it never stops.
    Root,
    /// 10 MB that saturate within 50,000 requests.
    Saturating,
    /// A sawtooth of 3 MB and about 6,000 requests.
    Sawtooth,
    /// Garbage that only a full collection frees: 20 bytes per request until one after about 70,000 requests. Malloc
    /// keeps the freed memory, so the process grows only while there is more garbage than ever before. The figures,
    /// and the short growth at boot, are those of a Rails app with one route.
    Garbage,
}

/// Bytes of garbage per request.
const GARBAGE: f64 = 20.0;
/// Requests from one full collection to the next, and the standard deviation of their logarithm.
const COLLECTED_AFTER: (f64, f64) = (70e3, 0.15);

/// A run to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Soak {
    /// The course of memory beside the leak.
    pub shape: SoakShape,
    /// Bytes leaked per request.
    pub leak: f64,
    /// Bytes by which a leak grows at once.
    pub slab: f64,
    /// Requests of the run.
    pub requests: f64,
    /// Standard deviation of the allocator's noise in bytes; its correlation length is 1,500 requests.
    pub noise: f64,
}

impl SoakShape {
    /// Label for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Step => "one 3 MB step",
            Self::Logarithm => "log, 400 kB·ln",
            Self::SteepLogarithm => "log, 2 MB·ln",
            Self::Root => "√x, 10 kB·√x",
            Self::Saturating => "saturating 10 MB",
            Self::Sawtooth => "sawtooth 3 MB",
            Self::Garbage => "garbage, 20 B until a full collection",
        }
    }
}

impl Soak {
    /// A run with typical noise: 150 kB, and permanent jumps of about 1 byte per request.
    pub fn new(shape: SoakShape, leak: f64, requests: f64) -> Self {
        Self { shape, leak, slab: PAGE, requests, noise: 150e3 }
    }

    /// One run: requests served so far and bytes at that moment.
    pub fn run(&self, rng: &mut SeededRng) -> Vec<(f64, f64)> {
        let apart = self.requests / SAMPLES as f64;
        // Neither in the warm-up nor at the very end, where no test could see a level after it.
        let step_at = self.requests * (0.2 + 0.7 * rng.uniform());
        // A leak fills slabs; where the first one ends must not be the same in every run.
        let offset = rng.uniform() * self.slab;
        // Samples of a longer run are further apart, so their noise correlates less.
        let correlation = (-apart / 1500.0).exp();
        let mut noise = self.noise * rng.normal();
        let (mut creep, mut saw) = (0.0, rng.uniform());
        let mut garbage = Garbage::default();
        let saw_length = 6000.0 * (0.15 * rng.normal()).exp();
        (1..=SAMPLES)
            .map(|i| {
                let x = apart * i as f64;
                creep += jumps(apart, rng);
                saw += apart / saw_length + 0.03 * (apart / 1000.0).sqrt() * rng.normal();
                noise = correlation * noise
                    + self.noise * (1.0 - correlation * correlation).sqrt() * rng.normal();
                let shape = match self.shape {
                    SoakShape::Sawtooth => 3e6 * saw.rem_euclid(1.0),
                    SoakShape::Step if x >= step_at => 3e6,
                    SoakShape::Garbage => garbage.peak_at(x, rng),
                    shape => shape.at(x),
                };
                let leaked = ((self.leak * x + offset) / self.slab).floor() * self.slab;
                (
                    x,
                    ((self.shape.boot_at(x) + shape + leaked + creep + noise) / PAGE).round()
                        * PAGE,
                )
            })
            .collect()
    }
}

impl SoakShape {
    /// Memory at boot and its first growth, in bytes.
    fn boot_at(self, x: f64) -> f64 {
        let (level, growth, length) = match self {
            Self::Garbage => (59e6, 2e6, 500.0),
            _ => (66e6, 6e6, 5000.0),
        };
        level + growth * (1.0 - (-x / length).exp())
    }

    /// The smooth shapes in bytes after `x` requests.
    fn at(self, x: f64) -> f64 {
        match self {
            Self::Logarithm => 400e3 * (x / 2000.0).ln_1p(),
            Self::SteepLogarithm => 2e6 * (x / 2000.0).ln_1p(),
            Self::Root => 10e3 * x.sqrt(),
            Self::Saturating => 10e6 * (1.0 - (-x / 50e3).exp()),
            Self::Flat | Self::Step | Self::Sawtooth | Self::Garbage => 0.0,
        }
    }
}

/// The garbage of a run.
#[derive(Debug, Default)]
struct Garbage {
    /// Requests before the latest full collection, and before the next.
    since: f64,
    until: f64,
    peak: f64,
}

impl Garbage {
    /// The most bytes of garbage so far, after `x` requests.
    fn peak_at(&mut self, x: f64, rng: &mut SeededRng) -> f64 {
        // Malloc keeps what a collection frees: only a new maximum makes the process larger.
        while self.until <= x {
            self.peak = self.peak.max(GARBAGE * (self.until - self.since));
            self.since = self.until;
            self.until += COLLECTED_AFTER.0 * (COLLECTED_AFTER.1 * rng.normal()).exp();
        }
        self.peak = self.peak.max(GARBAGE * (x - self.since));
        self.peak
    }
}

/// Permanent jumps within `requests`: one in 100,000 requests, 100 kB on average.
fn jumps(requests: f64, rng: &mut SeededRng) -> f64 {
    let (mut sum, mut place) = (0.0, rng.exponential(100e3));
    while place < requests {
        sum += rng.exponential(100e3);
        place += rng.exponential(100e3);
    }
    sum
}
