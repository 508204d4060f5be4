//! How often PSS may be read.

use std::time::Duration;

/// Limits sampling to a share of one core, by measuring its cost.
///
/// Reading `smaps_rollup` takes about 10 ms per GB, and every `mmap` and `munmap` of the observed process waits as long.
/// So a pass over the tree is allowed once the share has paid for the cost of the last pass, and after a rest of twenty
/// times its duration.
#[derive(Debug, Clone)]
pub struct SamplingBudget {
    share: f64,
    earned_s: f64,
    status_s: f64,
    updated: Duration,
    expected_s: Option<f64>,
    quiet_until: Duration,
}

/// How long the tree is left alone after a pass, as a multiple of the pass.
const REST: u32 = 20;
/// The part of the share that finding the tree and reading `status` may use.
const STATUS_SHARE: f64 = 0.5;
/// Unused time pays for at most this many passes.
const SAVED_PASSES: f64 = 2.0;

impl SamplingBudget {
    /// At most `share` of one core, as a fraction.
    pub fn new(share: f64) -> Self {
        Self {
            share,
            earned_s: 0.0,
            status_s: 0.0,
            updated: Duration::ZERO,
            expected_s: None,
            quiet_until: Duration::ZERO,
        }
    }

    /// Whether a pass over the tree is allowed at this time. The first pass always is.
    pub fn allows(&mut self, at: Duration) -> bool {
        // A time before the last one earns nothing, and no time earns twice.
        let passed = at.saturating_sub(self.updated);
        self.updated = self.updated.max(at);
        let earned = passed.as_secs_f64() * self.share;
        // With thousands of processes, finding the tree alone would use up the share, and there would never be a pass. So
        // it is charged at most half of the share.
        self.earned_s += earned - self.status_s.min(earned * STATUS_SHARE);
        self.status_s = 0.0;
        // A share of zero allows no pass at all, not even the first one.
        let Some(expected) = self.expected_s else { return self.share > 0.0 };
        // Or a long quiet time would pay for many passes in a row.
        self.earned_s = self.earned_s.min(expected * SAVED_PASSES);
        self.earned_s >= expected && at >= self.quiet_until
    }

    /// Charges finding the tree and reading `status`.
    pub fn charge(&mut self, cpu: Duration) {
        self.status_s += cpu.as_secs_f64();
    }

    /// Charges a pass over the tree that started at `at`, took `wall` and used `cpu`.
    pub fn charge_pass(&mut self, at: Duration, wall: Duration, cpu: Duration) {
        // May go below zero: a pass that cost more than expected delays the next one.
        self.earned_s -= cpu.as_secs_f64();
        // What the next will cost is guessed from the last alone, because the tree may have grown.
        self.expected_s = Some(cpu.as_secs_f64());
        // `at` is the start of the pass, so its own duration is added to the rest.
        self.quiet_until = at + wall * (REST + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Processor time and number of passes in `seconds` of attempts every 100 ms, if a pass costs `pass`.
    fn spent(share: f64, pass: Duration, seconds: u32) -> (Duration, u32) {
        let mut budget = SamplingBudget::new(share);
        let (mut cpu, mut passes) = (Duration::ZERO, 0);
        for tick in 0..seconds * 10 {
            let at = MS * 100 * tick;
            if budget.allows(at) {
                budget.charge_pass(at, pass, pass);
                cpu += pass;
                passes += 1;
            }
        }
        (cpu, passes)
    }

    #[test]
    fn the_share_is_kept_whatever_a_pass_costs() {
        for pass in [MS / 10, MS, MS * 9, MS * 40, MS * 300] {
            let (cpu, passes) = spent(0.005, pass, 600);
            let allowed = Duration::from_secs(600).mul_f64(0.005) + pass;
            assert!(cpu <= allowed, "{pass:?}: {cpu:?} of {allowed:?}");
            let affordable = allowed.as_secs_f64() / pass.as_secs_f64();
            let least = affordable.min(6000.0) * 0.4;
            assert!(f64::from(passes) >= least, "{pass:?}: only {passes} passes in ten minutes");
        }
    }

    #[test]
    fn a_large_share_still_leaves_the_tree_alone_between_passes() {
        let (_, passes) = spent(1.0, MS * 100, 60);
        assert!(passes <= 60_000 / (100 * 21) + 1, "{passes}");
    }

    #[test]
    fn the_cost_of_status_slows_the_passes_down_and_never_stops_them() {
        let mut budget = SamplingBudget::new(0.005);
        let mut passes = 0;
        for second in 0..600 {
            let at = Duration::from_secs(second);
            budget.charge(MS * 50);
            if budget.allows(at) {
                budget.charge_pass(at, MS * 5, MS * 5);
                passes += 1;
            }
        }
        assert!((250..=305).contains(&passes), "{passes} passes of 5 ms in 600 s at 0.5 %");
    }

    #[test]
    fn without_a_share_there_is_no_pass() {
        assert_eq!(spent(0.0, MS, 60).1, 0);
    }
}
