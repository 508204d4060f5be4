//! Builds results with realistic figures from a seed, for the tests of the report.

use carat_analysis::growth::of_variants;
use carat_analysis::{Question, curves, least_distances, moments};
use carat_model::ledger::{LedgerPart, PartKind};
use carat_model::load::{RouteReport, StepReport, Times};
use carat_model::{
    BlockForecast, Bytes, Conclusion, ControlComparison, Estimate, ExperimentInfo, Ledger,
    LoadReport, Moment, Outcome, PartAtWork, Results, Role, Sample, Trial, Variant, Verdict,
};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// The effect of a variant: its memory and latency relative to the baseline.
pub(crate) struct Effect {
    pub(crate) name: &'static str,
    pub(crate) memory: f64,
    pub(crate) latency: f64,
}

/// The results to build.
pub(crate) struct Recipe {
    pub(crate) effects: Vec<Effect>,
    pub(crate) blocks: u32,
    pub(crate) base_bytes: f64,
    pub(crate) noise: f64,
    pub(crate) samples: usize,
    pub(crate) responses: u32,
    pub(crate) processes: u32,
    pub(crate) steps: u32,
    /// Whether the experiment asks for moments after 300 and 1,000 requests and when idle.
    pub(crate) moments: bool,
    /// Whether the last sample has a ledger in which free memory of malloc makes the differences.
    pub(crate) ledgers: bool,
    /// Whether the load is a scenario of two steps.
    pub(crate) scenario: bool,
    pub(crate) name: &'static str,
    pub(crate) primary: &'static str,
    pub(crate) seed: u64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            effects: vec![
                Effect { name: "default", memory: 1.0, latency: 1.0 },
                Effect { name: "compact", memory: 0.992, latency: 1.0 },
            ],
            blocks: 24,
            base_bytes: 71.16e6,
            noise: 0.004,
            samples: 90,
            responses: 1500,
            processes: 1,
            steps: 0,
            moments: false,
            ledgers: false,
            scenario: false,
            name: "compaction",
            primary: "memory.rss.final",
            seed: 4711,
        }
    }
}

impl Recipe {
    /// An experiment with malloc arenas: several variants with clear savings, one of them at a cost.
    pub(crate) fn arenas() -> Self {
        Self {
            effects: vec![
                Effect { name: "default", memory: 1.0, latency: 1.0 },
                Effect { name: "arena_max = 2", memory: 0.79, latency: 1.004 },
                Effect { name: "jemalloc", memory: 0.66, latency: 0.97 },
                Effect { name: "trim at full GC", memory: 0.86, latency: 1.11 },
            ],
            blocks: 12,
            base_bytes: 498e6,
            noise: 0.03,
            primary: "memory.pss.final",
            name: "arenas",
            moments: true,
            ledgers: true,
            scenario: true,
            ..Self::default()
        }
    }

    /// A Puma cluster with Action Cable: several processes, connections in steps.
    pub(crate) fn cable() -> Self {
        Self { processes: 5, steps: 10, scenario: false, name: "cable", ..Self::arenas() }
    }

    pub(crate) fn build(&self) -> Results {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut trials = Vec::new();
        for block in 0..=self.blocks {
            let drift = 1.0 + self.noise * normal(&mut rng);
            for (position, effect) in self.effects.iter().enumerate() {
                trials.push(self.trial(&mut rng, effect, (block, position as u32, drift)));
            }
        }
        let info = ExperimentInfo {
            name: self.name.into(),
            about: Some(
                "How much memory do fewer malloc arenas save, and what do they cost?".into(),
            ),
            plan_hash: "9f2c4e5ab1d07733c1f0a2b48d6e99a1f6b4b2c0d7e8f90112233445566778899".into(),
            plan_text: "name = \"arenas\"\n\n[server]\ncommand = [\"puma\", \"-C\", \"puma.rb\"]\n"
                .into(),
            seed: self.seed,
            max_blocks: 60,
            variants: self.effects.iter().map(|e| variant(e.name)).collect(),
            primary: self.primary.into(),
            margin: 0.0025,
            guards: BTreeMap::from([("latency.p95".into(), 0.05)]),
            fleet: None,
        };
        let mut results = Results::unconcluded(info, trials);
        conclude(&mut results);
        results
    }

