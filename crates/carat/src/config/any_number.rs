//! Every number that a file can have is parsed or refused in words: nothing that uses it later panics.

use crate::config::{Experiment, TrialTask, TuneSpec};
use proptest::prelude::*;
use std::path::Path;
use std::time::Instant;

/// The table with each of these keys alone.
fn keys(table: &str, keys: &str) -> Vec<String> {
    keys.split(' ').map(|key| format!("[{table}]\n{key} = {{}}\n")).collect()
}

/// A file with a hole for the value of one key, written `KEY = {}`.
fn files() -> Vec<String> {
    let serve = "[server]\ncommand = ['puma']\n";
    let http = "[load.http]\nrequests = 5\n";
    let with_ready = "[server]\ncommand = ['puma']\nready = { tcp = true";
    let mut files = vec![
        format!("{with_ready}, within = {{}} }}\n{http}"),
        format!("{with_ready} }}\nstop_within = {{}}\n{http}"),
        format!(
            "{with_ready} }}\n[services.s]\ncommand = ['s']\nready = {{ tcp = true, within = {{}} }}\n{http}"
        ),
        "[run]\ncommand = ['job']\nwithin = {}\n".to_owned(),
        format!("[run]\ncommand = ['job']\n[prepare]\ncommand = ['p']\nwithin = {{}}\n"),
    ];
    let loads = [
        ("load.http", "requests duration connections threads rate timeout quantum seed errors"),
        (
            "load.cable",
            "steps step_size broadcasts rate payload ramp ready_within timeout quantum threads concurrency",
        ),
        ("load.sidekiq", "jobs duration rate timeout poll retry at_once warmup"),
        ("load.sql_queue", "jobs rate timeout poll at_once warmup"),
    ];
    for (table, names) in loads {
        let fixed = match table {
            "load.sidekiq" => "class = 'A'\n",
            "load.sql_queue" => "class = 'A'\ndatabase = 'sqlite:q'\n",
            _ => "",
        };
        let of_table = keys(table, names).into_iter();
        files
            .extend(of_table.map(|load| format!("{serve}ready = {{ tcp = true }}\n{load}{fixed}")));
    }
    let rest = keys("measure", "sample_every settle idle at_requests")
        .into_iter()
        .chain(keys("trials", "max margin seed attempts"))
        .chain(keys("goal", "margin"))
        .chain(keys("budget", "search confirm attempts"));
    files.extend(rest.map(|table| format!("{serve}ready = {{ tcp = true }}\n{http}{table}")));
    files
}

fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:e}")),
        any::<u32>().prop_map(|number| number.to_string()),
        (0..40_u32).prop_map(|digits| "9".repeat(digits as usize + 1)),
    ];
    (number, prop::sample::select(vec!["", "us", "ms", "s", "m", "h", "%"])).prop_map(
        |(number, unit)| if unit.is_empty() { number } else { format!("'{number}{unit}'") },
    )
}

fn experiment(body: &str) -> Option<Experiment> {
    let variants = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";
    let text = format!("name = 'x'\n{body}{variants}");
    Experiment::parse(&text, Path::new("x.toml"), Path::new(".")).ok()
}

/// Every span of an experiment is added to the clock while it runs.
fn fits_the_clock(experiment: &Experiment) -> bool {
    let within = match &experiment.task {
        TrialTask::Serve { ready, .. } => ready.within,
        TrialTask::Run { within } => *within,
    };
    let measure = &experiment.measure;
    let spans = [within, experiment.server.stop_within, measure.sample_every, measure.settle];
    let commands = experiment.commands().map(|(_, spec)| spec.within);
    let services = experiment.services.values().map(|service| service.ready.within);
    let all = spans.into_iter().chain(measure.idle).chain(commands).chain(services);
    all.into_iter().all(|span| Instant::now().checked_add(span.0).is_some())
}

proptest! {
    #[test]
    fn no_number_in_a_file_panics_when_it_is_parsed_or_used(value in value()) {
        for file in files() {
            let body = file.replace("{}", &value);
            if let Some(experiment) = experiment(&body) {
                prop_assert!(fits_the_clock(&experiment), "{body}");
                let load = experiment.task.generated_load();
                let load = load.map(|load| (load.measured("h:1"), load.warmup("h:1")));
                prop_assert!(serde_json::to_string(&load.map(|(load, _)| load)).is_ok());
            }
            let text = format!("name = 'x'\n{body}");
            let _ = TuneSpec::parse(text, Path::new("x.toml"), Path::new("."));
        }
    }
}
