//! Writes the experiment that would test the findings about a ledger.

use crate::config::read_text_file;
use crate::input::app::{AppFolder, app_text};
use crate::input::experiment_text::{ExperimentText, VariantText, quoted};
use crate::input::import::CaratFile;
use crate::input::running::{RunningApp, answers_requests, with_absolute_paths, works_on_jobs};
use carat_analysis::Finding;
use carat_load::target::split_url;
use carat_model::ledger::ProcessLedger;
use carat_model::recording::RecordedLoad;
use carat_model::{Ledger, metric};
use carat_proc::process::ProcRoot;
use std::path::Path;

/// Why no experiment can be suggested.
#[derive(Debug, thiserror::Error)]
pub enum SuggestError {
    /// Nothing to compare.
    #[error("no finding names a setting, so there is nothing to compare")]
    NoSetting,
    /// Nothing to start.
    #[error("the ledger has no process, so there is no command to start")]
    NoProcess,
    /// Nothing to send.
    #[error(
        "it works on jobs, and a load of jobs is written by hand: see docs/reference/load.md; the settings to compare are {0}"
    )]
    Jobs(String),
}

/// What is known of how a server was started and loaded, besides its ledger.
#[derive(Debug, Clone, Default)]
pub struct KnownServer {
    /// Program and arguments; empty if unknown.
    command: Vec<String>,
    load: Option<RecordedLoad>,
    /// The experiment file of results, and the variant that is explained.
    plan: Option<(String, String)>,
    /// What is in the folder of a running server.
    app: Option<RunningApp>,
}

impl KnownServer {
    /// What the folder of a running process says.
    pub fn running(root: &ProcRoot, pid: u32) -> Self {
        Self { app: RunningApp::of(root, pid), ..Self::default() }
    }

    /// What a file says. `variant` chooses among results; without it the baseline.
    pub fn of(file: &CaratFile, variant: Option<&str>) -> Self {
        match file {
            CaratFile::Recording(recording) => Self {
                command: recording.info.command.clone(),
                load: recording.load().cloned(),
                ..Self::default()
            },
            CaratFile::Stored(results) | CaratFile::Exported(results) => {
                let baseline = results.info.variants.first().map(|variant| variant.name.as_str());
                let variant = variant.or(baseline).unwrap_or_default().to_owned();
                Self { plan: Some((results.info.plan_text.clone(), variant)), ..Self::default() }
            }
        }
    }
}

/// A variant to compare: its name, the setting and the value.
type SuggestedVariant<'a> = (&'a str, &'a str, &'a str);

/// The text of an experiment file with one variant for every finding that names a setting, in their order.
///
/// # Errors
/// If no finding names a setting, the ledger has no process, or no request reaches it.
pub fn suggested_experiment(
    ledger: &Ledger,
    findings: &[Finding],
    known: &KnownServer,
) -> Result<String, SuggestError> {
    let named = findings.iter().filter_map(|finding| {
        let (name, value) = finding.setting.as_ref()?;
        Some((finding.code, *name, value.as_str()))
    });
    let variants: Vec<SuggestedVariant<'_>> = named.collect();
    if variants.is_empty() {
        return Err(SuggestError::NoSetting);
    }
    let planned = known.plan.as_ref();
    // The results know the whole workload, so their plan is the better start.
    if let Some(text) = planned.and_then(|(plan, base)| of_plan(plan, base, &variants, None)) {
        return Ok(text);
    }
    let leader = ledger.processes.first().ok_or(SuggestError::NoProcess)?;
    if known.command.is_empty() && works_on_jobs(&leader.title) {
        let settings = variants.iter().map(|(_, name, value)| format!("{name} = {value}"));
        return Err(SuggestError::Jobs(settings.collect::<Vec<_>>().join(", ")));
    }
    // A script that runs in the folder of an app is none of its servers.
    match known.app.as_ref().filter(|_| answers_requests(&leader.title)) {
        Some(RunningApp::Planned { folder, plan, baseline }) => {
            if let Some(text) =
                of_plan(plan, baseline, &variants, Some((folder, puma_workers(ledger))))
            {
                return Ok(text);
            }
        }
        Some(RunningApp::Found { folder, app }) => {
            return Ok(of_app(app, folder, &variants, ledger));
        }
        None => {}
    }
    Ok(of_command(&leader.title, ledger.processes.len(), &variants, known))
}