    fn trial(&self, rng: &mut ChaCha8Rng, effect: &Effect, at: (u32, u32, f64)) -> Trial {
        let (block, position, drift) = at;
        let last = self.base_bytes * effect.memory * drift * (1.0 + self.noise * normal(rng) / 2.0);
        let scale = 3200.0 * effect.latency * (1.0 + 0.01 * normal(rng));
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("3 digits");
        for _ in 0..self.responses {
            let micros = scale * (0.35 * normal(rng)).exp()
                + if rng.random::<f64>() < 0.01 { 9000.0 } else { 0.0 };
            histogram.record(micros.max(1.0) as u64).expect("it resizes");
        }
        let mut packed = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut packed).expect("a vector takes all");
        let seconds = |q: f64| histogram.value_at_quantile(q) as f64 / 1e6;
        let mut metrics = BTreeMap::from([
            (self.primary.to_owned(), last.round()),
            ("memory.pss.peak".into(), (last * 1.03).round()),
            ("memory.pss.ready".into(), (self.base_bytes * 0.6 * drift).round()),
            ("latency.p50".into(), seconds(0.5)),
            ("latency.p95".into(), seconds(0.95)),
            ("latency.p99".into(), seconds(0.99)),
            ("throughput".into(), 812.0 / effect.latency * (1.0 + 0.01 * normal(rng))),
            ("boot.time".into(), 1.9 + 0.05 * normal(rng)),
            ("gc.count".into(), (42.0 + 3.0 * normal(rng)).round()),
        ]);
        if self.processes > 1 {
            metrics.insert("memory.pss.over_least".into(), last / (self.base_bytes * drift * 0.5));
        }
        Trial {
            id: format!("{:016x}{block:08x}{position:08x}", rng.random::<u64>()),
            block,
            position,
            variant: effect.name.into(),
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 1_790_000_000_000
                + u64::from(block) * 120_000
                + u64::from(position) * 30_000,
            seconds: 28.0,
            machine: machine(),
            metrics,
            samples: self.samples(rng, last, drift),
            load_window_ms: Some((3_000, 27_000)),
            load: Some(LoadReport {
                completed: u64::from(self.responses),
                seconds: 24.0,
                window_ms: Some((1_003_000, 1_027_000)),
                latency_hdr: Some(base64(&packed)),
                steps: (1..=self.steps).map(|step| self.step(rng, effect, step)).collect(),
                routes: self.routes(effect),
                ..LoadReport::default()
            }),
            notes: Vec::new(),
            log_tail: String::new(),
        }
    }

    /// Round trips that take longer with more clients.
    fn step(&self, rng: &mut ChaCha8Rng, effect: &Effect, step: u32) -> StepReport {
        let p50 = 0.6 * f64::from(step) * effect.latency * (1.0 + 0.05 * normal(rng));
        let complete = Times {
            count: 100,
            p50,
            p95: p50 * 1.8,
            p99: p50 * 2.1,
            max: p50 * 2.6,
            ..Times::default()
        };
        let ack = Times { p50: p50 * 0.5, p95: p50 * 0.9, ..complete.clone() };
        let end_ms = 1_003_000 + 2_400 * u64::from(step);
        StepReport {
            clients: step * 1000,
            window_ms: (end_ms - 2_000, end_ms),
            times: BTreeMap::from([("complete".to_owned(), complete), ("ack".to_owned(), ack)]),
            ..StepReport::default()
        }
    }

    fn routes(&self, effect: &Effect) -> Vec<RouteReport> {
        let route = |step: u32, route: &str| RouteReport {
            route: route.into(),
            scenario: Some("visit".into()),
            step: Some(step),
            completed: u64::from(self.responses / 2),
            latency: Some(Times {
                count: u64::from(self.responses / 2),
                p50: 0.003 * effect.latency * f64::from(step),
                p95: 0.009 * effect.latency * f64::from(step),
                p99: 0.012 * effect.latency * f64::from(step),
                ..Times::default()
            }),
            ..RouteReport::default()
        };
        let steps = [route(1, "GET /login"), route(2, "POST /login")];
        steps.into_iter().filter(|_| self.scenario).collect()
    }

    /// The ledger of a trial that ends with `last` bytes: of the parts, only free memory of malloc differs from the baseline.
    fn ledger(&self, last: f64, drift: f64) -> Ledger {
        let whole = self.base_bytes * drift;
        let mut parts: Vec<LedgerPart> = [
            (PartKind::CodeAndFiles, 0.12),
            (PartKind::Stacks, 0.01),
            (PartKind::SlotsLive, 0.2),
            (PartKind::SlotsFree, 0.03),
            (PartKind::MallocLive, 0.22),
            (PartKind::AllocatorOverhead, 0.01),
        ]
        .map(|(kind, share)| ledger_part(kind, whole * share))
        .into();
        let unexplained = (whole * 0.004) as i64;
        let rest = last - parts.iter().map(|part| part.pss.0 as f64).sum::<f64>();
        parts.push(ledger_part(PartKind::MallocFree, rest - unexplained as f64));
        parts.sort_by_key(|part| PartKind::ALL.iter().position(|kind| *kind == part.kind));
        let sum: Bytes = parts.iter().map(|part| part.pss).sum();
        let pss = Bytes(sum.0.saturating_add_signed(unexplained));
        Ledger { pss, uss: pss, parts, unexplained, ..Ledger::default() }
    }

    /// Requests answered during the load; `None` outside it and without moments.
    fn answered(&self, at_ms: u64) -> Option<u64> {
        let inside = self.moments && (3_000..=27_000).contains(&at_ms);
        inside.then(|| at_ms.saturating_sub(3_000) * u64::from(self.responses) / 24_000)
    }

    fn moment(&self, at: usize) -> Option<Moment> {
        let answered = |at: usize| {
            self.answered((at as f64 / self.samples as f64 * 28_000.0) as u64).unwrap_or(0)
        };
        let reached = [300, 1_000]
            .into_iter()
            .find(|n| at > 0 && answered(at) >= *n && answered(at - 1) < *n)
            .map(Moment::Requests);
        let fixed = match at {
            0 => Some(Moment::Ready),
            9 => Some(Moment::Start),
            _ if at + 3 == self.samples => Some(Moment::End),
            _ if at + 1 == self.samples => Some(Moment::Idle),
            _ => None,
        };
        fixed.or(reached).filter(|_| self.moments)
    }

    fn samples(&self, rng: &mut ChaCha8Rng, last: f64, drift: f64) -> Vec<Sample> {
        let single = self.primary.contains("rss");
        (0..self.samples)
            .map(|at| {
                let share = at as f64 / self.samples as f64;
                let level = last * (0.58 + 0.42 * (1.0 - (-6.0 * (share - 0.08).max(0.0)).exp()));
                let bytes = Bytes((level * (1.0 + 0.006 * normal(rng))) as u64);
                let at_ms = (share * 28_000.0) as u64;
                Sample {
                    at_ms,
                    answered: self.answered(at_ms),
                    moment: self.moment(at),
                    processes: self.processes,
                    shared: (self.processes > 1)
                        .then_some(Bytes((bytes.0 as f64 * (0.5 - 0.25 * share)) as u64)),
                    rss: single.then_some(bytes),
                    pss: Some(Bytes((bytes.0 as f64 * 0.96) as u64)),
                    uss: Some(Bytes((bytes.0 as f64 * 0.9) as u64)),
                    ledger: (self.ledgers && at + 3 == self.samples)
                        .then(|| Box::new(self.ledger(last, drift))),
                    ..Sample::default()
                }
            })
            .collect()
    }
}

