//! Tests of the registry of metrics.

use super::*;
use crate::ledger::tests::{ruby, tree};
use crate::load::{StepReport, Times};
use crate::memory::{CgroupSample, MemberSample, Sample};
use crate::observations::LoadTotals;
use crate::units::Bytes;
use std::path::{Path, PathBuf};

#[test]
fn every_metric_has_an_id_and_a_phrase_for_sentences() {
    for (i, one) in METRICS.iter().enumerate() {
        assert!(METRICS[i + 1..].iter().all(|other| other.id != one.id), "{}", one.id);
        assert!(!one.what.is_empty() && !one.what.ends_with('.'), "{}", one.id);
        let first = one.phrase.split(' ').next().unwrap();
        assert!(!["", "of", "in", "the", "a"].contains(&first), "its {}", one.phrase);
        assert!(one.enough >= one.least, "{}", one.id);
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).fold(
        Vec::new(),
        |mut all, path| {
            if path.is_dir() {
                all.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.push(path);
            }
            all
        },
    )
}

#[test]
fn every_memory_metric_has_its_moment_and_no_phrase_repeats_it() {
    for metric in METRICS {
        let of_memory = metric.id.starts_with("memory.");
        assert!(!of_memory || metric.moment.is_some(), "{} has no moment", metric.id);
        // A figure of the whole load has no moment, so its phrase may say that it is of the load.
        let words = metric.moment.map(MetricMoment::words);
        let repeats = words.is_some_and(|words| metric.phrase.contains(words));
        assert!(!repeats, "{}: {}", metric.id, metric.phrase);
    }
}

#[test]
fn memory_at_the_start_and_after_the_idle_time_comes_from_their_samples() {
    let cluster = tree(&[ruby(10, 1), ruby(11, 10), ruby(12, 10)]);
    let last = Sample { ledger: Some(Box::new(cluster)), processes: 3, ..sample(1200, 40) };
    let observed = Observations {
        start: Some(Sample { processes: 2, ..sample(500, 20) }),
        last: Some(last),
        idle: Some(Sample { processes: 3, ..sample(9000, 30) }),
        ..Observations::default()
    };
    let found = of_trial(&observed);
    assert_eq!((found[MEMORY_PSS_START.id], found[MEMORY_PSS_IDLE.id]), (20.0, 30.0));
    assert_eq!(found[MEMORY_PER_INSTANCE_IDLE.id], 15.0);
    assert!(!found.contains_key(MEMORY_PER_INSTANCE_START.id), "a worker was missing");
    assert!(!found.contains_key(MEMORY_RSS_IDLE.id), "of a tree of several processes");
}

#[test]
fn no_other_file_has_the_id_of_a_metric_as_a_literal() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    let in_src = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "src");
    for file in sources(&crates).into_iter().filter(in_src) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        // `errors` is also a code of the load's findings.
        for metric in METRICS.iter().filter(|metric| metric.id != ERRORS.id) {
            let quoted = [format!("\"{}\"", metric.id), format!("\\\"{}\\\"", metric.id)];
            let exempt = file.ends_with("carat-model/src/metric.rs") || file.ends_with("tests.rs");
            if !exempt && quoted.iter().any(|id| code.contains(id)) {
                found.push(format!("{}: {}", file.display(), metric.id));
            }
        }
    }
    assert!(found.is_empty(), "use the row of carat-model/src/metric.rs instead: {found:#?}");
}

#[test]
fn every_metric_of_the_steps_follows_a_metric_that_a_step_has() {
    let times = Times { p50: 1.0, p95: 2.0, ..Times::default() };
    let names = ["complete", "ack", "first", "delivery"];
    let step = StepReport {
        times: names.map(|name| (name.to_owned(), times.clone())).into(),
        ..StepReport::default()
    };
    for metric in METRICS {
        match metric.source {
            MetricSource::OverSteps(each) => {
                assert!(each.at_step(&step).is_some(), "{}", metric.id)
            }
            MetricSource::Step(_) => {
                let expected = if metric.id.ends_with("p50") { 1.0 } else { 2.0 };
                assert_eq!(metric.at_step(&step), Some(expected), "{}", metric.id);
            }
            _ => {}
        }
    }
}

