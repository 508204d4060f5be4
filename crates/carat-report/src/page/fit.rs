//! Limits the size of a page: leaves out the largest and least important content first, and says so on the page.

use crate::text::shorten;
use carat_model::{Results, Role};

/// Bytes of a page at most.
const SIZE_LIMIT: usize = 450_000;

/// What is left out, in words, and the function that removes it.
type Reduction = (&'static str, fn(&mut Results));

/// Applied in this order until the page is small enough.
const REDUCTIONS: [Reduction; 5] = [
    ("long texts and the servers' last lines", cut_texts),
    ("memory over time", |results| results.trials.iter_mut().for_each(|one| one.samples.clear())),
    ("metrics that decide nothing, and latency histograms", cut_exploratory),
    // The first blocks: the order of a random design carries no information.
    ("all but the first 100 blocks", |results| results.trials.retain(|trial| trial.block <= 100)),
    ("all but the first 12 variants", cut_variants),
];

/// The page that `draw` makes of as much of the results as fits.
pub(super) fn fitting(results: &Results, draw: impl Fn(&Results) -> String) -> String {
    let mut page = draw(results);
    let mut reduced = results.clone();
    let mut left_out = Vec::new();
    for (what, cut) in REDUCTIONS {
        if page.len() < SIZE_LIMIT {
            break;
        }
        cut(&mut reduced);
        left_out.push(what);
        // The warning is added to a copy, or each round would add another.
        let mut shown = reduced.clone();
        let warning = format!(
            "This page leaves out {}, to stay small; the CSV and JSON have everything.",
            left_out.join("; ")
        );
        shown.warnings.insert(0, warning);
        page = draw(&shown);
    }
    page
}

fn cut_texts(results: &mut Results) {
    let info = &mut results.info;
    info.plan_text = shorten(&info.plan_text, 8_000);
    info.about = info.about.take().map(|about| shorten(&about, 600));
    results.warnings.truncate(20);
    for warning in &mut results.warnings {
        *warning = shorten(warning, 300);
    }
    for trial in &mut results.trials {
        let facts = std::mem::take(&mut trial.machine).into_iter().take(60);
        trial.machine = facts.map(|(name, fact)| (name, shorten(&fact, 200))).collect();
        trial.log_tail.clear();
        trial.notes.clear();
        trial.detail = trial.detail.take().map(|detail| shorten(&detail, 200));
        if let Some(load) = &mut trial.load {
            load.flags.clear();
            load.failures.clear();
        }
    }
}

fn cut_exploratory(results: &mut Results) {
    results.conclusions.retain(|conclusion| !matches!(conclusion.role, Role::Exploratory));
    let decided: Vec<String> = results.conclusions.iter().map(|c| c.metric.clone()).collect();
    let primary = results.info.primary.clone();
    for trial in &mut results.trials {
        trial.load = None;
        trial.metrics.retain(|name, _| *name == primary || decided.contains(name));
    }
}

fn cut_variants(results: &mut Results) {
    results.info.variants.truncate(12);
    for variant in &mut results.info.variants {
        variant.settings = std::mem::take(&mut variant.settings).into_iter().take(20).collect();
    }
    let kept: Vec<String> =
        results.info.variants.iter().map(|variant| variant.name.clone()).collect();
    results.trials.retain(|trial| kept.contains(&trial.variant));
    results.conclusions.retain(|conclusion| kept.contains(&conclusion.variant));
    // A comparison needs both of its variants.
    results.controls.retain(|compared| {
        kept.contains(&compared.control) && kept.contains(&compared.conclusion.variant)
    });
    results.curves.retain(|curve| kept.contains(&curve.variant));
    results.growth.retain(|growth| kept.contains(&growth.variant));
    results.machines.retain(|compared| kept.contains(&compared.variant));
    results.moments.retain(|compared| kept.contains(&compared.variant));
    results.least.retain(|distance| kept.contains(&distance.variant));
    results.classes.retain(|compared| kept.contains(&compared.variant));
}