fn ledger_part(kind: PartKind, bytes: f64) -> LedgerPart {
    let bytes = Bytes(bytes as u64);
    LedgerPart { kind, pss: bytes, private: bytes, resident: bytes }
}

fn variant(name: &str) -> Variant {
    let settings = match name {
        "compact" => BTreeMap::from([("compact".into(), "boot".into())]),
        "arena_max = 2" => BTreeMap::from([("arena_max".into(), "2".into())]),
        "jemalloc" => BTreeMap::from([("allocator".into(), "jemalloc".into())]),
        "trim at full GC" => BTreeMap::from([("trim".into(), "full-gc".into())]),
        _ => BTreeMap::new(),
    };
    Variant { name: name.into(), settings, controls: Vec::new() }
}

fn machine() -> BTreeMap<String, String> {
    [
        ("kernel", "6.18.2"),
        ("cpu", "AMD EPYC 9B14, 2 cores"),
        ("memory", "8.2 GB"),
        ("ruby", "3.1.2p20 (x86_64-linux-gnu)"),
        ("libc", "glibc 2.36"),
        ("thp", "madvise"),
        ("host", "weighing-room-7"),
        ("user", "annabel"),
    ]
    .into_iter()
    .map(|(key, fact)| (key.to_owned(), fact.to_owned()))
    .collect()
}

