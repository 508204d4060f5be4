//! A runner that starts no server: figures are drawn from a seeded distribution.
//!
//! It tests order, resuming, stopping and wording through the real binary (hidden `--fake`).

use crate::config::MeasureSpec;
use crate::run::trial::{TrialError, TrialPhase, TrialPlan, TrialProgress, TrialRunner};
use crate::run::{Interrupt, machine_facts};
use carat_model::{
    Bytes, ClassAmount, MachineFacts, Moment, Outcome, Sample, Trial, TrialCensus, metric,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Memory of one variant's simulated server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FakeVariant {
    /// Mean of every memory metric, in bytes.
    pub mean: f64,
    /// Standard deviation between trials, in bytes.
    pub sd: f64,
    /// Share of trials that crash.
    pub crashes: f64,
    /// Mean of the p95 latency, in seconds.
    pub p95: f64,
    /// Standard deviation of its logarithm between trials.
    pub p95_sd: f64,
}

impl FakeVariant {
    /// Parses `MEAN:SD` or `MEAN:SD:CRASHES`, such as `71.16e6:291e3`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(':').map(str::parse).collect();
        match numbers.unwrap_or_default().as_slice() {
            [mean, sd] => Ok(Self::constant_p95(*mean, *sd, 0.0)),
            [mean, sd, crashes] => Ok(Self::constant_p95(*mean, *sd, *crashes)),
            _ => Err(format!(
                "`{text}` is not MEAN:SD or MEAN:SD:CRASHES in bytes, such as 71.16e6:291e3"
            )),
        }
    }

    fn constant_p95(mean: f64, sd: f64, crashes: f64) -> Self {
        Self { mean, sd, crashes, p95: 0.010, p95_sd: 0.0 }
    }
}

/// Draws figures instead of measuring them.
#[derive(Debug)]
pub struct FakeRunner {
    variants: Vec<FakeVariant>,
    seed: u64,
    pace: Duration,
    measure: MeasureSpec,
    interrupt: Interrupt,
    machine: MachineFacts,
}

impl FakeRunner {
    /// One entry per variant. The figures depend only on seed, block and variant. Every trial takes `pace`.
    pub fn new(
        variants: Vec<FakeVariant>,
        seed: u64,
        pace: Duration,
        measure: MeasureSpec,
        interrupt: Interrupt,
    ) -> Self {
        Self { variants, seed, pace, measure, interrupt, machine: machine_facts(Path::new("/")) }
    }
}

