//! The last round as OpenMetrics text (github.com/prometheus/OpenMetrics, version 1.0.0).

use carat_model::Bytes;
use carat_model::ledger::PartKind;
use carat_model::watch::{EndCause, GroupSample, WatchCensus, WatchSample, WatchedProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What the media type of a response must be.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Characters of the value of a label that a process chose.
const VALUE: usize = 120;

/// One process.
#[derive(Debug, Clone, Copy)]
pub struct MetricProcess<'a> {
    pub process: &'a WatchedProcess,
    pub sample: Option<&'a WatchSample>,
    /// Bytes per second over the last hour; `None` where that is too short.
    pub growth: Option<f64>,
    pub census: Option<&'a WatchCensus>,
    /// The latest proportional and private memory, which are not in every sample.
    pub proportional: Option<(Bytes, Bytes)>,
}

/// Everything that is told.
#[derive(Debug, Clone, Default)]
pub struct MetricState<'a> {
    pub processes: Vec<MetricProcess<'a>>,
    pub groups: Vec<&'a GroupSample>,
    /// Ends since the watch began, by the name of the server and the cause.
    pub ends: BTreeMap<(String, &'static str), u64>,
    /// Classes that are told of each process, the largest first.
    pub classes: usize,
    pub rounds: u64,
    pub cpu_seconds: f64,
    pub store_bytes: Option<u64>,
}

/// The word for a cause in a label.
pub fn cause_label(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Oom => "oom",
        EndCause::ProbablyOom => "probably_oom",
        EndCause::Signal(_) => "signal",
        EndCause::Exited(_) => "exited",
        EndCause::Unknown => "unknown",
        EndCause::Replaced => "replaced",
        EndCause::Unwatched => "unwatched",
    }
}

/// The text, which ends with `# EOF`.
pub fn metrics_text(state: &MetricState<'_>) -> String {
    let mut out = String::new();
    let labels = labels(&state.processes);
    let mut gauge =
        |name: &str, unit: &str, help: &str, of: &dyn Fn(&MetricProcess<'_>) -> Option<f64>| {
            let mut samples = String::new();
            for (one, labels) in state.processes.iter().zip(&labels) {
                // Unknown is left out: a zero would be a figure.
                if let Some(value) = of(one) {
                    let _ = writeln!(samples, "{name}{{{labels}}} {value}");
                }
            }
            family(&mut out, (name, "gauge", unit, help), &samples);
        };
    let bytes = |amount: Option<Bytes>| amount.map(|amount| amount.0 as f64);
    gauge("ruby_process_resident_bytes", "bytes", "Resident memory.", &|one| {
        bytes(one.sample?.rss)
    });
    gauge("ruby_process_pss_bytes", "bytes", "Proportional memory.", &|one| {
        Some(one.proportional?.0.0 as f64)
    });
    gauge("ruby_process_private_bytes", "bytes", "Memory that only it maps.", &|one| {
        Some(one.proportional?.1.0 as f64)
    });
    gauge("ruby_process_swap_bytes", "bytes", "Memory in swap.", &|one| bytes(one.sample?.swap));
    gauge("ruby_process_threads", "", "Threads.", &|one| one.sample?.threads.map(f64::from));
    gauge(
        "ruby_process_growth_bytes_per_second",
        "bytes_per_second",
        "Growth of resident memory and swap over the last hour.",
        &|one| one.growth,
    );
    parts(&mut out, state, &labels);
    classes(&mut out, state, &labels);
    groups(&mut out, state);
    own(&mut out, state);
    out.push_str("# EOF\n");
    out
}

/// Adds a family; not one without samples, which some readers do not accept.
fn family(out: &mut String, (name, kind, unit, help): (&str, &str, &str, &str), samples: &str) {
    if samples.is_empty() {
        return;
    }
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
    out.push_str(samples);
}