/// Conclusions of a simple paired analysis, instead of those of `analysis`.
pub(crate) fn conclude(results: &mut Results) {
    let roles = [
        (results.info.primary.clone(), Role::Primary),
        ("latency.p95".to_owned(), Role::Guard { limit: 0.05 }),
        ("memory.pss.peak".to_owned(), Role::Exploratory),
        ("throughput".to_owned(), Role::Exploratory),
        ("boot.time".to_owned(), Role::Exploratory),
    ];
    results.conclusions.clear();
    for variant in results.info.variants.iter().skip(1) {
        for (metric, role) in &roles {
            let pairs = pairs(results, &variant.name, metric);
            results.conclusions.push(conclusion(&variant.name, metric, *role, &pairs));
        }
    }
    let names: Vec<&str> = results.info.variants.iter().map(|v| v.name.as_str()).collect();
    let question = Question::new(&names, &results.info.primary);
    results.curves = curves(&question, &results.trials);
    results.moments = moments(&question, &results.trials);
    results.least = least_distances(&question, &results.trials);
    results.growth = of_variants(&results.info.variants, &results.trials);
}

fn pairs(results: &Results, variant: &str, metric: &str) -> Vec<(f64, f64)> {
    let value = |name: &str, block: u32| {
        results
            .trials
            .iter()
            .find(|t| t.variant == name && t.block == block && t.outcome == Outcome::Ok)
            .and_then(|t| t.metrics.get(metric).copied())
    };
    let baseline = &results.info.variants[0].name;
    (1..=results.info.max_blocks.max(500))
        .filter_map(|block| Some((value(baseline, block)?, value(variant, block)?)))
        .collect()
}

