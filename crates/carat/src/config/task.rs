//! What a trial runs: a server under load, or a command that ends by itself.

use crate::config::file::{ReadyTable, RunTable, ServerTable};
use crate::config::{
    CommandLine, CommandSpec, ReadyCheck, ReadyCondition, ServerSpec, Span, TrialLoad, TrialTask,
};
use carat_model::load::LoadOptionError;
use carat_model::{CommandTable, LoadTable};

/// Deadlines of commands whose tables have none: of one that prepares or cleans up, and of one that is a load.
const COMMAND_WITHIN: Span = Span::seconds(60);
const LOAD_WITHIN: Span = Span::seconds(3600);

/// The server, what it does, and the settings of every variant.
pub(super) type ParsedTask = (ServerSpec, TrialTask, toml::Table);

/// From exactly one of `[server]` with a load, and `[run]`.
pub(super) fn task(
    server: Option<ServerTable>,
    load: Option<LoadTable>,
    run: Option<RunTable>,
) -> Result<ParsedTask, String> {
    match (server, load, run) {
        (Some(server), Some(load), None) => served(server, load),
        (None, None, Some(run)) => command_that_ends(run),
        (Some(_), None, None) => {
            Err("[server] needs a load: add [load.http], [load.cable], [load.sidekiq], [load.sql_queue] or [load.command], or write [run] for a command that ends by itself".into())
        }
        (_, _, Some(_)) => Err(
            "[run] is a command that ends by itself: it excludes [server] and [load]; keep one of the two".into(),
        ),
        (None, _, None) => Err(
            "there is nothing to measure: add [server] with [load.http], [load.cable], [load.sidekiq], [load.sql_queue] or [load.command], or [run] for a command that ends by itself".into(),
        ),
    }
}

fn served(table: ServerTable, load: LoadTable) -> Result<ParsedTask, String> {
    let command = CommandLine::new(table.command)
        .ok_or("server.command is empty: write for example [\"puma\", \"config.ru\"]")?;
    let ready = readiness("server", table.ready)?;
    let load = trial_load(load)?;
    let ServerTable { dir, env, stop_within, settings, .. } = table;
    let server = ServerSpec { command, dir, env, stop_within };
    Ok((server, TrialTask::Serve { ready, load }, settings))
}

/// Exactly one load: a protocol's, or a command.
fn trial_load(mut table: LoadTable) -> Result<TrialLoad, String> {
    let Some(own) = table.command.take() else {
        let template = table.validate().map_err(|error| error.to_string())?;
        return Ok(TrialLoad::Generated(Box::new(template)));
    };
    // A load of the generator beside a command would be a second load.
    if table != LoadTable::default() {
        return Err(LoadOptionError::Kind.to_string());
    }
    command_within("load.command", own, LOAD_WITHIN).map(TrialLoad::Command)
}

fn command_that_ends(table: RunTable) -> Result<ParsedTask, String> {
    let command = CommandLine::new(table.command)
        .ok_or("run.command is empty: write for example [\"ruby\", \"job.rb\"]")?;
    let RunTable { dir, env, settings, within, stop_within, .. } = table;
    if within.0.is_zero() {
        return Err("run.within must be longer than zero".into());
    }
    let server = ServerSpec { command, dir, env, stop_within };
    Ok((server, TrialTask::Run { within }, settings))
}

/// A command beside the server, from the table `key`.
pub(super) fn command(key: &str, table: CommandTable) -> Result<CommandSpec, String> {
    command_within(key, table, COMMAND_WITHIN)
}

fn command_within(key: &str, table: CommandTable, default: Span) -> Result<CommandSpec, String> {
    let CommandTable { command, dir, env, within } = table;
    let within = within.unwrap_or(default);
    let command = CommandLine::new(command).ok_or_else(|| format!("{key}.command is empty"))?;
    if within.0.is_zero() {
        return Err(format!("{key}.within must be longer than zero"));
    }
    Ok(CommandSpec { command, dir, env, within })
}

/// A ready check, from the table `key`.
pub(super) fn readiness(key: &str, table: ReadyTable) -> Result<ReadyCondition, String> {
    let check = match (table.http, table.tcp, table.log) {
        (Some(path), false, None) if path.starts_with('/') => ReadyCheck::Http(path),
        (Some(path), false, None) => {
            return Err(format!("{key}.ready.http `{path}` must start with `/`"));
        }
        (None, true, None) => ReadyCheck::Tcp,
        (None, false, Some(text)) => ReadyCheck::Log(text),
        _ => {
            return Err(format!(
                "{key}.ready needs exactly one of {{ http = \"/path\" }}, {{ tcp = true }} and {{ log = \"text\" }}"
            ));
        }
    };
    Ok(ReadyCondition { check, within: table.within })
}

#[cfg(test)]
mod tests {
    use crate::config::{Experiment, ExperimentFileError, Span, TrialLoad, TrialTask};
    use std::path::Path;

    const RUN: &str = "name = 'job'\n[run]\ncommand = ['ruby', 'job.rb']\n\
                       [[variant]]\nname = 'default'\n[[variant]]\nname = 'other'\n";

