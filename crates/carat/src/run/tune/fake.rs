//! A simulated server with planted effects, to test a whole search without starting one (hidden `--fake`).

use crate::config::{BlockSpec, TunedVariant};
use crate::run::trial::FakeVariant;

/// Memory of the default, in bytes, its standard deviation as a fraction, and its p95 in seconds.
const MEMORY: f64 = 100e6;
const MEMORY_SD: f64 = 0.01;
const P95: f64 = 0.010;

/// What one setting or variable does.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeEffect {
    /// Name and value, such as `trim=idle`; `*` is every configuration, the default included.
    level: String,
    /// Change of the memory, as a fraction.
    memory: f64,
    /// Change of the p95, as a fraction.
    p95: f64,
    /// Share of trials that crash.
    crashes: f64,
}

impl FakeEffect {
    /// Parses `NAME=VALUE:MEMORY[:P95[:CRASHES]]`, such as `trim=idle:-0.1:0.02`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let level = parts.next().unwrap_or_default().to_owned();
        let numbers: Result<Vec<f64>, _> = parts.map(str::parse).collect();
        let (memory, p95, crashes) = match numbers.as_deref() {
            Ok([memory]) => (*memory, 0.0, 0.0),
            Ok([memory, p95]) => (*memory, *p95, 0.0),
            Ok([memory, p95, crashes]) => (*memory, *p95, *crashes),
            _ => return Err(format!("`{text}` is not NAME=VALUE:MEMORY[:P95[:CRASHES]]")),
        };
        Ok(Self { level, memory, p95, crashes })
    }

    fn is_in(&self, variant: &TunedVariant) -> bool {
        let mut pairs = variant.settings.iter().chain(&variant.env);
        self.level == "*" || pairs.any(|(name, value)| self.level == format!("{name}={value}"))
    }
}

/// A simulated server.
#[derive(Debug, Clone)]
pub struct FakeApp {
    /// What its settings do; effects multiply.
    pub effects: Vec<FakeEffect>,
    /// Standard deviation of the p95 between trials, as a fraction.
    pub p95_sd: f64,
}

impl FakeApp {
    /// The simulated servers of a block.
    pub fn variants(&self, block: &BlockSpec) -> Vec<FakeVariant> {
        block.variants.iter().map(|variant| self.variant(variant)).collect()
    }

    fn variant(&self, variant: &TunedVariant) -> FakeVariant {
        let mut fake = FakeVariant {
            mean: MEMORY,
            sd: MEMORY * MEMORY_SD,
            crashes: 0.0,
            p95: P95,
            p95_sd: self.p95_sd,
        };
        for effect in self.effects.iter().filter(|effect| effect.is_in(variant)) {
            fake.mean *= 1.0 + effect.memory;
            fake.p95 *= 1.0 + effect.p95;
            fake.crashes = fake.crashes.max(effect.crashes);
        }
        fake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effects_of_all_settings_and_variables_of_a_variant_multiply() {
        let effects = ["*:0", "trim=idle:-0.1:0.02", "A=1:-0.2", "B=1:0:0:1"];
        let effects = effects.map(|text| FakeEffect::parse(text).unwrap()).to_vec();
        let app = FakeApp { effects, p95_sd: 0.03 };
        let both = TunedVariant {
            name: "x".into(),
            settings: [("trim".to_owned(), "idle".to_owned())].into(),
            env: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "0".to_owned())].into(),
        };
        let fake = app.variant(&both);
        assert!((fake.mean - 72e6).abs() < 1.0 && (fake.p95 - 0.0102).abs() < 1e-9);
        assert_eq!((fake.crashes, fake.p95_sd), (0.0, 0.03));
        let crashing = TunedVariant { env: [("B".to_owned(), "1".to_owned())].into(), ..both };
        assert!(app.variant(&crashing).crashes > 0.5);
        assert!(FakeEffect::parse("trim=idle").is_err() && FakeEffect::parse("a:b").is_err());
    }
}