fn conclusion(variant: &str, metric: &str, role: Role, pairs: &[(f64, f64)]) -> Conclusion {
    let logs: Vec<f64> = pairs.iter().map(|(base, with)| (with / base).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = 2.6 * (variance / n).sqrt();
    let base = pairs.iter().map(|(base, _)| base).sum::<f64>() / n;
    let estimate = (pairs.len() > 2).then(|| Estimate {
        ratio: mean.exp_m1(),
        ratio_interval: ((mean - half).exp_m1(), (mean + half).exp_m1()),
        difference: base * mean.exp_m1(),
        difference_interval: (base * (mean - half).exp_m1(), base * (mean + half).exp_m1()),
        confidence: 0.95,
        in_own_unit: false,
    });
    let memory = metric.starts_with("memory");
    let verdict = match estimate.map(|e| e.ratio_interval) {
        Some((_, high)) if high < 0.0 && memory => Verdict::Smaller,
        Some((low, _)) if low > 0.0 && memory => Verdict::Larger,
        Some((_, high)) if high < 0.0 => Verdict::Faster,
        Some((low, _)) if low > 0.0 => Verdict::Slower,
        Some((low, high)) if low > -0.0025 && high < 0.0025 => Verdict::Equivalent,
        _ => Verdict::Undecided,
    };
    let guard_passed = match (role, estimate.map(|e| e.ratio_interval)) {
        (Role::Guard { limit }, Some((_, high))) if high < limit => Some(true),
        (Role::Guard { limit }, Some((low, _))) if low > limit => Some(false),
        _ => None,
    };
    Conclusion {
        variant: variant.into(),
        metric: metric.into(),
        role,
        verdict,
        estimate,
        blocks: pairs.len() as u32,
        guard_passed,
        detectable: Some(0.011),
        forecast: (verdict == Verdict::Undecided)
            .then_some(BlockForecast { low: 12, high: Some(50) }),
        required_confidence: None,
    }
}

/// The results with the second variant as the control of the third, in every metric that decides or is guarded.
pub(crate) fn with_control(mut results: Results) -> Results {
    let control = results.info.variants[1].name.clone();
    let variant = results.info.variants[2].name.clone();
    results.info.variants[2].controls = vec![control.clone()];
    let own = results.conclusions.iter().filter(|c| c.variant == variant);
    results.controls = own
        .filter(|c| c.role != Role::Exploratory)
        .map(|c| ControlComparison {
            control: control.clone(),
            conclusion: c.clone(),
            part: (c.role == Role::Primary).then_some(PartAtWork::Both),
        })
        .collect();
    results
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// Hostile text for every field that comes from outside.
pub(crate) const PAYLOAD: &str = "</script></title><script>window.ran=1</script><img src=x onerror=window.ran=2>\" onmouseover=window.ran=3 '`${window.ran=4}` javascript:window.ran=5 \u{1b}[31m\u{202e}\u{7}=cmd|' /C calc'!A0";

/// The results with hostile text in every text field.
pub(crate) fn hostile(mut results: Results) -> Results {
    let renamed: BTreeMap<String, String> = results
        .info
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| (variant.name.clone(), format!("{place}{PAYLOAD}")))
        .collect();
    results.info.name = PAYLOAD.into();
    results.info.about = Some(PAYLOAD.into());
    results.info.plan_text = PAYLOAD.into();
    results.info.plan_hash = PAYLOAD.into();
    results.warnings = vec![PAYLOAD.into()];
    for variant in &mut results.info.variants {
        variant.name = renamed[&variant.name].clone();
        variant.settings = BTreeMap::from([(PAYLOAD.into(), PAYLOAD.into())]);
        for control in &mut variant.controls {
            *control = renamed[control].clone();
        }
    }
    for conclusion in &mut results.conclusions {
        conclusion.variant = renamed[&conclusion.variant].clone();
    }
    for compared in &mut results.moments {
        compared.variant = renamed[&compared.variant].clone();
    }
    for compared in &mut results.controls {
        compared.control = renamed[&compared.control].clone();
        compared.conclusion.variant = renamed[&compared.conclusion.variant].clone();
    }
    for trial in &mut results.trials {
        trial.variant = renamed[&trial.variant].clone();
        trial.id = PAYLOAD.into();
        trial.machine =
            BTreeMap::from([(PAYLOAD.into(), PAYLOAD.into()), ("ruby".into(), PAYLOAD.into())]);
        trial.metrics.insert(PAYLOAD.into(), 1.0);
        for route in trial.load.iter_mut().flat_map(|load| &mut load.routes) {
            (route.route, route.scenario) = (PAYLOAD.into(), Some(PAYLOAD.into()));
        }
    }
    for trial in results.trials.iter_mut().skip(4).take(3) {
        trial.outcome = Outcome::Crashed;
        trial.detail = Some(PAYLOAD.into());
        trial.notes = vec![PAYLOAD.into()];
        trial.log_tail = PAYLOAD.repeat(5);
        if let Some(load) = &mut trial.load {
            let severity = carat_model::Severity::Warning;
            load.flags.push(carat_model::LoadFlag {
                code: PAYLOAD.into(),
                severity,
                message: PAYLOAD.into(),
            });
        }
    }
    results
}