#[test]
fn a_step_counts_by_its_ratio_and_a_missing_one_makes_the_mean_unknown() {
    let step = |p95: Option<f64>| StepReport {
        times: p95
            .map(|p95| ("complete".to_owned(), Times { p95, ..Times::default() }))
            .into_iter()
            .collect(),
        ..StepReport::default()
    };
    let found = BROADCAST_COMPLETE_P95.mean_over(&[step(Some(0.01)), step(Some(1.0))]).unwrap();
    assert!((found - 0.1).abs() < 1e-12, "{found}");
    assert_eq!(BROADCAST_COMPLETE_P95.mean_over(&[step(Some(0.01)), step(None)]), None);
    assert_eq!(BROADCAST_COMPLETE_P95.mean_over(&[]), None);
}

#[test]
fn a_percentile_with_too_few_responses_beyond_it_is_unknown() {
    let totals = |completed| LoadTotals {
        completed,
        expected: completed,
        unanswered: 0,
        seconds: 1.0,
        latency: &|quantile| Some(quantile),
        steps: &[],
    };
    let few = of_load(&totals(999));
    assert_eq!((few.get(LATENCY_P95.id), few.get(LATENCY_P99.id)), (Some(&0.95), None));
    assert_eq!(of_load(&totals(1000))[LATENCY_P99.id], 0.99);
    assert_eq!((few[THROUGHPUT.id], few[ERRORS.id]), (999.0, 0.0));
}

#[test]
fn a_request_without_an_answer_is_slower_than_every_one_with_one() {
    let totals = |completed, unanswered| LoadTotals {
        completed,
        expected: completed + unanswered,
        unanswered,
        seconds: 1.0,
        latency: &|quantile| Some(quantile),
        steps: &[],
    };
    let of = |unanswered, metric: &Metric| {
        of_load(&totals(20_000 - unanswered, unanswered)).get(metric.id).copied()
    };
    // 180 of 20,000: the 99th percentile of all is the 99.9th of those with an answer.
    let close = |found: Option<f64>, to: f64| found.is_some_and(|found| (found - to).abs() < 1e-4);
    assert!(close(of(180, &LATENCY_P99), 0.9990), "{:?}", of(180, &LATENCY_P99));
    assert_eq!(of(180, &LATENCY_P99_9), None);
    assert_eq!(of(180, &LATENCY_MAX), None);
    assert!(close(of(200, &LATENCY_P99), 1.0), "{:?}", of(200, &LATENCY_P99));
    assert_eq!(of(201, &LATENCY_P99), None);
    assert!(close(of(201, &LATENCY_P50), 0.5051), "{:?}", of(201, &LATENCY_P50));
    assert_eq!((of(0, &LATENCY_MAX), of(0, &LATENCY_P99_9)), (Some(1.0), Some(0.999)));
}

fn sample(at_ms: u64, pss: u64) -> Sample {
    Sample { at_ms, processes: 1, pss: Some(Bytes(pss)), ..Sample::default() }
}

#[test]
fn the_late_figure_is_the_median_of_the_last_quarter_and_the_final_sample() {
    let observed = Observations {
        samples: vec![sample(100, 900), sample(800, 30), sample(900, 10), sample(1000, 20)],
        window_ms: Some((0, 1000)),
        last: Some(sample(1200, 40)),
        ..Observations::default()
    };
    assert_eq!(of_trial(&observed)[MEMORY_PSS_LATE.id], 25.0);
    assert_eq!(of_trial(&observed)[MEMORY_PSS_PEAK.id], 900.0);
}

/// A command that ran from 0 to 1000 ms.
fn ended_run(samples: Vec<Sample>) -> Observations {
    let run_time = Some(std::time::Duration::from_secs(1));
    let window_ms = Some((0, 1000));
    Observations { samples, window_ms, run_time, ..Observations::default() }
}

#[test]
fn the_memory_of_a_command_that_ended_is_that_of_its_samples() {
    let samples = vec![
        with_peak(0, 1, 2),
        with_peak(500, 90, 95),
        with_peak(800, 40, 97),
        with_peak(900, 50, 97),
    ];
    let found = of_trial(&ended_run(samples.clone()));
    assert_eq!((found[RUN_TIME.id], found[MEMORY_PSS_LATE.id]), (1.0, 45.0));
    assert_eq!((found[MEMORY_PSS_PEAK.id], found[MEMORY_RSS_PEAK.id]), (90.0, 97.0));
    assert!(!found.contains_key(MEMORY_PSS_FINAL.id), "nothing was read at its end");
    assert!(found.keys().all(|id| find(id).unwrap().is_of_runs()), "{found:?}");
    let mut family = samples;
    family[1] = Sample { processes: 2, ..family[1].clone() };
    assert!(!of_trial(&ended_run(family)).contains_key(MEMORY_RSS_PEAK.id), "of several processes");
}

