//! The commands and their dispatch.

use crate::cli::{
    Exit, compare, demo, diff, exec, explain, fleet, heap_dump, init, install, load, log, merge,
    output, plan, ps, record, report, salvage, shell, stats, tune, watch, workload,
};
use crate::target::{exec_helper_main, fail_writes_beyond_limit, reaper_main};
use crate::view::with_tip;
use carat_load::worker_main;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The end of `carat --help`.
const HELP: &str = "\
Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 undecided, 4 evidence invalid, 99 budget broken, 130 interrupted (Ctrl-C, TERM or HUP).

Examples:
  carat demo
  carat workload unpack rails-hello
  carat compare rails-hello/carat.toml --blocks 8
  carat report rails-hello.carat --open";

/// Weigh Ruby servers, prove which setting makes them smaller, run them that way
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = HELP)]
struct Arguments {
    #[command(flatten)]
    log: log::LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure a bundled Rails app and write its page, to see what carat does
    Demo(demo::DemoArgs),
    /// Write an experiment file for the app in this folder
    Init(init::InitArgs),
    /// Run trials of an experiment until there is a verdict
    Compare(compare::CompareArgs),
    /// List every Ruby server and script of this host, with its memory and its limit
    Ps(ps::PsArgs),
    /// Follow every Ruby of this host, and know afterwards how one ended and what had grown
    Watch(watch::WatchArgs),
    /// Show where every megabyte of a running server is
    Explain(explain::ExplainArgs),
    /// Write the heap of a running Ruby as `ObjectSpace.dump_all` would, without stopping it
    HeapDump(heap_dump::HeapDumpArgs),
    /// Show what changed between two readings of `explain --json`
    Diff(diff::DiffArgs),
    /// Record the memory of a server over time and say whether it grows
    Record(record::RecordArgs),
    /// Write one HTML page from a results file
    Report(report::ReportArgs),
    /// Analyse a results file again, also for another question
    Stats(stats::StatsArgs),
    /// Forecast which differences an experiment can detect in how many blocks and minutes
    Plan(plan::PlanArgs),
    /// Search the best settings for an app and confirm them
    Tune(tune::TuneArgs),
    /// Run the blocks of an experiment on many machines
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Merge results files of one plan, such as the parts of a fleet
    Merge(merge::MergeArgs),
    /// Copy the undamaged trials of a damaged or older results file into a new file
    Salvage(salvage::SalvageArgs),
    /// Drive a load against a running server
    Load(load::LoadArgs),
    /// Apply settings, then become the server
    Exec(exec::ExecArgs),
    /// Print the JSON Schema of the experiment file, for editors
    #[command(
        after_help = "Examples:\n  carat schema > carat.schema.json    the file that the first line of `carat init` names"
    )]
    Schema,
    /// Install the libraries for servers that carat does not start itself
    Install(install::InstallArgs),
    /// List, show or unpack the bundled workloads
    Workload(workload::WorkloadArgs),
    /// Print the completions of a shell
    Completions(shell::CompletionsArgs),
    /// Print the manual page, for man -l -
    Man,
    /// Wait for a signal from carat, then become the server
    #[command(hide = true)]
    ExecHelper,
    /// Clean up after a killed carat
    #[command(hide = true)]
    Reaper {
        /// Token in the environment of every process of the run
        token: String,
        /// The run's private directory
        directory: PathBuf,
    },
    /// Drive a load described on standard input
    #[command(hide = true)]
    LoadWorker,
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    fail_writes_beyond_limit();
    let arguments = Arguments::try_parse().unwrap_or_else(|error| refuse(error));
    if let Err(error) = log::start(&arguments.log) {
        output::print_error(&error);
        return Exit::Usage.into();
    }
    let result = match arguments.command {
        Command::ExecHelper => return exec_helper_main(),
        Command::Reaper { token, directory } => return reaper_main(&token, &directory),
        Command::LoadWorker => return worker_main(std::io::stdin(), std::io::stdout()),
        Command::Exec(args) => {
            return exec::run(&args, &mut std::io::stdout(), &mut std::io::stderr()).into();
        }
        Command::Load(args) => load::run(&args, &mut std::io::stdout().lock()),
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::HeapDump(args) => heap_dump::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Fleet(command) => fleet::run(&command),
        Command::Merge(args) => merge::run(&args),
        Command::Completions(args) => shell::completions(&args, Arguments::command()),
        Command::Man => shell::man(Arguments::command()),
        Command::Stats(args) => stats::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Schema => shell::schema(),
        Command::Install(args) => install::run(&args),
        Command::Workload(args) => workload::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::print_error(&error);
            Exit::of_error(&error).into()
        }
    }
}

