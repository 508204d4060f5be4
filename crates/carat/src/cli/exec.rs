//! `carat exec`: applies settings, then becomes the server.

use crate::target::ReplaceError;
use crate::work::{
    GivenSettings, Printing, ReplacingServer, become_server, chosen_settings, find_ruby,
};
use anyhow::bail;
use carat_report::EnvironmentFormat;
use carat_settings::{Scrub, Settings, list, manual};
use carat_wire::env;
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Exit code if carat fails before the server starts, as for env(1).
const FAILED: u8 = 125;
/// Exit code if the command exists but cannot be run.
const NOT_EXECUTABLE: u8 = 126;
/// Exit code if the command does not exist.
const NOT_FOUND: u8 = 127;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: the server's own; 125 if a setting cannot be applied, 126 if the command cannot be run, \
127 if the command does not exist. CARAT_OFF=1 runs the command without any change. If there is no folder for \
carat's libraries, the server runs without the settings that need them, and a line on stderr names these. If the \
server cannot be verified, it runs all the same. carat.toml counts only if it belongs to this user or to root.

Examples:
  carat exec arena_max=2 -- bundle exec puma
  carat exec allocator=jemalloc malloc_conf=dirty_decay_ms:1000,narenas:2 --verify -- bin/rails server
  carat exec --profile prefork --verify -- puma -w 4 --preload
  carat exec prepare_fork=warmup --print-env systemd -- puma -w 4")]
pub(crate) struct ExecArgs {
    /// Settings as NAME=VALUE; `--list` shows all of them
    #[arg(value_name = "SETTING")]
    settings: Vec<String>,
    /// Another setting as NAME=VALUE
    #[arg(short = 's', long = "set", value_name = "SETTING")]
    set: Vec<String>,
    /// A set of settings: balanced, low-memory, and for preloaded clusters prefork or prefork-max; single settings override it
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// File with `profile` and a [settings] table, which the other options override [default: carat.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the environment instead of starting the command, for another user and after the next boot
    #[arg(long, value_name = "FORMAT", value_enum)]
    print_env: Option<EnvironmentFormat>,
    /// With --print-env: where `carat install` put the libraries [default: next to carat, /usr/local or /usr]
    #[arg(long, value_name = "DIR", requires = "print_env")]
    prefix: Option<PathBuf>,
    /// Check the processes that serve, whoever started them, and report on stderr which settings were applied
    #[arg(long)]
    verify: bool,
    /// Let every program that the server starts inherit the settings, not only a server that a launcher starts
    #[arg(long)]
    no_scrub: bool,
    /// Print a line for every setting and every profile
    #[arg(long)]
    list: bool,
    /// With --list: everything about them, also what each costs and how it is verified
    #[arg(long, requires = "list")]
    details: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Applies the settings and replaces this process. Returns only the exit code of a failure.
pub(crate) fn run(args: &ExecArgs, out: &mut impl Write, messages: &mut impl Write) -> u8 {
    match prepare_and_start(args, out, messages) {
        Ok(code) => code,
        Err(error) => {
            // If stderr is closed, the exit code remains.
            let _ = writeln!(messages, "carat exec: {error:#}");
            FAILED
        }
    }
}

fn prepare_and_start(
    args: &ExecArgs,
    out: &mut impl Write,
    messages: &mut impl Write,
) -> anyhow::Result<u8> {
    if args.list {
        write!(out, "{}", if args.details { manual() } else { list(io::stdout().is_terminal()) })?;
        return Ok(0);
    }
    let Some(program) = args.command.first() else {
        bail!("no command is given; write `carat exec SETTINGS -- COMMAND`");
    };
    let switched_off = std::env::var_os(env::OFF).is_some_and(|off| off == "1");
    let given = GivenSettings {
        config: args.config.as_deref(),
        profile: args.profile.as_deref(),
        pairs: args.settings.iter().chain(&args.set).cloned().collect(),
    };
    let settings = match switched_off {
        true => Settings::default(),
        false => chosen_settings(&given, messages)?,
    };
    let ruby = find_ruby(program, &settings);
    if let Some(format) = args.print_env {
        let printing = Printing {
            settings: &settings,
            format,
            prefix: args.prefix.as_deref(),
            no_scrub: args.no_scrub,
            command: &args.command,
        };
        printing.print(ruby.as_deref(), out, messages)?;
        return Ok(0);
    }
    let scrub = if args.no_scrub { Scrub::Nothing } else { Scrub::Lasting };
    let server = ReplacingServer { command: &args.command, settings: &settings, ruby, scrub };
    let error = become_server(&server, args.verify, messages)?;
    let _ = writeln!(messages, "carat exec: {error}");
    Ok(match error {
        ReplaceError::Root { .. } => FAILED,
        ReplaceError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        ReplaceError::Exec { .. } => NOT_EXECUTABLE,
    })
}