/// A sample of one process.
fn with_peak(at_ms: u64, pss: u64, peak: u64) -> Sample {
    let (rss, rss_peak) = (Some(Bytes(pss)), Some(Bytes(peak)));
    let member = MemberSample { rss, rss_peak, ..MemberSample::default() };
    Sample { rss, rss_peak, members: vec![member], ..sample(at_ms, pss) }
}

#[test]
fn the_memory_of_a_command_without_a_sample_in_its_last_quarter_is_unknown() {
    let found = of_trial(&ended_run(vec![sample(0, 1), sample(700, 90)]));
    assert_eq!(found.keys().collect::<Vec<_>>(), [RUN_TIME.id]);
}

#[test]
fn the_peak_of_a_command_is_the_kernels_and_a_lower_one_of_the_samples_is_noted() {
    let peaks = |samples: Vec<Sample>, kernel: u64| {
        let run = Observations { kernel_peak: Some(Bytes(kernel)), ..ended_run(samples) };
        let found = of_trial(&run);
        let peaks = [&MEMORY_PROCESS_PEAK, &MEMORY_RSS_PEAK, &MEMORY_PSS_PEAK]
            .map(|metric| found.get(metric.id).copied());
        (peaks, run.missed_peak().is_some())
    };
    assert_eq!(peaks(vec![], 153), ([Some(153.0), Some(153.0), None], false));
    let samples = vec![with_peak(0, 1, 1), with_peak(900, 112, 120)];
    assert_eq!(peaks(samples.clone(), 153), ([Some(153.0), Some(153.0), Some(112.0)], true));
    // A process for which nobody waited is larger than any that the kernel's record has.
    assert_eq!(peaks(samples, 40), ([Some(120.0), Some(120.0), Some(112.0)], false));
    let mut family = with_peak(900, 112, 120);
    family.processes = 2;
    assert_eq!(peaks(vec![family], 115), ([Some(120.0), None, Some(112.0)], false));
}

#[test]
fn the_peak_of_a_commands_group_is_noted_where_samples_of_several_processes_missed_it() {
    let run = |processes, charged, peak| {
        let cgroup = CgroupSample { current: Bytes(charged), ..CgroupSample::default() };
        let sampled = Sample { processes, cgroup: Some(cgroup), ..with_peak(900, 112, 112) };
        Observations { group_peak: peak, ..ended_run(vec![sampled]) }
    };
    let missed = run(2, 100, Some(Bytes(105)));
    assert_eq!(of_trial(&missed)[MEMORY_GROUP_PEAK.id], 105.0);
    assert!(missed.missed_peak().unwrap().contains("processes together"));
    assert_eq!(run(2, 100, Some(Bytes(104))).missed_peak(), None);
    assert_eq!(run(1, 100, Some(Bytes(150))).missed_peak(), None, "a process has its own record");
    assert!(!of_trial(&run(2, 100, None)).contains_key(MEMORY_GROUP_PEAK.id));
}

#[test]
fn what_was_not_observed_is_left_out_and_never_zero() {
    assert!(of_trial(&Observations::default()).is_empty());
}

#[test]
fn the_figures_of_a_ledger_are_those_after_the_last_request() {
    let cluster = tree(&[ruby(10, 1), ruby(11, 10), ruby(12, 10)]);
    let last = Sample { ledger: Some(Box::new(cluster)), ..sample(1200, 40) };
    let found = of_trial(&Observations { last: Some(last.clone()), ..Observations::default() });
    assert_eq!(found[MEMORY_PER_INSTANCE.id], 20.0);
    assert_eq!((found[HEAP_SLOTS_FREE.id], found[HEAP_PAGES_FREE.id]), (0.25, 0.1));
    assert_eq!((found[MALLOC_FREE.id], found[MALLOC_FREE_SHARE.id]), (90.0, 0.3));
    let unknown = Sample { pss: None, ledger: Some(Box::default()), ..last };
    let found = of_trial(&Observations { last: Some(unknown), ..Observations::default() });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn memory_that_others_freed_meanwhile_makes_a_negative_figure_and_no_gap() {
    let available = (Some(Bytes(1)), Some(Bytes(3)));
    let freed = Observations { available, ..Observations::default() };
    assert_eq!(of_trial(&freed)[MEMORY_SYSTEM_FINAL.id], -2.0);
}