/// An experiment with the command of a recording, or the one that a title looks like.
fn of_command(
    title: &str,
    processes: usize,
    variants: &[SuggestedVariant<'_>],
    known: &KnownServer,
) -> String {
    let comments = match known.command.is_empty() {
        true => [
            "Suggested by `carat explain`. How a server was started cannot be read from outside:",
            "check the command, the path and the number of requests before `carat compare`.",
        ],
        false => [
            "Suggested by `carat explain`. Command and load are those of the recording: check the folder, the",
            "environment and the number of requests before `carat compare`.",
        ],
    };
    let port = known.load.as_ref().and_then(|load| port_of(&load.url));
    let command = match known.command.as_slice() {
        [] => probable_command(title),
        words => words.iter().map(|word| with_port(word, port)).collect(),
    };
    let as_it_is = VariantText { name: "as-it-is".into(), ..VariantText::default() };
    let suggested = variants.iter().map(|(code, name, value)| VariantText {
        name: (*code).to_owned(),
        comment: None,
        line: Some(format!("settings = {{ {} = {} }}", quoted(name), quoted(value))),
    });
    let text = ExperimentText {
        comments: comments.map(str::to_owned).to_vec(),
        name: "suggested".into(),
        command,
        environment: vec![("PORT".into(), "{port}".into())],
        dir: None,
        ready: known.load.as_ref().map(|load| path_of(&load.url)),
        within: None,
        load: load_text(known.load.as_ref()),
        variants: std::iter::once(as_it_is).chain(suggested).collect(),
        // Of one process RSS is exact and cheap; of several it counts shared pages twice.
        primary: match processes {
            0 | 1 => metric::MEMORY_RSS_FINAL.id,
            _ => metric::MEMORY_PSS_FINAL.id,
        },
        guard: (metric::LATENCY_P95.id, "+5%"),
    };
    text.text()
}

/// The experiment that `carat init` would write for the app, with other variants.
fn of_app(
    app: &AppFolder,
    folder: &Path,
    variants: &[SuggestedVariant<'_>],
    ledger: &Ledger,
) -> String {
    let mut text = app_text(app, Some(folder));
    text.comments = [
        "Suggested by `carat explain`, for the app in the folder of the server. How the server was started cannot be read from",
        "outside: check command, environment, page and number of requests before `carat compare`. `carat init` there says more.",
    ]
    .map(str::to_owned)
    .to_vec();
    text.name = "suggested".into();
    let workers = puma_workers(ledger);
    if let Some(workers) = workers {
        // Puma reads it where its configuration names no number, and what Rails generates reads it too.
        text.environment.push((WORKERS.into(), workers.to_string()));
        text.ready = text.ready.or_else(|| app.path());
    }
    let as_it_is = VariantText { name: "as-it-is".into(), ..VariantText::default() };
    let is_puma = text.command.iter().any(|word| word == "puma");
    let suggested = variants.iter().map(|(code, name, value)| {
        let settings = format!("settings = {{ {} = {} }}", quoted(name), quoted(value));
        let mut variant =
            VariantText { name: (*code).to_owned(), comment: None, line: Some(settings.clone()) };
        if *name == "prepare_fork" && !app.preloads(workers) {
            variant.comment =
                Some("It prepares a fork of the loaded app, so the app is loaded before.".into());
            let command = text.command.iter().map(|word| quoted(word));
            let command = command.chain(is_puma.then(|| quoted("--preload")));
            let command = toml::Value::Array(command.collect());
            variant.line = Some(format!("command = {command}\n{settings}"));
        }
        variant
    });
    text.variants = std::iter::once(as_it_is).chain(suggested).collect();
    text.text()
}

/// How Puma's worker begins its title, and the variable that has the number of workers.
const PUMA_WORKER: &str = "puma: cluster worker ";
const WORKERS: &str = "WEB_CONCURRENCY";

/// Workers that the first process of a ledger has, if it is Puma's master.
fn puma_workers(ledger: &Ledger) -> Option<u32> {
    let master = ledger.processes.first()?.pid;
    let is_worker =
        |one: &&ProcessLedger| one.title.starts_with(PUMA_WORKER) && one.parent == Some(master);
    let workers = ledger.processes.iter().filter(is_worker).count();
    u32::try_from(workers).ok().filter(|workers| *workers > 0)
}

/// The experiment of results, or of a folder and so many workers of Puma, with other variants: the explained one, and the same
/// with each setting.
fn of_plan(
    plan: &str,
    base: &str,
    variants: &[SuggestedVariant<'_>],
    folder: Option<(&Path, Option<u32>)>,
) -> Option<String> {
    // The plan as text: only variants change, and everything else stays as it was measured.
    let mut table: toml::Table = plan.parse().ok()?;
    let known = table.remove("variant")?;
    let is_base = |one: &&toml::Value| one.get("name").and_then(toml::Value::as_str) == Some(base);
    let mut base = known.as_array()?.iter().find(is_base)?.as_table()?.clone();
    // It compares with a variant that is left out.
    base.remove("control");
    let mut all = vec![renamed(&base, "as-it-is", None)];
    all.extend(
        variants.iter().map(|(code, name, value)| renamed(&base, code, Some((name, value)))),
    );
    if let Some((folder, workers)) = folder {
        with_absolute_paths(&mut table, folder);
        let server = table.get_mut("server").and_then(toml::Value::as_table_mut);
        if let (Some(server), Some(workers)) = (server, workers) {
            let empty = || toml::Value::Table(toml::Table::new());
            let variables = server.entry("env").or_insert_with(empty).as_table_mut()?;
            variables.entry(WORKERS).or_insert_with(|| quoted(&workers.to_string()));
        }
    }
    table.insert("name".into(), quoted("suggested"));
    table.insert("variant".into(), toml::Value::Array(all));
    let text = toml::to_string(&table).ok()?;
    let comment = match folder {
        None => {
            "# Suggested by `carat explain`: the experiment of these results with other variants. Relative paths are\n\
             # relative to the folder of this file."
        }
        Some(_) => {
            "# Suggested by `carat explain`: the experiment carat.toml in the folder of the server, with other variants."
        }
    };
    Some(format!("{comment}\n{text}"))
}

fn renamed(base: &toml::Table, name: &str, setting: Option<(&str, &str)>) -> toml::Value {
    let mut variant = base.clone();
    variant.insert("name".into(), quoted(name));
    if let Some((name, value)) = setting {
        let empty = || toml::Value::Table(toml::Table::new());
        let settings = variant.entry("settings").or_insert_with(empty).as_table_mut();
        settings.into_iter().for_each(|table| {
            // The suggestion wins over what the variant had.
            table.insert(name.to_owned(), quoted(value));
        });
    }
    toml::Value::Table(variant)
}

/// The table `[load.http]`: the recorded load, or one to be filled in.
fn load_text(load: Option<&RecordedLoad>) -> String {
    let Some(load) = load else {
        return "[load.http]\npath = \"/\"\nconnections = 8\nrequests = 6000\n".to_owned();
    };
    let plan = &load.plan;
    // A load that ended by time is as long as what it sent.
    let sent = load.report.as_ref().map(|report| report.completed + report.errors);
    let requests = plan.requests.or(sent).filter(|requests| *requests > 0).unwrap_or(6000);
    let scenarios = plan.scenario.as_deref().map(Path::new);
    let mut http = scenarios.and_then(scenario_table).unwrap_or_else(|| {
        let (key, value) = match plan.replay.as_deref().map(std::path::absolute) {
            // Absolute, because the new file will be in another folder.
            Some(Ok(file)) => ("replay", file.display().to_string()),
            _ => ("path", path_of(&load.url)),
        };
        toml::Table::from_iter([(key.to_owned(), quoted(&value))])
    });
    http.insert("connections".into(), i64::from(plan.connections.unwrap_or(8)).into());
    http.insert("requests".into(), i64::try_from(requests).unwrap_or(i64::MAX).into());
    http.extend(plan.rate.map(|rate| ("rate".to_owned(), toml::Value::Float(rate))));
    let table = toml::Table::from_iter([("http".to_owned(), toml::Value::Table(http))]);
    let table = toml::Table::from_iter([("load".to_owned(), toml::Value::Table(table))]);
    let text = toml::to_string(&table).unwrap_or_default();
    match scenarios.filter(|_| !text.contains("scenario")) {
        Some(lost) => {
            format!("# {} cannot be read any more: add its scenarios\n{text}", lost.display())
        }
        None => text,
    }
}

/// The scenarios of a file with what belongs to them, as keys of `[load.http]`.
fn scenario_table(file: &Path) -> Option<toml::Table> {
    let mut whole: toml::Table = read_text_file(file).ok()?.parse().ok()?;
    let inner = whole.get("load").and_then(|load| load.get("http")?.as_table()).cloned();
    let mut found = inner.unwrap_or_else(|| std::mem::take(&mut whole));
    found.retain(|key, _| ["scenario", "data", "headers"].contains(&key));
    if let Some(toml::Value::String(data)) = found.get_mut("data") {
        // A data file lies beside the scenarios that name it.
        let beside = file.parent().unwrap_or(Path::new("")).join(&*data);
        *data = std::path::absolute(beside).ok()?.display().to_string();
    }
    found.contains_key("scenario").then_some(found)
}

/// The port that a URL names.
fn port_of(url: &str) -> Option<u16> {
    split_url(url).0.rsplit(':').next()?.parse().ok()
}

fn path_of(url: &str) -> String {
    split_url(url).1.to_owned()
}

/// A word of a command with `{port}` in place of the port that the load went to.
fn with_port(word: &str, port: Option<u16>) -> String {
    let Some(port) = port.map(|port| port.to_string()) else { return word.to_owned() };
    let (mut text, mut rest) = (String::new(), word);
    while let Some(at) = rest.find(&port) {
        let (before, after) = (&rest[..at], &rest[at + port.len()..]);
        // `9292` within `19292` is another number.
        let alone = !before.ends_with(|c: char| c.is_ascii_digit())
            && !after.starts_with(|c: char| c.is_ascii_digit());
        text.push_str(before);
        text.push_str(if alone { "{port}" } else { &port });
        rest = after;
    }
    text + rest
}

/// The process title as a command. Puma and others overwrite their command line with a title; then it is a guess.
fn probable_command(title: &str) -> Vec<String> {
    if title.starts_with("puma ") && title.contains('(') {
        return ["puma", "-C", "config/puma.rb"].map(str::to_owned).to_vec();
    }
    title.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;
    use carat_model::recording::RecordedLoadPlan;
    use std::path::Path;

    fn finding(code: &'static str, setting: Option<(&'static str, String)>) -> Finding {
        Finding {
            code,
            evidence: String::new(),
            remedy: String::new(),
            setting,
            shrinks: Vec::new(),
            at_most: None,
        }
    }

    fn ledger(title: &str) -> Ledger {
        let text = format!(
            r#"{{"pid":1,"parent":null,"title":"{title}","rss":1,"pss":1,"uss":1,"swap":null,"huge":null,
            "threads":1,"basis":"proc_only","parts":[],"unexplained":0,"ruby":null,"heap":null,"returnable":null,"arenas":[],
            "allocator":{{"active":null,"loaded":[],"evidence":""}},"environment":[]}}"#
        );
        Ledger { processes: vec![serde_json::from_str(&text).unwrap()], ..Ledger::default() }
    }

    #[test]
    fn a_suggested_experiment_is_valid() {
        let findings = [
            finding("arenas", Some(("arena_max", "2".into()))),
            finding("slots-free", Some(("compact", "boot".into()))),
            finding("swap", None),
        ];
        for title in
            ["puma 5.6.5 (tcp://127.0.0.1:3000) [app]", "ruby server.rb --name \\\"x y\\\""]
        {
            let text =
                suggested_experiment(&ledger(title), &findings, &KnownServer::default()).unwrap();
            let plan = Experiment::parse(&text, Path::new("s.toml"), Path::new("."))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(plan.variants.len(), 3, "{text}");
        }
    }

    #[test]
    fn without_a_setting_no_experiment_is_suggested() {
        let known = KnownServer::default();
        assert!(suggested_experiment(&ledger("x"), &[finding("swap", None)], &known).is_err());
    }

    fn suggested(known: &KnownServer) -> (String, Experiment) {
        let findings = [
            finding("fork-not-prepared", Some(("prepare_fork", "full".into()))),
            finding("allocator", Some(("allocator", "jemalloc".into()))),
        ];
        let text = suggested_experiment(&ledger("puma: cluster"), &findings, known).unwrap();
        let plan = Experiment::parse(&text, Path::new("s.toml"), Path::new("."))
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        (text, plan)
    }

    #[test]
    fn a_recording_gives_command_url_and_load_and_findings_keep_their_order() {
        let plan = RecordedLoadPlan {
            connections: Some(3),
            requests: Some(500),
            rate: Some(20.0),
            ..RecordedLoadPlan::default()
        };
        let load =
            RecordedLoad { url: "http://127.0.0.1:9292/hello?x=1".into(), report: None, plan };
        let command = ["puma", "-b", "tcp://127.0.0.1:9292", "-t", "19292"].map(str::to_owned);
        let known =
            KnownServer { command: command.to_vec(), load: Some(load), ..KnownServer::default() };
        let (text, plan) = suggested(&known);
        for line in [
            "command = [\"puma\", \"-b\", \"tcp://127.0.0.1:{port}\", \"-t\", \"19292\"]",
            "ready   = { http = \"/hello?x=1\" }",
            "path = \"/hello?x=1\"",
            "connections = 3",
            "requests = 500",
            "rate = 20.0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let names: Vec<&str> = plan.variants.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["as-it-is", "fork-not-prepared", "allocator"]);
    }

    #[test]
    fn the_scenarios_of_a_recording_are_in_the_experiment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("login.toml");
        let scenario = "data = 'u.csv'\n[[scenario]]\nname = 's'\nsteps = [{ get = '/login', once = true }, { get = '/' }]";
        std::fs::write(&file, scenario).unwrap();
        std::fs::write(folder.path().join("u.csv"), "name\nann\n").unwrap();
        let plan = RecordedLoadPlan {
            scenario: Some(file.display().to_string()),
            ..RecordedLoadPlan::default()
        };
        let load = RecordedLoad { url: "http://127.0.0.1:9292/".into(), report: None, plan };
        let known = KnownServer {
            command: vec!["puma".into()],
            load: Some(load),
            ..KnownServer::default()
        };
        let (text, _) = suggested(&known);
        assert!(text.contains("once = true") && text.contains("u.csv"), "{text}");
        std::fs::remove_file(&file).unwrap();
        let (text, _) = suggested(&known);
        assert!(text.contains("login.toml cannot be read any more"), "{text}");
    }

    /// A Puma cluster with two workers.
    fn cluster() -> Ledger {
        let mut all = ledger("puma 5.6.5 (tcp://127.0.0.1:3000) [shop]");
        for pid in [2, 3] {
            let mut worker = ledger("puma: cluster worker 0: 1 [shop]").processes.remove(0);
            (worker.pid, worker.parent) = (pid, Some(1));
            all.processes.push(worker);
        }
        all
    }

    fn suggested_in(folder: &Path, ledger: &Ledger) -> Result<(String, Experiment), SuggestError> {
        let findings = [
            finding("sharing-eroded", Some(("prepare_fork", "full".into()))),
            finding("arenas", Some(("arena_max", "2".into()))),
        ];
        let app = RunningApp::in_folder(folder.to_owned());
        let known = KnownServer { app, ..KnownServer::default() };
        let text = suggested_experiment(ledger, &findings, &known)?;
        let plan = Experiment::parse(&text, Path::new("s.toml"), Path::new("/elsewhere"))
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        Ok((text, plan))
    }

    #[test]
    fn a_server_in_the_folder_of_an_app_is_started_as_the_app_is_with_as_many_workers_and_is_preloaded_for_a_prepared_fork()
     {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("config.ru", "run App");
        write("puma.rb", "workers ENV.fetch('WEB_CONCURRENCY', 0)");
        let (text, plan) = suggested_in(folder.path(), &cluster()).unwrap();
        assert_eq!(plan.server.env["WEB_CONCURRENCY"], "2", "{text}");
        assert_eq!(plan.server.dir.as_deref(), Some(folder.path()));
        assert_eq!(plan.server.command.words()[..3], ["puma", "-C", "puma.rb"]);
        let preloads = |at: usize| {
            let command = plan.variants[at].command.as_ref();
            command.is_some_and(|command| {
                command.words().last().is_some_and(|word| word == "--preload")
            })
        };
        assert_eq!((preloads(0), preloads(1), preloads(2)), (false, true, false), "{text}");
        write("puma.rb", "workers 2\npreload_app!");
        let (text, _) = suggested_in(folder.path(), &cluster()).unwrap();
        assert!(!text.contains("--preload"), "{text}");
    }

    #[test]
    fn the_experiment_of_the_folder_is_used_for_a_server_but_not_for_a_script_and_jobs_are_refused()
    {
        let folder = tempfile::tempdir().unwrap();
        let plan = "name = 'x'\n[server]\ncommand = ['puma', 'a.ru']\nready = { tcp = true }\n[load.http]\npath = '/p'\n\
                    [[variant]]\nname = 'now'\n[[variant]]\nname = 'y'\nsettings = { arena_max = 2 }\n";
        std::fs::write(folder.path().join("carat.toml"), plan).unwrap();
        let (text, plan) = suggested_in(folder.path(), &cluster()).unwrap();
        assert!(text.contains("carat.toml") && text.contains("path = \"/p\""), "{text}");
        assert_eq!(plan.server.dir.as_deref(), Some(folder.path()));
        assert_eq!((plan.variants.len(), plan.server.env["WEB_CONCURRENCY"].as_str()), (3, "2"));
        let (text, _) = suggested_in(folder.path(), &ledger("ruby import.rb")).unwrap();
        assert!(text.contains("[\"ruby\", \"import.rb\"]"), "{text}");
        let jobs = suggested_in(folder.path(), &ledger("sidekiq 6.4.1 shop [0 of 5 busy]"));
        let said = jobs.unwrap_err().to_string();
        assert!(said.contains("prepare_fork = full, arena_max = 2"), "{said}");
    }

    #[test]
    fn results_give_their_experiment_with_the_explained_variant_as_baseline() {
        let plan = "name = 'old'\n[server]\ncommand = ['ruby', 'x.rb']\nready = { tcp = true }\n[load.http]\npath = '/p'\n\
                    [[variant]]\nname = 'default'\n[[variant]]\nname = 'arenas'\nsettings = { arena_max = 2 }\n";
        let known = KnownServer {
            plan: Some((plan.to_owned(), "arenas".to_owned())),
            ..KnownServer::default()
        };
        let (text, plan) = suggested(&known);
        assert_eq!(
            (plan.variants.len(), plan.variants[0].name.as_str()),
            (3, "as-it-is"),
            "{text}"
        );
        let table: toml::Table = text.parse().unwrap();
        let settings: Vec<String> = table["variant"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variant| variant["settings"].to_string())
            .collect();
        assert!(settings.iter().all(|one| one.contains("arena_max")), "{settings:?}");
        assert!(settings[1].contains("prepare_fork") && !settings[0].contains("prepare_fork"));
    }
}
