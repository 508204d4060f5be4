//! From the text of an experiment file to a validated [`Experiment`], in one step.

use crate::config::added::text_with;
use crate::config::content::{planned_content, with_content, without_content};
use crate::config::controls;
use crate::config::error::{explain_toml, other_command};
use crate::config::experiment::ROOTS_PLACEHOLDER;
use crate::config::file::{ExperimentTable, MeasureTable, ServiceTable, TrialsTable, VariantTable};
use crate::config::task::{command, readiness, task};
use crate::config::{
    CommandLine, Experiment, ExperimentFileError, MeasureSpec, ServiceSpec, TrialLimits, TrialLoad,
    TrialTask, VariantSpec,
};
use carat_load::LoadContent;
use carat_model::metric::find_metric;
use carat_model::metric::{self, Metric};
use carat_model::{LoadTemplate, is_printable};
use carat_settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest name of an experiment or variant, in bytes.
const NAME_BYTES: usize = 64;
/// Most attempts among which a confirmation shares its error.
pub(super) const MOST_ATTEMPTS: u32 = 100;
/// Most blocks of an experiment.
pub(super) const MOST_BLOCKS: u32 = 10_000;

impl Experiment {
    /// Reads a file.
    ///
    /// # Errors
    /// Where the file cannot be read or is not a valid experiment.
    pub fn read(path: &Path) -> Result<Self, ExperimentFileError> {
        Self::read_with(path, &[], None)
    }

    /// Reads a file as if its `[server]` or `[run]` table began with these settings, which are names and values. Relative
    /// directories start from `folder`, or from that of the file.
    ///
    /// # Errors
    /// Where the file cannot be read, has no such line, or is not a valid experiment then.
    pub fn read_with(
        path: &Path,
        settings: &[(String, String)],
        folder: Option<&Path>,
    ) -> Result<Self, ExperimentFileError> {
        // A text that was copied from a report can name a content that is no longer true.
        let text = without_content(&text_with(path, settings)?);
        let folder = folder.unwrap_or_else(|| folder_of(path));
        let experiment = Self::parse(&text, path, folder)?;
        match experiment.load_content(path)? {
            // Parsed again with the digest, so that the content is part of the plan and its hash.
            Some((key, sha256)) => Self::parse(&with_content(&text, key, &sha256), path, folder),
            None => Ok(experiment),
        }
    }

    /// The key of the load's file and the SHA-256 of its content, if the load has one; `path` is the experiment's file.
    ///
    /// # Errors
    /// Where the load's file cannot be read.
    pub(super) fn load_content(
        &self,
        path: &Path,
    ) -> Result<Option<(&'static str, String)>, ExperimentFileError> {
        let load = self.task.generated_load();
        let Some((key, file)) = load.and_then(LoadTemplate::file) else {
            return Ok(None);
        };
        let content = LoadContent::read(&self.folder.join(file))
            .map_err(|message| ExperimentFileError::Invalid { path: path.to_owned(), message })?;
        Ok(Some((key, content.sha256)))
    }

    /// Parses the text of the file `path`; relative directories start from `folder`. The load's file is not read: its content
    /// is part of the plan if the text names it, as that of an experiment that was read from a file does.
    ///
    /// # Errors
    /// Where the text is not a valid experiment.
    pub fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self, ExperimentFileError> {
        let table: ExperimentTable = toml::from_str(text).map_err(|error| {
            // An experiment and a search have files alike, so the wrong command is named first.
            let tables: toml::Table = toml::from_str(text).unwrap_or_default();
            let message = other_command(&tables, "compare", path);
            let message = message.unwrap_or_else(|| explain_toml(&error));
            ExperimentFileError::Syntax { path: path.to_owned(), message }
        })?;
        validate(table, text, folder)
            .map_err(|message| ExperimentFileError::Invalid { path: path.to_owned(), message })
    }
}

