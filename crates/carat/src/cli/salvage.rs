//! `carat salvage`: copies the undamaged part of a results file.

use crate::cli::{Exit, output};
use crate::store::{Salvaged, salvage};
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.salvage/1";
/// Losses that are listed; of the rest only the number is printed.
const NAMED: usize = 10;

/// Arguments of `carat salvage`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat salvage arenas.carat -o whole.carat\n  \
    carat compare arenas.toml --resume -o whole.carat    runs the lost trials again")]
pub(crate) struct SalvageArgs {
    /// Damaged or older results file; it is only read
    results: PathBuf,
    /// New results file
    #[arg(short, long)]
    output: PathBuf,
    /// Print the number of copied trials and the losses as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SalvageArgs) -> anyhow::Result<Exit> {
    let salvaged = salvage(&args.results, &args.output)?;
    let text = if args.json { json(&salvaged)? } else { text(&salvaged, &args.output) };
    output::print_data(&text)?;
    Ok(Exit::Fine)
}

fn json(salvaged: &Salvaged) -> serde_json::Result<String> {
    let Salvaged { copied, lost, .. } = salvaged;
    let answer = serde_json::json!({ "schema": SCHEMA, "copied": copied, "lost": lost });
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}

fn text(salvaged: &Salvaged, new: &Path) -> String {
    let Salvaged { copied, lost, resumable } = salvaged;
    let new = new.display();
    let mut text = format!("copied {copied} undamaged trials to {new}");
    if lost.is_empty() {
        return text + "; nothing was lost\n";
    }
    let _ = writeln!(text, "; {} were lost:", lost.len());
    for one in lost.iter().take(NAMED) {
        let _ = writeln!(text, "  {one}");
    }
    if lost.len() > NAMED {
        let _ = writeln!(text, "  and {} more", lost.len() - NAMED);
    }
    let _ = match resumable {
        true => writeln!(text, "`carat compare EXPERIMENT --resume -o {new}` runs them again"),
        false => writeln!(
            text,
            "{new} cannot be resumed: an older carat computed the hash of its plan in another form"
        ),
    };
    text
}
