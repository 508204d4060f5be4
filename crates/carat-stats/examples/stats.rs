//! Prints the tables of `docs/explanation/method.md`: the error rates of the procedures where the truth is known.
//!
//! Usage: `stats [REPLICATIONS [TABLE…]]`, 5,000 replications and all tables by default. The same
//! arguments give the same numbers on every machine.

use carat_stats::blocks::blocks_for;
use carat_stats::family::{Decision, Design, GuardResult, guard};
use carat_stats::growth::{GrowthClass, classify};
use carat_stats::simulate::{
    Disturbance, KeptShape, Noise, Order, Replication, SeededRng, SimulatedExperiment,
    SimulatedReadings, Soak, SoakShape, repeated_t_test_errs,
};
use carat_stats::steady::{LEAST_READINGS, SteadyClass, steady_growth};
use std::io::{self, Write};

/// The published effect of compaction and the margin of a usual question.
const EFFECT: f64 = -567_222.0 / 71_162_253.0;
const MARGIN: f64 = 0.0025;

type Table = fn(&mut dyn Write, u32) -> io::Result<()>;

const TABLES: [(&str, Table); 11] = [
    ("orders", orders),
    ("effect", effect),
    ("nothing", nothing),
    ("sizes", sizes),
    ("budgets", budgets),
    ("several", several),
    ("controls", controls),
    ("guards", guards),
    ("growth", growth),
    ("minima", minima),
    ("readings", readings),
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let replications = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5000);
    let wanted: Vec<String> = arguments.collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{replications} simulated experiments for each line.")?;
    for (name, table) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            writeln!(out)?;
            table(&mut out, replications)?;
        }
    }
    Ok(())
}

/// Blocks after which the variant was decided, the budget where it was not; sorted.
fn lengths(runs: &[Replication], variant: usize, budget: u32) -> Vec<u32> {
    let mut blocks: Vec<u32> =
        runs.iter().map(|run| run.judged[variant].decided_after.unwrap_or(budget)).collect();
    blocks.sort_unstable();
    blocks
}

fn percent(runs: &[Replication], is: impl Fn(&Replication) -> bool) -> f64 {
    100.0 * runs.iter().filter(|run| is(run)).count() as f64 / runs.len() as f64
}

fn mean(blocks: &[u32]) -> f64 {
    blocks.iter().map(|&n| f64::from(n)).sum::<f64>() / blocks.len() as f64
}

fn quantile(sorted: &[u32], share: f64) -> u32 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn within(blocks: &[u32], limit: u32) -> f64 {
    100.0 * blocks.iter().filter(|&&n| n <= limit).count() as f64 / blocks.len() as f64
}

fn found(run: &Replication, variant: usize, decision: Decision) -> bool {
    run.judged[variant].decision == decision
}