pub(super) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn validate(table: ExperimentTable, text: &str, folder: &Path) -> Result<Experiment, String> {
    check_name(&table.name)?;
    let (server, mut task, common) = task(table.server, table.load, table.run)?;
    // Only if it is the content of the file that the load names now.
    if let TrialTask::Serve { load: TrialLoad::Generated(load), .. } = &mut task
        && let Some((key, sha256)) = planned_content(text)
        && load.file().is_some_and(|(own, _)| own == key)
    {
        load.fix_content(sha256);
    }
    let prepare = table.prepare.map(|table| command("prepare", table)).transpose()?;
    let cleanup = table.cleanup.map(|table| command("cleanup", table)).transpose()?;
    let services = table
        .services
        .into_iter()
        .map(|(name, table)| Ok((name.clone(), service(&format!("services.{name}"), table)?)))
        .collect::<Result<BTreeMap<_, _>, String>>()?;
    let variants = variants(table.variants, &common)?;
    let measure = measure(table.measure, &task)?;
    let trials = trials(&table.trials)?;
    // The error is shared among attempts at one candidate, so there must be one.
    if trials.attempts.is_some() && variants.len() != 2 {
        return Err(
            "trials.attempts needs two variants: the baseline and the one to confirm".into()
        );
    }
    Ok(Experiment {
        name: table.name,
        about: table.about,
        server,
        prepare,
        cleanup,
        services,
        task,
        variants,
        measure,
        trials,
        folder: folder.to_owned(),
        text: text.to_owned(),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '));
    if allowed && name.len() <= NAME_BYTES {
        return Ok(());
    }
    Err(format!(
        "name `{}` cannot be a file name: use up to {NAME_BYTES} letters, digits, `-`, `_` and `.`",
        name.escape_debug()
    ))
}

fn service(key: &str, table: ServiceTable) -> Result<ServiceSpec, String> {
    let command =
        CommandLine::new(table.command).ok_or_else(|| format!("{key}.command is empty"))?;
    let ready = readiness(key, table.ready)?;
    Ok(ServiceSpec { command, ready, dir: table.dir, env: table.env })
}

fn variants(tables: Vec<VariantTable>, common: &toml::Table) -> Result<Vec<VariantSpec>, String> {
    if tables.len() < 2 {
        return Err(
            "a comparison needs at least two [[variant]] tables; the first is the baseline".into(),
        );
    }
    let mut names = BTreeSet::new();
    for VariantTable { name, .. } in &tables {
        if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(is_printable) {
            return Err(format!(
                "variant name `{}` is empty, too long or not printable",
                name.escape_debug()
            ));
        }
        if !names.insert(name) {
            return Err(format!("two variants are named `{name}`: give each its own name"));
        }
    }
    controls::check(&tables)?;
    tables.into_iter().map(|table| variant(table, common)).collect()
}

fn variant(table: VariantTable, common: &toml::Table) -> Result<VariantSpec, String> {
    let VariantTable { name, control, profile, settings, env, command, dir } = table;
    let mut chosen = common.clone();
    if profile.is_some() && settings.contains_key("profile") {
        return Err(format!(
            "variant `{name}` has two profiles: keep `profile` or `settings.profile`"
        ));
    }
    chosen.extend(profile.map(|profile| ("profile".to_owned(), profile.into())));
    // The variant's own settings come last and win.
    chosen.extend(settings);
    let command = command
        .map(|words| {
            CommandLine::new(words).ok_or_else(|| format!("variant `{name}` has an empty command"))
        })
        .transpose()?;
    // Its value depends on the machine, so it is parsed there and hashed as written.
    let root = take_root_with_placeholder(&mut chosen);
    let settings =
        Settings::parse(&chosen).map_err(|error| format!("variant `{name}`: {error}"))?;
    Ok(VariantSpec { name, controls: control.0, settings, root, env, command, dir })
}

/// The setting `root` where it contains `{roots}`: its value depends on the machine.
fn take_root_with_placeholder(settings: &mut toml::Table) -> Option<String> {
    let root = settings.get("root")?.as_str()?;
    let root = root.contains(ROOTS_PLACEHOLDER).then(|| root.to_owned())?;
    settings.remove("root");
    Some(root)
}

fn measure(table: MeasureTable, task: &TrialTask) -> Result<MeasureSpec, String> {
    let is_run = matches!(task, TrialTask::Run { .. });
    let primary = table.primary.as_deref().unwrap_or(usual_primary(is_run).id);
    let primary = metric_measured(primary, task)?;
    let mut guards = BTreeMap::new();
    for (name, limit) in table.guards {
        let metric = metric_measured(&name, task)?;
        if limit.0 <= 0.0 {
            return Err(format!(
                "the guard of {name} must be a positive percentage such as \"+5%\""
            ));
        }
        guards.insert(metric.id, limit);
    }
    if table.sample_every.0.is_zero() {
        return Err("measure.sample_every must be longer than zero".into());
    }
    if table.idle.is_some_and(|idle| idle.0.is_zero()) {
        return Err("measure.idle must be longer than zero; leave it out for no idle time".into());
    }
    if is_run && (table.idle.is_some() || !table.at_requests.is_empty()) {
        return Err("measure.at_requests and measure.idle need a load, and [run] has none".into());
    }
    if is_run && table.census {
        return Err("measure.census needs a server that runs at the end, and [run] has none".into());
    }
    let by_command = matches!(task, TrialTask::Serve { load: TrialLoad::Command(_), .. });
    if by_command && !table.at_requests.is_empty() {
        return Err(
            "measure.at_requests needs a count, and [load.command] does not say how many requests are answered".into(),
        );
    }
    let at_requests = at_requests(table.at_requests, task.requests())?;
    let MeasureTable { sample_every, settle, idle, census, .. } = table;
    Ok(MeasureSpec { primary, guards, sample_every, settle, at_requests, idle, census })
}

/// The numbers in ascending order, each once. `planned` is the number of requests of the load, if it is fixed.
fn at_requests(mut listed: Vec<u64>, planned: Option<u64>) -> Result<Vec<u64>, String> {
    listed.sort_unstable();
    listed.dedup();
    if listed.first() == Some(&0) {
        return Err("measure.at_requests must list numbers above 0".into());
    }
    match planned.zip(listed.last()) {
        // At the last request the load ends, and that moment is measured anyway.
        Some((planned, most)) if *most >= planned => Err(format!(
            "measure.at_requests lists {most}, and the load has {planned} requests or jobs; list smaller numbers: memory after the load is always read"
        )),
        _ => Ok(listed),
    }
}

fn trials(table: &TrialsTable) -> Result<TrialLimits, String> {
    let TrialsTable { max, margin, seed, warmup_block, attempts } = *table;
    if !(1..=MOST_BLOCKS).contains(&max) {
        return Err(format!("trials.max must be between 1 and {MOST_BLOCKS} blocks"));
    }
    if !(0.0..1.0).contains(&margin.0) {
        return Err("trials.margin must be between 0% and 100%".into());
    }
    if attempts.is_some_and(|attempts| !(1..=MOST_ATTEMPTS).contains(&attempts)) {
        return Err(format!("trials.attempts must be between 1 and {MOST_ATTEMPTS}"));
    }
    Ok(TrialLimits { max, margin, seed, warmup_block, attempts })
}

/// The metric that decides where the file names none. Of a command that has ended, only the kernel's record is complete.
pub(super) fn usual_primary(is_run: bool) -> &'static Metric {
    if is_run { &metric::MEMORY_PROCESS_PEAK } else { &metric::MEMORY_PSS_LATE }
}

/// The metric of that name, where the task has it, and sends enough requests for it.
fn metric_measured(name: &str, task: &TrialTask) -> Result<&'static Metric, String> {
    let metric = find_metric(name)?;
    match task {
        TrialTask::Run { .. } if !metric.is_of_runs() => {
            let known: Vec<&str> = metric::of_runs().map(|known| known.id).collect();
            return Err(format!(
                "{name} is unknown of [run], which answers no requests and is gone at its end; known are {}",
                known.join(", ")
            ));
        }
        TrialTask::Serve { load: TrialLoad::Command(_), .. } if metric.is_of_generator() => {
            return Err(format!(
                "{name} is unknown of [load.command]: only carat's own generator measures it"
            ));
        }
        TrialTask::Serve { .. }
            if [metric::RUN_TIME.id, metric::MEMORY_GROUP_PEAK.id].contains(&metric.id) =>
        {
            return Err(format!(
                "{name} is known of a command that ends by itself only, see [run]"
            ));
        }
        _ => {}
    }
    let needed = metric.least;
    // Percentiles of too few requests would be a single slow one.
    match task.requests().filter(|&requests| requests < needed) {
        Some(requests) => Err(format!(
            "{name} needs {needed} requests per trial, and the load has {requests}; raise `requests` or `jobs`, or use latency.p95"
        )),
        None => Ok(metric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ReadyCheck, ReadyCondition, Span};

    const COMPACTION: &str = r#"
name = "compaction"
[server]
command = ["puma", "-C", "puma.rb", "config.ru"]
ready = { http = "/hello", within = "30s" }
[services.redis]
command = ["redis-server", "--port", "{port}", "--save", ""]
ready = { tcp = true }
[load.http]
path = "/hello"
connections = 8
requests = 6000
[[variant]]
name = "default"
[[variant]]
name = "compact"
settings = { compact = "boot" }
[measure]
primary = "memory.rss.final"
guards = { "latency.p95" = "+5%" }
[trials]
max = 60
margin = "0.25%"
"#;

    /// The same experiment, every table and key in another order.
    const COMPACTION_REORDERED: &str = r#"
name = "compaction"
[trials]
margin = "0.25%"
max = 60
[measure]
guards = { "latency.p95" = "+5%" }
primary = "memory.rss.final"
[[variant]]
name = "default"
[[variant]]
settings = { compact = "boot" }
name = "compact"
[load.http]
requests = 6000
connections = 8
path = "/hello"
[services.redis]
ready = { tcp = true }
command = ["redis-server", "--port", "{port}", "--save", ""]
[server]
ready = { within = "30s", http = "/hello" }
command = ["puma", "-C", "puma.rb", "config.ru"]
"#;

    fn parse(text: &str) -> Result<Experiment, ExperimentFileError> {
        Experiment::parse(text, Path::new("carat.toml"), Path::new("."))
    }

    #[test]
    fn every_part_of_the_documented_file_is_parsed() {
        let experiment = parse(COMPACTION).unwrap();
        assert_eq!(experiment.baseline().name, "default");
        let settings = experiment.variants[1].settings(None).unwrap();
        assert_eq!(settings.describe()["compact"], "boot");
        let TrialTask::Serve { ready, .. } = &experiment.task else { panic!("not a server") };
        let check = ReadyCheck::Http("/hello".to_owned());
        assert_eq!(*ready, ReadyCondition { check, within: Span::seconds(30) });
        assert_eq!(experiment.task.requests(), Some(6000));
        assert_eq!(experiment.server.command.program(), "puma");
        assert!((experiment.trials.margin.0 - 0.0025).abs() < 1e-12);
        assert_eq!(experiment.services.keys().collect::<Vec<_>>(), ["redis"]);
        assert_eq!(experiment.services["redis"].ready.check, ReadyCheck::Tcp);
    }

    #[test]
    fn an_error_names_what_is_wrong_and_what_would_be_right() {
        for (from, to, expected) in [
            ("connections = 8", "conections = 8", "did you mean `connections`?"),
            (
                "name = \"compact\"",
                "name = \"compact\"\narena_max = 2",
                "it is a setting: settings = { arena_max = … }",
            ),
            ("memory.rss.final", "memory.rss.finale", "did you mean `memory.rss.final`?"),
            ("latency.p95", "latency.p99.9", "latency.p99.9 needs 10000 requests per trial"),
            ("\"+5%\"", "\"5\"", "not a percentage"),
            ("\"+5%\"", "\"-5%\"", "must be a positive percentage"),
            ("name = \"compact\"", "name = \"default\"", "two variants are named `default`"),
            ("path = \"/hello\"", "path = \"hello\"", "must start with `/`"),
            (
                "{ tcp = true }",
                "{ tcp = true, log = \"x\" }",
                "services.redis.ready needs exactly one of",
            ),
            (
                "http = \"/hello\"",
                "http = \"hello\"",
                "server.ready.http `hello` must start with `/`",
            ),
            ("http = \"/hello\", ", "", "server.ready needs exactly one of"),
            ("within = \"30s\"", "within = \"30\"", "not a span of time"),
            ("max = 60", "max = 0", "between 1 and 10000"),
            ("[measure]", "[prepare]\ncommand = []\n[measure]", "prepare.command is empty"),
            (
                "[measure]",
                "[cleanup]\ncommand = [\"rm\"]\nwithin = \"0s\"\n[measure]",
                "cleanup.within must be longer than zero",
            ),
            ("[measure]", "[measure]\nidle = \"15\"", "not a span of time"),
            ("[measure]", "[measure]\nidle = \"0s\"", "measure.idle must be longer than zero"),
            ("[measure]", "[measure]\nidel = \"15s\"", "did you mean `idle`?"),
            ("[measure]", "[measure]\nat_requests = [0, 5]", "numbers above 0"),
            ("[measure]", "[measure]\nat_requests = [6000]", "the load has 6000 requests"),
            ("name = \"compaction\"", "name = \"../x\"", "cannot be a file name"),
            ("requests = 6000", "requests = 0", "load.http.requests must be more than 0"),
            ("[[variant]]\nname = \"default\"", "", "at least two [[variant]]"),
            ("compact = \"boot\"", "compakt = \"boot\"", "variant `compact`: no setting is named"),
            ("compact = \"boot\"", "compact = \"bot\"", "did you mean `boot`?"),
            (
                "command = [\"puma\", \"-C\", \"puma.rb\", \"config.ru\"]",
                "command = []",
                "server.command is empty",
            ),
            ("settings = { compact = \"boot\" }", "command = []", "`compact` has an empty command"),
            (
                "settings = { compact = \"boot\" }",
                "control = 1",
                "expected the name of a variant, or a list of names",
            ),
        ] {
            let text = COMPACTION.replace(from, to);
            assert_ne!(text, COMPACTION, "{from}");
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{to}: {message}");
            assert!(message.contains("carat.toml"), "{message}");
        }
    }

    #[test]
    fn the_file_of_a_search_is_named_as_one_with_the_command_that_reads_it() {
        let variants = "[[variant]]\nname = \"default\"\n[[variant]]\nname = \"compact\"\nsettings = { compact = \"boot\" }";
        let search = COMPACTION.replace(variants, "[goal]\nleast = \"memory.pss.late\"");
        let message = parse(&search).unwrap_err().to_string();
        assert_eq!(
            message,
            "carat.toml: this is the file of a search, because it has [goal]; run `carat tune carat.toml`"
        );
        // With both tables it is neither, and the unknown one is named.
        let both = COMPACTION.replace("[measure]", "[goal]\n[measure]");
        let message = parse(&both).unwrap_err().to_string();
        assert!(message.contains("unknown field `goal`"), "{message}");
    }

    #[test]
    fn a_profile_of_a_variant_may_stand_beside_its_settings_which_win() {
        let beside =
            COMPACTION.replace("name = \"compact\"", "name = \"compact\"\nprofile = \"balanced\"");
        let variant = &parse(&beside).unwrap().variants[1];
        let described = variant.settings(None).unwrap().describe();
        assert_eq!(described["prepare_fork"], "full", "{described:?}");
        let wrong = parse(&beside.replace("balanced", "balance")).unwrap_err().to_string();
        assert!(wrong.contains("there are `balanced`"), "{wrong}");
    }

    /// The variants `default`, `sham`, `gc` and `compact`, the last three with these lines.
    fn with_controls(lines: [&str; 3]) -> Result<Experiment, ExperimentFileError> {
        let [sham, gc, compact] = lines;
        let variants = format!(
            "name = \"sham\"\n{sham}\n[[variant]]\nname = \"gc\"\n{gc}\n[[variant]]\nname = \"compact\"\n{compact}"
        );
        parse(&COMPACTION.replace("name = \"compact\"", &variants))
    }

    #[test]
    fn a_control_is_the_name_of_a_variant_or_a_list_and_may_have_controls() {
        let chain = ["control = \"default\"", "control = \"sham\"", "control = [\"gc\", \"sham\"]"];
        let experiment = with_controls(chain).unwrap();
        let controls = |at: usize| experiment.variants[at].controls.clone();
        assert_eq!(controls(0), [""; 0]);
        assert_eq!(controls(1), ["default"]);
        assert_eq!(controls(3), ["gc", "sham"]);
    }

    #[test]
    fn a_control_that_cannot_be_one_is_refused_with_the_reason() {
        for (lines, expected) in [
            (
                ["", "control = \"sharm\"", ""],
                "is named `sharm`, its control (did you mean `sham`?)",
            ),
            (
                ["", "control = \"zebra\"", ""],
                "the variants are `default`, `sham`, `gc`, `compact`",
            ),
            (["", "control = \"gc\"", ""], "the controls form a circle: `gc` → `gc`"),
            (
                ["control = \"compact\"", "control = \"sham\"", "control = \"gc\""],
                "the controls form a circle: `sham` → `compact` → `gc` → `sham`",
            ),
            (["", "", "control = [\"gc\", \"gc\"]"], "names its control `gc` twice"),
        ] {
            let message = with_controls(lines).unwrap_err().to_string();
            assert!(message.contains(expected), "{lines:?}: {message}");
        }
        let text = COMPACTION.replace("\"default\"", "\"default\"\ncontrol = \"compact\"");
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains("`default` is the baseline, which has no control"), "{message}");
    }

    #[test]
    fn controls_are_part_of_the_plan_and_change_no_plan_without_them() {
        let none = with_controls([""; 3]).unwrap();
        assert!(!none.canonical().to_string().contains("control"));
        let one = with_controls(["", "control = \"sham\"", ""]).unwrap().hash();
        assert_eq!(with_controls(["", "control = [\"sham\"]", ""]).unwrap().hash(), one);
        assert_eq!(with_controls(["", "control = []", ""]).unwrap().hash(), none.hash());
        assert_ne!(one, none.hash());
        assert_ne!(with_controls(["", "", "control = \"sham\""]).unwrap().hash(), one);
    }

    #[test]
    fn a_root_below_the_folder_of_roots_is_resolved_on_each_machine_and_hashed_as_written() {
        let with = |root: &str| {
            parse(&COMPACTION.replace("compact = \"boot\"", &format!("root = \"{root}\""))).unwrap()
        };
        let experiment = with("{roots}/trixie");
        let variant = &experiment.variants[1];
        let settings = variant.settings(Some("/cache/roots")).unwrap();
        assert_eq!(settings.root(), Some(Path::new("/cache/roots/trixie")));
        let message = variant.settings(None).unwrap_err().to_string();
        assert!(message.contains("{roots}/trixie"), "{message}");
        assert_ne!(experiment.hash(), with("/cache/roots/trixie").hash());
        assert!(experiment.canonical().to_string().contains("{roots}/trixie"));
    }

    #[test]
    fn settings_of_the_server_are_those_of_every_variant_and_a_variants_own_value_wins() {
        let common = "[server]\nsettings = { root = \"{roots}/trixie\", compact = \"auto\" }";
        let written = parse(&COMPACTION.replace("[server]", common)).unwrap();
        let settings = |number: usize| written.variants[number].settings(Some("/cache")).unwrap();
        assert_eq!(settings(0).describe()["compact"], "auto");
        assert_eq!(settings(1).describe()["compact"], "boot");
        assert_eq!(settings(0).root(), Some(Path::new("/cache/trixie")));
        assert_eq!(settings(1).root(), Some(Path::new("/cache/trixie")));
    }

    #[test]
    fn settings_that_are_added_to_a_file_are_part_of_its_plan() {
        let added =
            COMPACTION.replace("[server]\n", "[server]\nsettings.root = \"{roots}/trixie\"\n");
        assert_ne!(parse(&added).unwrap().hash(), parse(COMPACTION).unwrap().hash());
    }

    #[test]
    fn the_key_of_the_warm_up_block_is_in_the_canonical_form_only_where_there_is_no_such_block() {
        let with = |line: &str| parse(&COMPACTION.replace("max = 60", line)).unwrap();
        let (plain, without) = (with("max = 60"), with("max = 60\nwarmup_block = false"));
        assert!(plain.trials.warmup_block && !without.trials.warmup_block);
        assert_ne!(plain.hash(), without.hash());
        assert_eq!(plain.hash(), with("max = 60\nwarmup_block = true").hash());
    }

    #[test]
    fn comments_and_layout_do_not_change_the_hash_and_values_do() {
        let plain = parse(COMPACTION).unwrap().hash();
        let commented = COMPACTION.replace("max = 60", "# at most\nmax   =   60");
        assert_eq!(parse(&commented).unwrap().hash(), plain);
        for (from, to) in [
            ("max = 60", "max = 61"),
            ("0.25%", "0.5%"),
            ("compact = \"boot\"", "compact = \"auto\""),
            ("requests = 6000", "requests = 6001"),
            ("\"30s\"", "\"31s\""),
            ("\"+5%\"", "\"+6%\""),
            ("--save", "--load"),
            ("[measure]", "[measure]\nsettle = \"1s\""),
            ("[measure]", "[measure]\nat_requests = [50]"),
            ("[measure]", "[measure]\nidle = \"15s\""),
            ("[measure]", "[measure]\ncensus = true"),
            ("[trials]", "[trials]\nseed = 1"),
        ] {
            let changed = COMPACTION.replace(from, to);
            assert_ne!(changed, COMPACTION, "{from}");
            assert_ne!(parse(&changed).unwrap().hash(), plain, "{to}");
        }
    }

    #[test]
    fn commands_of_every_trial_are_part_of_the_plan_and_change_no_plan_without_them() {
        let plain = parse(COMPACTION).unwrap();
        assert_eq!((plain.prepare.clone(), plain.cleanup.clone()), (None, None));
        let plain_form = plain.canonical().to_string();
        assert!(!plain_form.contains("prepare") && !plain_form.contains("cleanup"));
        let with = "[prepare]\ncommand = [\"cp\", \"seed.db\", \"{dir}/app.db\"]\n[measure]";
        let prepared = parse(&COMPACTION.replace("[measure]", with)).unwrap();
        let spec = prepared.prepare.clone().unwrap();
        assert_eq!((spec.command.program(), spec.within), ("cp", Span::seconds(60)));
        let later = with.replace("[measure]", "within = \"5m\"\n[measure]");
        let patient = parse(&COMPACTION.replace("[measure]", &later)).unwrap();
        let hashes: BTreeSet<String> =
            [plain, prepared, patient].iter().map(Experiment::hash).collect();
        assert_eq!(hashes.len(), 3);
    }

    #[test]
    fn moments_are_listed_once_in_their_order_and_idle_time_only_where_it_is_set() {
        let plain = parse(COMPACTION).unwrap();
        assert_eq!((plain.measure.at_requests.as_slice(), plain.measure.idle), (&[][..], None));
        assert!(!plain.canonical().to_string().contains("idle"), "older plans keep their hash");
        let with = "[measure]\nidle = \"15s\"\nat_requests = [500, 50, 500]";
        let measure = parse(&COMPACTION.replace("[measure]", with)).unwrap().measure;
        assert_eq!(measure.at_requests, [50, 500]);
        assert_eq!(measure.idle, Some(Span::seconds(15)));
    }

    #[test]
    fn a_census_changes_no_plan_without_one() {
        let plain = parse(COMPACTION).unwrap();
        assert!(!plain.measure.census && !plain.canonical().to_string().contains("census"));
        let with = |text| parse(&COMPACTION.replace("[measure]", text)).unwrap();
        assert_eq!(with("[measure]\ncensus = false").hash(), plain.hash());
        assert!(with("[measure]\ncensus = true").measure.census);
    }

    #[test]
    fn the_order_of_tables_and_keys_does_not_change_the_hash() {
        let hash = parse(COMPACTION).unwrap().hash();
        assert_eq!(parse(COMPACTION_REORDERED).unwrap().hash(), hash);
    }

    #[test]
    fn the_hash_of_a_bundled_experiment_changes_only_with_the_version_of_the_form() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/rails-hello/carat.toml");
        let hash = Experiment::read(&path).unwrap().hash();
        assert_eq!(hash, "879f6f2c970d22bc97c4e7ea3d289a74cc19f6bbc3cab8f8ce6fde8339dfd85d");
    }

    #[test]
    fn the_canonical_form_is_versioned_and_its_keys_are_sorted() {
        let text = parse(COMPACTION).unwrap().canonical().to_string();
        assert!(text.contains("\"schema\":\"carat.plan/2\""), "{text}");
        assert!(text.starts_with("{\"about\":null,\"load\":{"), "{text}");
    }
}