/// Words of the standard library about a number, and words for people.
const TOO_LARGE: (&str, &str) = ("number too large to fit in target type", "it is too large");

/// Prints what is wrong with the command line, or the help that was asked for, and ends.
fn refuse(error: clap::Error) -> ! {
    let error = with_tip(error, std::env::args().nth(1).as_deref());
    let text = error.to_string();
    if text.contains(TOO_LARGE.0) {
        output::print_message(text.replace(TOO_LARGE.0, TOO_LARGE.1).trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use std::fs;
    use std::path::Path;

    /// Ends a command in a shell.
    const ENDS: [&str; 6] = ["|", ">", "2>", "&&", ";", "&"];

    /// A command in a document or in a help text.
    struct Example {
        place: String,
        text: String,
        /// Whether it stands alone and can be run, and is not only mentioned in a sentence.
        whole: bool,
    }

    fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                add_pages(&path, pages);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }

    /// The text without a prompt, if it is a command of carat and not what carat prints.
    fn command(text: &str) -> Option<String> {
        let text = text.trim().trim_start_matches("$ ");
        let text = text.strip_prefix("sudo ").unwrap_or(text);
        // The program in a container, or after `--` of another command.
        let inner = [" -- carat ", " exec carat ", "/carat "].iter().find_map(|mark| {
            let (_, rest) = text.split_once(mark)?;
            Some(format!("carat {rest}"))
        });
        let text = inner.as_deref().unwrap_or(text);
        let first = text.strip_prefix("carat ")?.split_whitespace().next()?;
        (!first.ends_with(':')).then(|| text.to_owned())
    }

    /// The commands of blocks and of spans of code.
    fn in_markdown(place: &str, text: &str) -> Vec<Example> {
        let mut found = Vec::new();
        let mut fenced = false;
        for (line, number) in text.lines().zip(1..) {
            fenced ^= line.starts_with("```");
            let whole = fenced || line.starts_with("    ");
            let parts: Vec<&str> =
                if whole { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            let commands = parts.into_iter().filter_map(command);
            found.extend(commands.map(|text| Example {
                place: format!("{place}:{number}"),
                text,
                whole,
            }));
        }
        found
    }

    /// The examples at the end of the help of a command and of those below it.
    fn in_help(command: &clap::Command) -> Vec<Example> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let texts = help.lines().filter_map(self::command);
        let own = texts.map(|text| Example {
            place: format!("help of {}", command.get_name()),
            // What it does follows at some distance.
            text: text.split("  ").next().unwrap_or_default().to_owned(),
            whole: true,
        });
        own.chain(command.get_subcommands().flat_map(in_help)).collect()
    }

    /// The words of a command, with values for what the reader has to fill in.
    fn words(text: &str) -> Vec<String> {
        let (before, rest) = text.split_once("$(").unwrap_or((text, ""));
        let text = match rest.split_once(')') {
            Some((_, after)) => format!("{before}1{after}"),
            None => before.to_owned(),
        };
        let words = shlex::split(&text).unwrap_or_else(|| panic!("quotes in {text}"));
        let words = words.into_iter().take_while(|word| !ENDS.contains(&word.as_str()));
        words
            .map(|word| match word.as_str() {
                "PID" | "N" => "1".to_owned(),
                "SETTINGS" | "[SETTINGS]" | "NAME=VALUE" => "arena_max=2".to_owned(),
                _ => word,
            })
            .collect()
    }

    /// Why carat would not accept the command.
    fn refusal(example: &Example) -> Option<String> {
        let words = words(&example.text);
        let error = Arguments::try_parse_from(&words).err()?;
        let ends_with_option = words.last().is_some_and(|word| word.starts_with('-'));
        let accepted = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !example.whole,
            ErrorKind::InvalidValue => !example.whole && ends_with_option,
            _ => false,
        };
        (!accepted).then(|| format!("{}: {}\n{error}", example.place, example.text))
    }

    #[test]
    fn a_process_or_an_address_without_its_option_is_answered_with_the_command_that_is_meant() {
        for (line, meant) in [
            ("carat 4312", Some("tip: type `carat explain 4312`")),
            ("carat record 4312", Some("tip: type `carat record --pid 4312`")),
            (
                "carat load http://[::1]:9292/",
                Some("tip: type `carat load http http://[::1]:9292/`"),
            ),
            ("carat record puma", None),
            ("carat load 4312", None),
            ("carat tune x 4312", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let error = Arguments::try_parse_from(&words).unwrap_err();
            let text = with_tip(error, words.get(1).copied()).to_string();
            assert!(meant.is_none_or(|meant| text.contains(meant)), "{line}: {text}");
            assert_eq!(meant.is_some(), text.contains("type `"), "{line}: {text}");
        }
    }

    #[test]
    fn every_command_in_the_documents_and_in_help_is_one_that_carat_accepts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let own = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
        let mut pages: Vec<PathBuf> = own.iter().map(|name| root.join(name)).collect();
        ["docs", "workloads", "bench", "packaging"]
            .iter()
            .for_each(|name| add_pages(&root.join(name), &mut pages));
        let mut examples = in_help(&Arguments::command());
        for page in &pages {
            let place = page.strip_prefix(&root).unwrap().display().to_string();
            examples.extend(in_markdown(&place, &fs::read_to_string(page).unwrap()));
        }
        let whole = examples.iter().filter(|example| example.whole).count();
        assert!(whole > 50 && examples.len() > whole + 50, "{whole} of {}", examples.len());
        let refused: Vec<String> = examples.iter().filter_map(refusal).collect();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }

    /// Lines of a command's help and of those below it that end within a sentence, which a narrower terminal breaks a second time.
    fn broken_lines(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let text = |line: &str| !line.is_empty() && !line.starts_with(' ');
        let pairs = help.lines().zip(help.lines().skip(1));
        let own =
            pairs.filter(|(line, next)| text(line) && text(next) && !line.ends_with(['.', ':']));
        let own = own.map(|(line, _)| format!("{}: {line}", command.get_name()));
        own.chain(command.get_subcommands().flat_map(broken_lines)).collect()
    }

    #[test]
    fn sentences_of_help_are_broken_by_the_terminal_alone() {
        assert_eq!(broken_lines(&Arguments::command()), [""; 0]);
    }

    #[test]
    fn a_command_that_carat_does_not_accept_is_found() {
        for (text, whole, is_refused) in [
            ("carat compare x.toml --blocks 8 > out.txt", true, false),
            ("carat explain $(pgrep -o puma) # a comment", true, false),
            ("carat diff", true, true),
            ("carat diff", false, false),
            ("carat record --load", false, false),
            ("carat compare x.toml --blocks many", false, true),
            ("carat compare x.toml --blokcs 8", false, true),
            ("carat wiegh", false, true),
        ] {
            let example = Example { place: "here".into(), text: text.into(), whole };
            assert_eq!(refusal(&example).is_some(), is_refused, "{text}");
        }
        let text = "`carat diff a b`\n```console\n$ carat man\ncarat verify: all applied\n```\n";
        let found = in_markdown("x.md", text);
        let found: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.whole)).collect();
        assert_eq!(found, [("carat diff a b", false), ("carat man", true)]);
        let text = "```console\n$ docker run -v \"$C:/carat\" ruby /carat ps\n$ docker cp carat app:/carat\n```\n";
        let found = in_markdown("x.md", text);
        assert_eq!(found.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), ["carat ps"]);
    }
}
