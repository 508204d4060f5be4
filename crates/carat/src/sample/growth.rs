//! What grows in a recording, and how: the classifier of `carat-stats`, applied to each component.

use crate::model::recording::{ComponentGrowth, InsideSample, Recording};
use crate::model::{Bytes, Sample};
use carat_stats::growth::{Growth, Kind, classify};

/// Growth by less than this share of the present amount in a day does not matter.
const DAILY: f64 = 0.1;
const DAY_S: f64 = 86_400.0;
/// Sharing that fell by less than this share of the tree has not eroded.
const ERODED: f64 = 0.05;

/// The growth of every component that was seen often enough.
///
/// Live objects are taken right after full collections only, so that garbage does not count.
pub fn growth(recording: &Recording) -> Vec<ComponentGrowth> {
    let samples = &recording.samples;
    let inside = &recording.inside;
    let bytes = "bytes per second";
    let of = |figure: fn(&Sample) -> Option<Bytes>| points(samples.iter(), |s| s.at_ms, figure);
    let within =
        |figure: fn(&InsideSample) -> Option<Bytes>| points(inside.iter(), |s| s.at_ms, figure);
    let components = [
        ("tree (PSS)", bytes, of(|sample| sample.pss)),
        ("private (USS)", bytes, of(|sample| sample.uss)),
        ("malloc live", bytes, within(|sample| sample.malloc_live)),
        ("malloc free", bytes, within(|sample| sample.malloc_free)),
        ("objects after full GC", "objects per second", after_major(inside)),
    ];
    let mut found: Vec<ComponentGrowth> = components
        .into_iter()
        .filter(|(_, _, series)| series.len() > 1)
        .map(|(component, unit, series)| component_growth(component, unit, &series))
        .collect();
    found.extend(erosion(samples));
    found
}

fn points<'a, T: 'a>(
    moments: impl Iterator<Item = &'a T>,
    at_ms: impl Fn(&T) -> u64,
    figure: impl Fn(&T) -> Option<Bytes>,
) -> Vec<(f64, f64)> {
    moments
        .filter_map(|moment| Some((at_ms(moment) as f64 / 1e3, figure(moment)?.0 as f64)))
        .collect()
}

fn after_major(inside: &[InsideSample]) -> Vec<(f64, f64)> {
    let is_fresh = |pair: &&[InsideSample]| pair[1].major_gcs > pair[0].major_gcs;
    inside
        .windows(2)
        .filter(is_fresh)
        .filter_map(|pair| Some((pair[1].at_ms as f64 / 1e3, pair[1].live_after_major? as f64)))
        .collect()
}

fn component_growth(component: &str, unit: &str, series: &[(f64, f64)]) -> ComponentGrowth {
    let level = series.last().map_or(0.0, |last| last.1);
    let growth = classify(series, level * DAILY / DAY_S);
    let levelling = growth.kind == Kind::LevellingOff;
    ComponentGrowth {
        component: component.to_owned(),
        kind: word(&growth).to_owned(),
        unit: unit.to_owned(),
        rate: growth.rate,
        interval: growth.interval,
        asymptote: levelling.then(|| asymptote(series)).flatten(),
        step: growth.step.filter(|_| growth.kind == Kind::Stepwise),
        needed_s: growth.needed,
    }
}

fn word(growth: &Growth) -> &'static str {
    match growth.kind {
        Kind::Flat => "flat",
        Kind::LevellingOff => "levelling off",
        Kind::Linear => "linear",
        Kind::Stepwise => "stepwise",
        Kind::Undecided => "undecided",
    }
}

/// The level that `y = level - drop·exp(-x/τ)` approaches, by least squares over a grid of τ; `None` where
/// even the best τ is as long as the series, as it is for a logarithm, which has no such level.
fn asymptote(series: &[(f64, f64)]) -> Option<f64> {
    const STEPS: i32 = 40;
    let length = series.last()?.0;
    let fits = (0..STEPS).map(|step| {
        let tau = length * 0.01 * 150_f64.powf(f64::from(step) / f64::from(STEPS - 1));
        let line: Vec<(f64, f64)> = series.iter().map(|&(x, y)| ((-x / tau).exp(), y)).collect();
        let (level, error) = level_of(&line);
        (tau, level, error)
    });
    let (tau, level, _) = fits.min_by(|a, b| a.2.total_cmp(&b.2))?;
    (tau < length * 0.9).then_some(level)
}

/// Intercept of the least-squares line, and the sum of its squared errors.
fn level_of(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / n, sum.1 + p.1 / n));
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let level = my - slope * mx;
    let error = points.iter().map(|p| (p.1 - level - slope * p.0).powi(2)).sum();
    (level, error)
}