fn orders(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(
        out,
        "### Two equal variants, 20 trials each, a 5 % t test (paired for blocks): false differences % / sd of the estimate in sd of a trial\n"
    )?;
    write!(out, "| disturbance |")?;
    for (_, name) in Order::ALL {
        write!(out, " {name} |")?;
    }
    writeln!(out, "\n|---|--:|--:|--:|--:|")?;
    for (disturbance, name) in Disturbance::ALL {
        write!(out, "| {name} |")?;
        for (order, _) in Order::ALL {
            let mut rng = SeededRng::new(10);
            let runs: Vec<(f64, bool)> =
                (0..replications).map(|_| order.once(disturbance, &mut rng)).collect();
            let count = f64::from(replications);
            let wrong = runs.iter().filter(|run| run.1).count() as f64 / count;
            let mean = runs.iter().map(|run| run.0).sum::<f64>() / count;
            let sd = (runs.iter().map(|run| (run.0 - mean).powi(2)).sum::<f64>() / count).sqrt();
            write!(out, " {:.1} / {sd:.2} |", 100.0 * wrong)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn effect(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(out, "### The published effect of compaction (−0.80 %, spread 0.41 %), budget 100\n")?;
    writeln!(
        out,
        "| noise | smaller % | larger % | mean blocks | median | 95th percentile | ≤ 15 % | ≤ 27 % | interval covers % |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    let design = Design::new(0.05, 1, 100);
    for noise in Noise::ALL {
        let runs =
            SimulatedExperiment::new(noise, &[EFFECT]).run(&design, MARGIN, replications, 11);
        let blocks = lengths(&runs, 0, 100);
        writeln!(
            out,
            "| {} | {:.2} | {:.2} | {:.1} | {} | {} | {:.1} | {:.1} | {:.1} |",
            noise.name(),
            percent(&runs, |run| found(run, 0, Decision::Less)),
            percent(&runs, |run| found(run, 0, Decision::More)),
            mean(&blocks),
            quantile(&blocks, 0.5),
            quantile(&blocks, 0.95),
            within(&blocks, 15),
            within(&blocks, 27),
            percent(&runs, |run| run.covered),
        )?;
    }
    Ok(())
}

fn nothing(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(out, "### No effect at all (A/A), margin 0.25 %, spread 0.41 %, budget 100\n")?;
    writeln!(
        out,
        "| noise | false difference % | equivalent % | undecided % | median blocks | false difference without stopping for equivalence % | plain 95 % t interval after every block, false difference % |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|")?;
    let design = Design::new(0.05, 1, 100);
    for noise in Noise::ALL {
        let world = SimulatedExperiment::new(noise, &[0.0]);
        let runs = world.run(&design, MARGIN, replications, 12);
        let long = world.run(&design, 0.0, replications, 13);
        let mut rng = SeededRng::new(14);
        let peeked = (0..replications)
            .filter(|_| repeated_t_test_errs(&world.differences(&mut rng)[0]))
            .count();
        writeln!(
            out,
            "| {} | {:.2} | {:.1} | {:.1} | {} | {:.2} | {:.1} |",
            noise.name(),
            percent(&runs, |run| run.judged[0].decision.is_difference()),
            percent(&runs, |run| found(run, 0, Decision::Equivalent)),
            percent(&runs, |run| found(run, 0, Decision::Undecided)),
            quantile(&lengths(&runs, 0, 100), 0.5),
            percent(&long, |run| run.judged[0].decision.is_difference()),
            100.0 * peeked as f64 / f64::from(replications),
        )?;
    }
    Ok(())
}

fn sizes(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(out, "### Effects of other sizes, spread 0.41 %, margin 0.25 %, budget 100\n")?;
    writeln!(
        out,
        "| noise | effect % | smaller % | equivalent % | mean blocks | 95th percentile |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
    let design = Design::new(0.05, 1, 100);
    for noise in [Noise::Normal, Noise::Outliers] {
        for effect in [0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.003, 0.004, 0.005, 0.01, 0.02] {
            let runs =
                SimulatedExperiment::new(noise, &[-effect]).run(&design, MARGIN, replications, 15);
            let blocks = lengths(&runs, 0, 100);
            writeln!(
                out,
                "| {} | {} | {:.1} | {:.1} | {:.1} | {} |",
                noise.name(),
                -100.0 * effect,
                percent(&runs, |run| found(run, 0, Decision::Less)),
                percent(&runs, |run| found(run, 0, Decision::Equivalent)),
                mean(&blocks),
                quantile(&blocks, 0.95),
            )?;
        }
    }
    Ok(())
}

fn budgets(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(out, "### The budget rule, normal noise: margin = what the budget should resolve\n")?;
    writeln!(
        out,
        "| blocks | margin ÷ spread | an effect of one margin is found % | no effect is equivalent % | no effect, false difference % |"
    )?;
    writeln!(out, "|--:|--:|--:|--:|--:|")?;
    for budget in [6, 8, 10, 12, 15, 20, 30, 60, 100] {
        let design = Design::new(0.05, 1, budget);
        let margin = carat_stats::blocks::detectable(0.0041, budget).unwrap_or(0.0);
        let world = |effect| SimulatedExperiment {
            blocks: budget,
            ..SimulatedExperiment::new(Noise::Normal, &[effect])
        };
        let some = world(-margin).run(&design, margin, replications, 16);
        let none = world(0.0).run(&design, margin, replications, 17);
        writeln!(
            out,
            "| {budget} | {:.2} | {:.1} | {:.1} | {:.2} |",
            margin / 0.0041,
            percent(&some, |run| found(run, 0, Decision::Less)),
            percent(&none, |run| found(run, 0, Decision::Equivalent)),
            percent(&none, |run| run.judged[0].decision.is_difference()),
        )?;
    }
    Ok(())
}

fn several(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(
        out,
        "### Several variants against one baseline, Holm inside the sequence, budget 60\n"
    )?;
    writeln!(
        out,
        "| truth | noise | any false difference % | true ones found % | mean blocks | 95th percentile |"
    )?;
    writeln!(out, "|---|---|--:|--:|--:|--:|")?;
    let e = EFFECT;
    let cases: [(&str, Noise, &[f64]); 7] = [
        ("3 of no effect", Noise::Normal, &[0.0, 0.0, 0.0]),
        ("3 of no effect", Noise::Outliers, &[0.0, 0.0, 0.0]),
        ("2 of no effect, 1 at −0.8 %", Noise::Normal, &[0.0, 0.0, e]),
        ("1 of no effect, 2 at −0.8 %", Noise::Normal, &[0.0, e, e]),
        ("1 of no effect, 2 at −0.8 %", Noise::Outliers, &[0.0, e, e]),
        ("1 of no effect, 2 at −5 %", Noise::Normal, &[0.0, -0.05, -0.05]),
        ("5 of no effect", Noise::Normal, &[0.0; 5]),
    ];
    for (name, noise, effects) in cases {
        let design = Design::new(0.05, effects.len(), 60);
        let world = SimulatedExperiment { blocks: 60, ..SimulatedExperiment::new(noise, effects) };
        let runs = world.run(&design, 0.0, replications, 18);
        let is_false = |run: &Replication| {
            let judged = run.judged.iter().zip(effects);
            judged.clone().any(|(j, &effect)| effect == 0.0 && j.decision.is_difference())
        };
        let last = effects.len() - 1;
        let blocks = lengths(&runs, last, 60);
        let (power, length, late) = if effects[last] == 0.0 {
            ("–".to_owned(), "–".to_owned(), "–".to_owned())
        } else {
            (
                format!("{:.1}", percent(&runs, |run| found(run, last, Decision::Less))),
                format!("{:.1}", mean(&blocks)),
                quantile(&blocks, 0.95).to_string(),
            )
        };
        writeln!(
            out,
            "| {name} | {} | {:.2} | {power} | {length} | {late} |",
            noise.name(),
            percent(&runs, is_false)
        )?;
    }
    Ok(())
}

fn controls(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(
        out,
        "### Controls: a sham, a collection and a compaction, each with the one before as its control, margin 0.25 %, spread 0.41 %, budget 100\n"
    )?;
    writeln!(
        out,
        "| truth | noise | any false difference % | every part named rightly % | mean blocks to the end | without controls |"
    )?;
    writeln!(out, "|---|---|--:|--:|--:|--:|")?;
    let e = EFFECT;
    let cases: [(&str, Noise, [f64; 3]); 5] = [
        ("no effect", Noise::Normal, [0.0; 3]),
        ("no effect", Noise::Outliers, [0.0; 3]),
        ("the collection −0.8 %, the compaction nothing more", Noise::Normal, [0.0, e, e]),
        ("the collection nothing, the compaction −0.8 %", Noise::Normal, [0.0, 0.0, e]),
        ("the collection −0.8 %, the compaction another −0.8 %", Noise::Normal, [0.0, e, 2.0 * e]),
    ];
    for (name, noise, effects) in cases {
        let alone = SimulatedExperiment::new(noise, &effects);
        let with = SimulatedExperiment { controls: vec![(1, 0), (2, 1)], ..alone.clone() };
        let truths = with.truths();
        let run = |world: &SimulatedExperiment, claims| {
            world.run(&Design::new(0.05, claims, 100), MARGIN, replications, 20)
        };
        let (runs, shorter) = (run(&with, truths.len()), run(&alone, effects.len()));
        let is_false = |run: &Replication| {
            let mut judged = run.judged.iter().zip(&truths);
            judged.any(|(j, &truth)| truth == 0.0 && j.decision.is_difference())
        };
        let is_right = |run: &Replication| {
            let mut judged = run.judged.iter().zip(&truths);
            judged.all(|(j, &truth)| match j.decision {
                Decision::Less => truth < 0.0,
                Decision::Equivalent => truth == 0.0,
                Decision::More | Decision::Undecided => false,
            })
        };
        writeln!(
            out,
            "| {name} | {} | {:.2} | {:.1} | {:.1} | {:.1} |",
            noise.name(),
            percent(&runs, is_false),
            percent(&runs, is_right),
            mean_end(&runs),
            mean_end(&shorter),
        )?;
    }
    Ok(())
}

/// Blocks after which everything was decided, the budget where something was not; the mean.
fn mean_end(runs: &[Replication]) -> f64 {
    let end = |run: &Replication| {
        let ends = run.judged.iter().map(|judged| judged.decided_after.unwrap_or(100));
        ends.max().unwrap_or(100)
    };
    mean(&runs.iter().map(end).collect::<Vec<u32>>())
}

fn guards(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    writeln!(out, "### A guard of +5 %, normal noise, budget 100\n")?;
    writeln!(
        out,
        "| spread of a trial % | truly +0 %: passes % | within blocks (95th percentile) | truly +5 %: passes % | truly +10 %: fails % |"
    )?;
    writeln!(out, "|--:|--:|--:|--:|--:|")?;
    let design = Design::new(0.05, 1, 100);
    let sequence = design.equivalence(1);
    let limit = 0.05_f64.ln_1p();
    for spread in [0.01, 0.02, 0.05, 0.1] {
        let world = |effect| SimulatedExperiment {
            spread,
            ..SimulatedExperiment::new(Noise::Normal, &[effect])
        };
        let share = |effect, price| {
            let mut rng = SeededRng::new(19);
            let is =
                |_: &u32| guard(sequence, &world(effect).differences(&mut rng)[0], limit) == price;
            100.0 * (0..replications).filter(is).count() as f64 / f64::from(replications)
        };
        let mut rng = SeededRng::new(20);
        let mut blocks: Vec<u32> = (0..replications)
            .map(|_| {
                let pairs = &world(0.0).differences(&mut rng)[0];
                let decides = |look: &&carat_stats::Look| {
                    guard(sequence, &pairs[..look.blocks as usize], limit) != GuardResult::Unknown
                };
                sequence.looks.iter().find(decides).map_or(100, |look| look.blocks)
            })
            .collect();
        blocks.sort_unstable();
        writeln!(
            out,
            "| {} | {:.1} | {} | {:.2} | {:.1} |",
            100.0 * spread,
            share(0.0, GuardResult::Within),
            quantile(&blocks, 0.95),
            share(0.05, GuardResult::Within),
            share(0.1, GuardResult::Beyond),
        )?;
    }
    writeln!(
        out,
        "\nBlocks for a difference of 5 % by the budget rule: {:?}.",
        [0.01, 0.02, 0.05, 0.1].map(|s| blocks_for(s, 0.05).unwrap_or(0))
    )
}

fn growth(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    let lengths = [50e3, 100e3, 200e3, 300e3, 400e3, 600e3, 800e3];
    writeln!(
        out,
        "### Growth by its shape alone, tolerance 4 bytes per request: linear % / flat or levelling off or stepwise % (rest undecided)\n"
    )?;
    write!(out, "| truth |")?;
    for requests in lengths {
        write!(out, " {:.0} k |", requests / 1e3)?;
    }
    writeln!(out, "\n|---|{}", "--:|".repeat(lengths.len()))?;
    use SoakShape::{Flat, Garbage, Logarithm, Root, Saturating, Sawtooth, SteepLogarithm, Step};
    for (shape, leak) in [
        (Flat, 0.0),
        (Step, 0.0),
        (Logarithm, 0.0),
        (SteepLogarithm, 0.0),
        (Saturating, 0.0),
        (Sawtooth, 0.0),
        (Root, 0.0),
        (Garbage, 0.0),
        (Flat, 16.0),
        (Logarithm, 16.0),
        (SteepLogarithm, 16.0),
        (Saturating, 16.0),
        (Sawtooth, 16.0),
        (Logarithm, 8.0),
        (Logarithm, 32.0),
        (Logarithm, 160.0),
    ] {
        let leaks = if leak > 0.0 { format!("leak {leak} B + ") } else { String::new() };
        write!(out, "| {leaks}{} |", shape.name())?;
        for requests in lengths {
            let (linear, harmless) = shares(Soak::new(shape, leak, requests), replications / 5);
            write!(out, " {linear:.1} / {harmless:.1} |")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn minima(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    let lengths = [3e3, 5e3, 10e3, 20e3, 30e3, 50e3, 70e3, 100e3, 150e3, 200e3];
    writeln!(
        out,
        "### Growth without a leak: linear %, by requests, without a minimum of requests or full collections\n"
    )?;
    write!(out, "| truth | noise |")?;
    for requests in lengths {
        write!(out, " {:.0} k |", requests / 1e3)?;
    }
    writeln!(out, "\n|---|--:|{}", "--:|".repeat(lengths.len()))?;
    use SoakShape::{Flat, Garbage, Logarithm, Saturating, Sawtooth};
    for shape in [Flat, Logarithm, Saturating, Sawtooth, Garbage] {
        for noise in [150e3, 30e3, 10e3] {
            write!(out, "| {} | {:.0} kB |", shape.name(), noise / 1e3)?;
            for requests in lengths {
                let soak = Soak { noise, ..Soak::new(shape, 0.0, requests) };
                write!(out, " {:.1} |", shares(soak, replications / 5).0)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Percent called linear, and percent called something harmless.
fn shares(soak: Soak, replications: u32) -> (f64, f64) {
    let mut rng = SeededRng::new(21);
    let (mut linear, mut harmless) = (0, 0);
    for _ in 0..replications {
        match classify(&soak.run(&mut rng), 4.0).class {
            GrowthClass::Linear => linear += 1,
            GrowthClass::Undecided => {}
            _ => harmless += 1,
        }
    }
    let share = |n: u32| 100.0 * f64::from(n) / f64::from(replications);
    (share(linear), share(harmless))
}

/// The test that is repeated after every reading: how often it has said "steady" at any look so far.
fn readings(out: &mut dyn Write, replications: u32) -> io::Result<()> {
    const LOOKS: [f64; 6] = [1e3, 2e3, 3e3, 5e3, 10e3, 20e3];
    writeln!(
        out,
        "### Readings of what is kept, asked after every reading: called steady so far %, at least once, by requests\n"
    )?;
    write!(out, "| truth | noise |")?;
    for requests in LOOKS {
        write!(out, " {:.0} k |", requests / 1e3)?;
    }
    writeln!(out, "\n|---|---|{}", "--:|".repeat(LOOKS.len()))?;
    for (truth, shape, leak) in reading_truths() {
        for (name, noise, correlation) in READING_NOISES {
            let small = SimulatedReadings::small(shape, leak, 125.0);
            let simulated = SimulatedReadings { noise, correlation, ..small };
            write!(out, "| {truth} | {name} |")?;
            let first = first_calls(&simulated, 20e3, replications / 5);
            for requests in LOOKS {
                let called = first.iter().flatten().filter(|&&call| call <= requests).count();
                write!(out, " {:.1} |", 100.0 * called as f64 / first.len() as f64)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Standard deviation and correlation of readings, with a name.
const READING_NOISES: [(&str, f64, f64); 3] = [
    ("18 objects, as measured", 18.0, 0.0),
    ("18, correlated 0.7", 18.0, 0.7),
    ("200 objects", 200.0, 0.3),
];

fn reading_truths() -> Vec<(&'static str, KeptShape, f64)> {
    use KeptShape::{Flat, Logarithm, Root, Saturating, Stairs, Steps, Walk};
    let cache = |size| Saturating { size, length: size };
    vec![
        ("flat", Flat, 0.0),
        ("warm-up, 3,000 objects within 500", Saturating { size: 3e3, length: 500.0 }, 0.0),
        ("warm-up, 6,000 objects within 5,000", Saturating { size: 6e3, length: 5e3 }, 0.0),
        ("cache of 5,000, filled at random", cache(5e3), 0.0),
        ("cache of 15,000, filled at random", cache(15e3), 0.0),
        ("log, 1,000·ln", Logarithm { size: 1e3, length: 200.0 }, 0.0),
        ("√x, 100·√x", Root { size: 100.0 }, 0.0),
        ("three steps of 1,000, one in 1,000", Stairs { size: 1e3, length: 1e3 }, 0.0),
        ("warm-up, 30,000 objects within 2,000", Saturating { size: 3e4, length: 2e3 }, 0.0),
        ("random walk, 500 in 1,000", Walk { size: 500.0, length: 1e3 }, 0.0),
        ("leak of 1 object", Flat, 1.0),
        ("leak of 1 object + warm-up within 500", Saturating { size: 3e3, length: 500.0 }, 1.0),
        ("leak of 1 object in steps of 100", Steps { size: 100.0, length: 100.0 }, 0.0),
        ("leak of 0.2 objects", Flat, 0.2),
    ]
}

/// The work done at the first look that said "steady" in each simulated run.
fn first_calls(simulated: &SimulatedReadings, until: f64, replications: u32) -> Vec<Option<f64>> {
    let mut rng = SeededRng::new(22);
    let number = (until / simulated.apart) as usize;
    let first = |series: Vec<(f64, f64)>| {
        let mut looks = LEAST_READINGS..=series.len();
        looks.find(|&n| is_steady(&series[..n])).map(|n| series[n - 1].0)
    };
    (0..replications).map(|_| first(simulated.run(number, &mut rng))).collect()
}

fn is_steady(series: &[(f64, f64)]) -> bool {
    steady_growth(series, 0.1).is_some_and(|found| found.class == SteadyClass::Steady)
}