/// The labels of every process, each different: those that would be equal have the pid too, and others not, because a label
/// that changes with every restart makes another series of each.
fn labels(all: &[MetricProcess<'_>]) -> Vec<String> {
    let plain: Vec<String> = all.iter().map(|one| plain_labels(one.process)).collect();
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&String> = plain.iter().filter(|labels| !seen.insert(*labels)).collect();
    let one = |(labels, one): (&String, &MetricProcess<'_>)| match twice.contains(labels) {
        true => format!("{labels},pid=\"{}\"", one.process.pid),
        false => labels.clone(),
    };
    plain.iter().zip(all).map(one).collect()
}

fn plain_labels(process: &WatchedProcess) -> String {
    let server = &process.server;
    let role = process.role.word();
    let worker = process.worker.map(|worker| worker.to_string()).unwrap_or_default();
    format!(
        "server=\"{}\",app=\"{}\",role=\"{role}\",worker=\"{worker}\"",
        escaped(&server.program),
        escaped(server.app.as_deref().unwrap_or_default())
    )
}

/// The value of a label: a process chose it, so it may hold anything.
fn escaped(text: &str) -> String {
    whole(&text.chars().filter(|c| !c.is_control()).take(VALUE).collect::<String>())
}

/// The same in full: the paths of control groups are long, and may differ only at their ends.
fn whole(text: &str) -> String {
    // A line feed would end the line, and with it the series.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn parts(out: &mut String, state: &MetricState<'_>, labels: &[String]) {
    let name = "ruby_process_part_bytes";
    let mut samples = String::new();
    for (one, labels) in state.processes.iter().zip(labels) {
        for (kind, bytes) in one.census.iter().flat_map(|census| &census.parts) {
            let _ = writeln!(samples, "{name}{{{labels},part=\"{}\"}} {}", word(*kind), bytes.0);
        }
    }
    let help = "Proportional memory by part, at the last reading.";
    family(out, (name, "gauge", "bytes", help), &samples);
}

fn word(kind: PartKind) -> String {
    // The word of the JSON exports, so that one part has one name everywhere.
    let json = serde_json::to_string(&kind).unwrap_or_default();
    json.trim_matches('"').to_owned()
}

fn classes(out: &mut String, state: &MetricState<'_>, labels: &[String]) {
    if state.classes == 0 {
        return;
    }
    let name = "ruby_process_class_objects";
    let mut samples = String::new();
    for (one, labels) in state.processes.iter().zip(labels) {
        let mut told = BTreeSet::new();
        let classes = one.census.iter().flat_map(|census| &census.classes);
        for class in classes.take(state.classes) {
            let label = escaped(&class.name);
            // Names that are cut off, or of two classes, can be equal.
            if told.insert(label.clone()) {
                let _ = writeln!(samples, "{name}{{{labels},class=\"{label}\"}} {}", class.objects);
            }
        }
    }
    let help = "Objects of the largest classes, at the last reading.";
    family(out, (name, "gauge", "", help), &samples);
}

fn groups(out: &mut String, state: &MetricState<'_>) {
    type Figure = fn(&GroupSample) -> Option<u64>;
    let figures: [(&str, &str, &str, &str, &str, Figure); 3] = [
        (
            "ruby_group_used_bytes",
            "",
            "gauge",
            "bytes",
            "What counts against the nearest limit of the control group.",
            |one| Some(one.used?.0),
        ),
        (
            "ruby_group_limit_bytes",
            "",
            "gauge",
            "bytes",
            "The nearest limit of the control group.",
            |one| Some(one.limit?.0),
        ),
        (
            "ruby_group_oom_kills",
            "_total",
            "counter",
            "",
            "Processes of the control group that the kernel killed for lack of memory.",
            |one| one.oom_kills,
        ),
    ];
    for (name, ending, kind, unit, help, figure) in figures {
        let mut samples = String::new();
        for group in &state.groups {
            if let Some(value) = figure(group) {
                let group = whole(&group.group);
                let _ = writeln!(samples, "{name}{ending}{{group=\"{group}\"}} {value}");
            }
        }
        family(out, (name, kind, unit, help), &samples);
    }
}

fn own(out: &mut String, state: &MetricState<'_>) {
    let mut samples = String::new();
    for ((server, cause), number) in &state.ends {
        let server = escaped(server);
        let labels = format!("server=\"{server}\",cause=\"{cause}\"");
        let _ = writeln!(samples, "ruby_process_ends_total{{{labels}}} {number}");
    }
    let help = "Processes that ended, by cause.";
    family(out, ("ruby_process_ends", "counter", "", help), &samples);
    let rounds = format!("carat_watch_rounds_total {}\n", state.rounds);
    family(out, ("carat_watch_rounds", "counter", "", "Rounds of the watch."), &rounds);
    let cpu = format!("carat_watch_cpu_seconds_total {}\n", state.cpu_seconds);
    let help = "Processor time of the watch.";
    family(out, ("carat_watch_cpu_seconds", "counter", "seconds", help), &cpu);
    let size = state.store_bytes.map(|bytes| format!("carat_watch_store_bytes {bytes}\n"));
    let help = "The size of the store.";
    family(out, ("carat_watch_store_bytes", "gauge", "bytes", help), &size.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::host::{ProcessRole, ServerName};
    use carat_model::watch::WatchedClass;

    fn process(pid: u32, app: &str, worker: Option<u32>) -> WatchedProcess {
        let server = ServerName { program: "puma".into(), version: None, app: Some(app.into()) };
        WatchedProcess { pid, server, role: ProcessRole::Worker, worker, ..Default::default() }
    }

    fn census() -> WatchCensus {
        let class =
            |name: &str| WatchedClass { name: name.into(), objects: 7, ..Default::default() };
        WatchCensus {
            parts: vec![(PartKind::MallocLive, Bytes(9))],
            classes: vec![class("String"), class("String"), class("Hash")],
            ..WatchCensus::default()
        }
    }

    #[test]
    fn names_units_and_labels_are_as_the_convention_has_them_and_unknown_is_left_out() {
        let (one, other) = (process(1, "bl\"og\n", Some(0)), process(2, "blog", None));
        let third = process(3, "blog", None);
        let sample = WatchSample { rss: Some(Bytes(5)), ..WatchSample::default() };
        let census = census();
        let of = |process, sample| MetricProcess {
            process,
            sample,
            growth: None,
            census: Some(&census),
            proportional: Some((Bytes(4), Bytes(3))),
        };
        let group = GroupSample { group: "/app".into(), oom_kills: Some(2), ..Default::default() };
        // Two containers of one pod.
        let pod =
            |end: &str| format!("/kubepods.slice/{}/cri-containerd-{end}.scope", "pod".repeat(40));
        let [long, longer] = ["1", "2"].map(|end| GroupSample { group: pod(end), ..group.clone() });
        let state = MetricState {
            processes: vec![of(&one, Some(&sample)), of(&other, None), of(&third, None)],
            groups: vec![&group, &long, &longer],
            ends: [(("puma".to_owned(), "oom"), 1)].into(),
            classes: 2,
            rounds: 3,
            cpu_seconds: 0.5,
            store_bytes: Some(10),
        };
        let text = metrics_text(&state);
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "# TYPE ruby_process_resident_bytes gauge",
            "# UNIT ruby_process_resident_bytes bytes",
            "ruby_process_resident_bytes{server=\"puma\",app=\"bl\\\"og\",role=\"worker\",worker=\"0\"} 5",
            "ruby_process_pss_bytes{server=\"puma\",app=\"blog\",role=\"worker\",worker=\"\",pid=\"3\"} 4",
            "ruby_group_oom_kills_total{group=\"/app\"} 2",
            "ruby_process_ends_total{server=\"puma\",cause=\"oom\"} 1",
            "carat_watch_cpu_seconds_total 0.5",
        ] {
            assert!(lines.contains(&expected), "no `{expected}` in:\n{text}");
        }
        assert!(text.contains("part=\"malloc_live\"} 9") && text.ends_with("# EOF\n"));
        let resident = lines.iter().filter(|line| line.starts_with("ruby_process_resident_bytes{"));
        assert_eq!(resident.count(), 1, "unknown is no zero");
        let strings = lines.iter().filter(|line| line.contains("class=\"String\""));
        assert_eq!(strings.count(), 3, "once for each process");
        let mut series: Vec<&str> = lines
            .iter()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' ').map(|parts| parts.0))
            .collect();
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), all, "no series twice");
    }
}