    fn parse(text: &str) -> Result<Experiment, ExperimentFileError> {
        Experiment::parse(text, Path::new("carat.toml"), Path::new("."))
    }

    #[test]
    fn a_command_that_ends_by_itself_needs_no_ready_check_and_no_load() {
        let experiment = parse(RUN).unwrap();
        assert_eq!(experiment.server.command.words(), ["ruby", "job.rb"]);
        let TrialTask::Run { within } = experiment.task else { panic!("{:?}", experiment.task) };
        assert_eq!(within, Span::seconds(3600));
        assert_eq!(experiment.measure.primary.id, "memory.process.peak");
        let form = experiment.canonical().to_string();
        assert!(form.contains("\"run\":{\"command\":[\"ruby\",\"job.rb\"]"), "{form}");
        assert!(!form.contains("\"server\"") && !form.contains("\"load\""), "{form}");
        let longer = RUN.replace("'job.rb']", "'job.rb']\nwithin = '2h'");
        assert_ne!(parse(&longer).unwrap().hash(), experiment.hash());
    }

    #[test]
    fn settings_of_the_command_are_those_of_every_variant() {
        let text = RUN.replace("'job.rb']", "'job.rb']\nsettings = { arena_max = 2 }");
        let settings = parse(&text).unwrap().variants[0].settings(None).unwrap();
        assert_eq!(settings.describe()["arena_max"], "2");
    }

    #[test]
    fn a_file_with_neither_or_both_tasks_is_refused_with_what_to_write() {
        let server = "[server]\ncommand = ['puma']\nready = { tcp = true }\n[[variant]]";
        let load = "[load.http]\n[[variant]]";
        for (text, expected) in [
            (RUN.replacen("[[variant]]", server, 1), "[run] is a command that ends by itself"),
            (RUN.replacen("[[variant]]", load, 1), "[run] is a command that ends by itself"),
            (RUN.replace("[run]\ncommand = ['ruby', 'job.rb']", ""), "nothing to measure"),
            (
                RUN.replace("[run]\ncommand = ['ruby', 'job.rb']", server).replacen(
                    "[[variant]]\n[[variant]]",
                    "[[variant]]",
                    1,
                ),
                "[server] needs a load",
            ),
            (RUN.replace("['ruby', 'job.rb']", "[]"), "run.command is empty"),
            (RUN.replace("'job.rb']", "'job.rb']\nwithin = '0s'"), "run.within must be"),
            (
                RUN.replace("'job.rb']", "'job.rb']\nready = { tcp = true }"),
                "unknown field `ready`",
            ),
        ] {
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn a_command_can_drive_the_load_and_then_latency_is_unknown() {
        let load = "[server]\ncommand = ['puma']\nready = { tcp = true }\n\
                    [load.command]\ncommand = ['k6', 'run', 'load.js']";
        let text = RUN.replace("[run]\ncommand = ['ruby', 'job.rb']", load);
        let experiment = parse(&text).unwrap();
        let TrialTask::Serve { load: TrialLoad::Command(spec), .. } = &experiment.task else {
            panic!("{:?}", experiment.task)
        };
        assert_eq!((spec.command.program(), spec.within), ("k6", Span::seconds(3600)));
        assert!(
            experiment.canonical().to_string().contains("\"load\":{\"command\":{\"command\":[")
        );
        for (more, expected) in [
            ("[measure]\nprimary = 'latency.p95'\n", "latency.p95 is unknown of [load.command]"),
            ("[measure]\nat_requests = [5]\n", "does not say how many"),
            (
                "[load.http]\n",
                "exactly one of [load.http], [load.cable], [load.sidekiq], [load.sql_queue] and",
            ),
        ] {
            let message = parse(&format!("{text}{more}")).unwrap_err().to_string();
            assert!(message.contains(expected), "{more}: {message}");
        }
        let text = format!("{text}[measure]\nprimary = 'throughput'\nidle = '5s'\n");
        assert_eq!(parse(&text).unwrap().measure.primary.id, "throughput");
    }

    #[test]
    fn what_a_command_that_ended_cannot_have_is_refused_with_what_it_has() {
        for (line, expected) in [
            ("primary = 'latency.p95'", "latency.p95 is unknown of [run]"),
            ("primary = 'memory.rss.final'", "memory.rss.peak"),
            ("guards = { 'throughput' = '+5%' }", "throughput is unknown of [run]"),
            ("at_requests = [5]", "measure.at_requests and measure.idle need a load"),
            ("idle = '5s'", "measure.at_requests and measure.idle need a load"),
            ("census = true", "measure.census needs a server that runs at the end"),
        ] {
            let message = parse(&format!("{RUN}[measure]\n{line}\n")).unwrap_err().to_string();
            assert!(message.contains(expected), "{line}: {message}");
        }
        let text =
            format!("{RUN}[measure]\nprimary = 'run.time'\nguards = {{ 'cpu.server' = '+5%' }}\n");
        assert_eq!(parse(&text).unwrap().measure.primary.id, "run.time");
    }
}