impl TrialRunner for FakeRunner {
    fn run(
        &mut self,
        plan: &TrialPlan,
        report: &mut dyn FnMut(TrialProgress),
    ) -> Result<Trial, TrialError> {
        let variant = self.variants[plan.variant.min(self.variants.len() - 1)];
        let mut random = ChaCha12Rng::seed_from_u64(self.seed);
        // A stream for each trial, so that its figures do not depend on which others ran.
        random.set_stream(u64::from(plan.block) * 1000 + plan.variant as u64);
        let bytes = variant.mean + variant.sd * normal(&mut random);
        let crashed = random.random::<f64>() < variant.crashes;
        let p95 = variant.p95 * (variant.p95_sd * normal(&mut random)).exp();
        let memory = Some(Bytes(bytes as u64));
        report(TrialProgress { phase: TrialPhase::Load, done: Some(0.5), memory });
        sleep(self.pace);
        if self.interrupt.requested() {
            return Err(TrialError::Interrupted);
        }
        let samples = samples(&self.measure, bytes);
        let metrics = if crashed { BTreeMap::new() } else { metrics(&self.measure, bytes, p95) };
        let machine = self.machine.clone();
        let seconds = self.pace.as_secs_f64();
        Ok(Trial { machine, samples, metrics, seconds, ..trial(plan, crashed) })
    }
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut ChaCha12Rng) -> f64 {
    // Zero is excluded, because its logarithm is infinite.
    let (a, b): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A sample of every moment; memory grows during the load and falls afterwards.
fn samples(measure: &MeasureSpec, bytes: f64) -> Vec<Sample> {
    let listed = &measure.at_requests;
    let steps = listed.len() as f64 + 1.0;
    let loaded = listed.iter().zip(1_u32..).map(|(&requests, step)| {
        let share = f64::from(step) / steps;
        let sample =
            sample((share * 400.0) as u64, Moment::Requests(requests), bytes * (0.5 + 0.5 * share));
        Sample { answered: Some(requests), ..sample }
    });
    let idle = measure
        .idle
        .map(|idle| sample(500 + idle.0.as_millis() as u64, Moment::Idle, bytes * AFTER_IDLE));
    [sample(0, Moment::Ready, bytes * 0.5), sample(1, Moment::Start, bytes * 0.5)]
        .into_iter()
        .chain(loaded)
        .chain([Sample { census: census(measure, bytes), ..sample(500, Moment::End, bytes) }])
        .chain(idle)
        .collect()
}

/// Objects of a fake server: a tenth of its memory is strings, and the rest of its objects are always the same.
fn census(measure: &MeasureSpec, bytes: f64) -> Option<Box<TrialCensus>> {
    let classes = [("String", (bytes / 1000.0) as u64), ("Object", 500)];
    let classes = classes.map(|(name, objects)| {
        let (slot_bytes, malloc_bytes) = (objects * 40, Some(objects * 60));
        (name.to_owned(), ClassAmount { objects, slot_bytes, malloc_bytes })
    });
    measure.census.then(|| Box::new(TrialCensus::new(1, classes.into())))
}

fn sample(at_ms: u64, moment: Moment, bytes: f64) -> Sample {
    let memory = Some(Bytes(bytes as u64));
    Sample {
        at_ms,
        moment: Some(moment),
        processes: 1,
        rss: memory,
        pss: memory,
        ..Sample::default()
    }
}

/// Memory of a fake server after its idle time, as a share of its memory after the load.
const AFTER_IDLE: f64 = 0.8;

fn metrics(measure: &MeasureSpec, bytes: f64, p95: f64) -> BTreeMap<String, f64> {
    let of_server = [&metric::MEMORY_RSS_FINAL, &metric::MEMORY_PSS_FINAL];
    let of_any = [&metric::MEMORY_PSS_LATE, &metric::MEMORY_PROCESS_PEAK];
    let memory = of_server.iter().chain(&of_any);
    let mut metrics: BTreeMap<String, f64> =
        memory.map(|metric| (metric.id.to_owned(), bytes)).collect();
    if measure.idle.is_some() {
        for metric in [&metric::MEMORY_RSS_IDLE, &metric::MEMORY_PSS_IDLE] {
            metrics.insert(metric.id.to_owned(), bytes * AFTER_IDLE);
        }
    }
    metrics.insert(metric::LATENCY_P95.id.to_owned(), p95);
    metrics
}

/// A trial without figures.
fn trial(plan: &TrialPlan, crashed: bool) -> Trial {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Trial {
        id: plan.id.clone(),
        position: plan.position,
        outcome: if crashed { Outcome::Crashed } else { Outcome::Ok },
        detail: crashed.then(|| "the fake server crashed".to_owned()),
        started_ms: now.as_millis() as u64,
        load_window_ms: Some((1, 400)),
        ..Trial::bare(plan.block, &plan.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Span;

    fn plan(block: u32, variant: usize) -> TrialPlan {
        TrialPlan { id: "x".into(), block, position: 0, variant, name: "v".into(), objects: 0 }
    }

    fn measure() -> MeasureSpec {
        MeasureSpec {
            primary: &metric::MEMORY_RSS_FINAL,
            guards: BTreeMap::new(),
            sample_every: Span::millis(500),
            settle: Span::millis(500),
            at_requests: vec![50, 500],
            idle: Some(Span::seconds(15)),
            census: true,
        }
    }

    #[test]
    fn a_fake_trial_has_every_moment_in_order() {
        let samples = samples(&measure(), 9e7);
        let moments: Vec<Moment> = samples.iter().filter_map(|sample| sample.moment).collect();
        assert_eq!(moments.len(), 6);
        let census = samples[4].census.as_ref().unwrap();
        assert_eq!(census.amount("String").map(|strings| strings.objects), Some(90_000));
        assert!(moments.is_sorted() && samples.is_sorted_by(|one, two| one.at_ms < two.at_ms));
    }

    #[test]
    fn figures_depend_only_on_seed_block_and_variant() {
        let variants = vec![FakeVariant::parse("100:5").unwrap(); 2];
        let mut runner =
            FakeRunner::new(variants, 7, Duration::ZERO, measure(), Interrupt::default());
        let memory = [(1, 0), (1, 1), (2, 0), (1, 0)].map(|(block, variant)| {
            runner.run(&plan(block, variant), &mut |_| ()).unwrap().metrics["memory.rss.final"]
        });
        assert_ne!(memory[0], memory[1]);
        assert_ne!(memory[0], memory[2]);
        assert_eq!(memory[0], memory[3]);
    }

    #[test]
    fn a_fake_variant_is_parsed_from_two_or_three_numbers() {
        let fake = FakeVariant::parse("71.16e6:291e3").unwrap();
        assert_eq!((fake.mean, fake.sd, fake.crashes), (71.16e6, 291e3, 0.0));
        assert!((FakeVariant::parse("1:2:0.5").unwrap().crashes - 0.5).abs() < 1e-12);
        assert!(FakeVariant::parse("1").is_err() && FakeVariant::parse("a:b").is_err());
    }
}
