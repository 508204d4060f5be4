//! `carat ps`: every Ruby tree of this host or container, one line each.

use crate::cli::{Exit, output};
use crate::input::{host_trees, in_no_tree, parse_pid};
use crate::view::watch_host;
use anyhow::bail;
use carat_proc::process::ProcRoot;
use carat_report::{host_text, tree_text};
use std::io::IsTerminal;
use std::time::SystemTime;

/// Columns where there is no terminal to fit into.
const UNLIMITED: usize = 1_000;

/// Arguments of `carat ps`
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  carat ps          every Ruby server and script here\n  \
    carat ps 4312     the tree of process 4312 by role, whichever of its processes that is\n  \
    carat ps --watch  the same, every two seconds")]
pub(crate) struct PsArgs {
    /// Only the tree of this process
    #[arg(value_parser = parse_pid)]
    pid: Option<u32>,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Show it again every two seconds; s sorts, Enter leaves and prints the next command, q ends
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(args: &PsArgs) -> anyhow::Result<Exit> {
    let root = ProcRoot::default();
    if args.watch {
        let chosen = watch_host(|| host_trees(&root, SystemTime::now(), args.pid))?;
        // After the screen, which would take it away.
        chosen.map_or(Ok(()), |command| output::print_text(&format!("carat {command}\n")))?;
        return Ok(Exit::Fine);
    }
    let host = host_trees(&root, SystemTime::now(), args.pid);
    if let (Some(pid), true) = (args.pid, host.trees.is_empty()) {
        bail!(in_no_tree(&root, pid));
    }
    if args.json {
        output::print_data(&(serde_json::to_string_pretty(&host)? + "\n"))?;
    } else if args.pid.is_some() {
        let texts = host.trees.iter().map(tree_text);
        output::print_text(&texts.collect::<String>())?;
    } else {
        let is_terminal = std::io::stdout().is_terminal();
        let width = if is_terminal { output::width() } else { UNLIMITED };
        output::print_text(&host_text(&host, width))?;
    }
    Ok(Exit::Fine)
}
