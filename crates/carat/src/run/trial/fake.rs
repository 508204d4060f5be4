//! A runner that starts no server: figures are drawn from a seeded distribution.
//!
//! It tests order, resuming, stopping and wording through the real binary (hidden `--fake`).

use crate::core::{Bytes, MachineFacts, Outcome, Sample, Trial, metric};
use crate::run::trial::{TrialError, TrialPhase, TrialPlan, TrialProgress, TrialRunner};
use crate::run::{Interrupt, machine_facts};
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
}

impl FakeVariant {
    /// Parses `MEAN:SD` or `MEAN:SD:CRASHES`, such as `71.16e6:291e3`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(':').map(str::parse).collect();
        match numbers.unwrap_or_default().as_slice() {
            [mean, sd] => Ok(Self { mean: *mean, sd: *sd, crashes: 0.0 }),
            [mean, sd, crashes] => Ok(Self { mean: *mean, sd: *sd, crashes: *crashes }),
            _ => Err(format!(
                "`{text}` is not MEAN:SD or MEAN:SD:CRASHES in bytes, such as 71.16e6:291e3"
            )),
        }
    }
}

/// Draws figures instead of measuring them.
#[derive(Debug)]
pub struct FakeRunner {
    variants: Vec<FakeVariant>,
    seed: u64,
    pace: Duration,
    interrupt: Interrupt,
    machine: MachineFacts,
}

impl FakeRunner {
    /// One entry per variant. The figures depend only on seed, block and variant. Every trial takes `pace`.
    pub fn new(
        variants: Vec<FakeVariant>,
        seed: u64,
        pace: Duration,
        interrupt: Interrupt,
    ) -> Self {
        Self { variants, seed, pace, interrupt, machine: machine_facts(Path::new("/")) }
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
        random.set_stream(u64::from(plan.block) * 1000 + plan.variant as u64);
        let bytes = variant.mean + variant.sd * normal(&mut random);
        let crashed = random.random::<f64>() < variant.crashes;
        let memory = Some(Bytes(bytes as u64));
        report(TrialProgress { phase: TrialPhase::Load, done: Some(0.5), memory });
        sleep(self.pace);
        if self.interrupt.requested() {
            return Err(TrialError::Interrupted);
        }
        Ok(Trial {
            machine: self.machine.clone(),
            seconds: self.pace.as_secs_f64(),
            ..trial(plan, bytes, crashed)
        })
    }
}

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut ChaCha12Rng) -> f64 {
    let (a, b): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn trial(plan: &TrialPlan, bytes: f64, crashed: bool) -> Trial {
    let memory = [&metric::MEMORY_RSS_FINAL, &metric::MEMORY_PSS_FINAL, &metric::MEMORY_PSS_LATE];
    let mut metrics: BTreeMap<String, f64> =
        memory.iter().map(|metric| (metric.id.to_owned(), bytes)).collect();
    metrics.insert(metric::LATENCY_P95.id.to_owned(), 0.010);
    let pss = Some(Bytes(bytes as u64));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Trial {
        id: plan.id.clone(),
        block: plan.block,
        position: plan.position,
        variant: plan.name.clone(),
        outcome: if crashed { Outcome::Crashed } else { Outcome::Ok },
        detail: crashed.then(|| "the fake server crashed".to_owned()),
        started_ms: now.as_millis() as u64,
        seconds: 0.0,
        machine: MachineFacts::new(),
        metrics: if crashed { BTreeMap::new() } else { metrics },
        samples: [0, 500]
            .map(|at_ms| Sample { at_ms, processes: 1, rss: pss, pss, ..Sample::default() })
            .to_vec(),
        load_window_ms: Some((0, 500)),
        load: None,
        notes: Vec::new(),
        log_tail: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(block: u32, variant: usize) -> TrialPlan {
        TrialPlan { id: "x".into(), block, position: 0, variant, name: "v".into() }
    }

    #[test]
    fn figures_depend_only_on_seed_block_and_variant() {
        let variants = vec![FakeVariant { mean: 100.0, sd: 5.0, crashes: 0.0 }; 2];
        let mut runner = FakeRunner::new(variants, 7, Duration::ZERO, Interrupt::default());
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