/// Memory that was shared after the fork and is private now, while the tree's processes stayed the same.
fn erosion(samples: &[Sample]) -> Option<ComponentGrowth> {
    let known: Vec<(&Sample, Bytes)> =
        samples.iter().filter_map(|sample| Some((sample, sample.shared?))).collect();
    let processes = known.last()?.0.processes;
    let steady: Vec<&(&Sample, Bytes)> =
        known.iter().rev().take_while(|(sample, _)| sample.processes == processes).collect();
    let (last, first) = (steady.first()?, steady.last()?);
    let lost = first.1.saturating_sub(last.1);
    let gained = last.0.uss?.saturating_sub(first.0.uss?);
    let matters = lost.0 as f64 > ERODED * last.0.pss?.0 as f64 && gained.0 > 0;
    (processes > 1 && matters).then(|| ComponentGrowth {
        component: "shared".into(),
        kind: "sharing eroding".into(),
        unit: "bytes".into(),
        rate: None,
        interval: None,
        asymptote: None,
        step: Some(-(lost.0 as f64)),
        needed_s: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SamplerCost;
    use crate::model::recording::RECORDING_SCHEMA;

    const MB: f64 = 1e6;

    fn recording(seconds: u64, processes: u32, pss: impl Fn(f64) -> f64) -> Recording {
        let sample = |second: u64| {
            // A wobble of a few pages, as every real server has.
            let wobble = f64::from((second * 7919 % 13) as u32) * 4096.0;
            let bytes = Bytes((pss(second as f64) + wobble) as u64);
            let (at_ms, pss, uss) = (second * 1000, Some(bytes), Some(bytes));
            Sample { at_ms, processes, pss, uss, ..Sample::default() }
        };
        Recording {
            schema: RECORDING_SCHEMA.into(),
            what: "puma".into(),
            started_ms: 0,
            ended: String::new(),
            samples: (0..seconds).map(sample).collect(),
            inside: Vec::new(),
            markers: Vec::new(),
            growth: Vec::new(),
            ledger: None,
            cost: SamplerCost::default(),
            warnings: Vec::new(),
        }
    }

    fn tree(recording: &Recording) -> ComponentGrowth {
        growth(recording).into_iter().find(|growth| growth.component == "tree (PSS)").unwrap()
    }

    #[test]
    fn a_leak_has_a_rate_and_a_warm_up_has_a_level() {
        let leak = tree(&recording(1000, 1, |x| 60.0 * MB + 20_000.0 * x));
        assert_eq!(leak.kind, "linear", "{leak:?}");
        let (low, high) = leak.interval.unwrap();
        assert!(low < 20_000.0 && 20_000.0 < high, "{leak:?}");
        let warm = tree(&recording(1000, 1, |x| 80.0 * MB - 20.0 * MB * (-x / 150.0).exp()));
        assert_ne!(warm.kind, "linear", "{warm:?}");
        if let Some(level) = warm.asymptote {
            assert!((level - 80.0 * MB).abs() < MB, "{warm:?}");
        }
    }

    #[test]
    fn the_level_that_a_series_approaches_is_found_and_a_logarithm_has_none() {
        let series = |y: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (1..1000).map(|x| (f64::from(x), y(f64::from(x)))).collect()
        };
        let level = asymptote(&series(|x| 80.0 - 20.0 * (-x / 200.0).exp())).unwrap();
        assert!((level - 80.0).abs() < 0.5, "{level}");
        assert_eq!(asymptote(&series(|x| 60.0 + 0.02 * x)), None);
    }

    #[test]
    fn sharing_that_turns_private_is_erosion_and_not_growth() {
        let mut recording = recording(100, 5, |_| 400.0 * MB);
        for sample in &mut recording.samples {
            let lost = sample.at_ms * 1000;
            sample.shared = Some(Bytes(200_000_000 - lost));
            sample.uss = Some(Bytes(200_000_000 + lost));
        }
        let kinds: Vec<String> = growth(&recording).into_iter().map(|growth| growth.kind).collect();
        assert!(kinds.contains(&"sharing eroding".to_owned()), "{kinds:?}");
        recording.samples.iter_mut().for_each(|sample| sample.shared = Some(Bytes(200_000_000)));
        let kinds: Vec<String> = growth(&recording).into_iter().map(|growth| growth.kind).collect();
        assert!(!kinds.contains(&"sharing eroding".to_owned()), "{kinds:?}");
    }
}
