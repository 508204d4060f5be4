//! `carat diff`: what changed between two readings of running Rubies.

use crate::cli::{Exit, output};
use crate::input::read_explained;
use carat_analysis::{ExplainedTree, census_difference, grown_most, holder_growth};
use carat_proc::process::ProcRoot;
use carat_report::{after_difference, difference_text, grown_most_text, holder_growth_text};
use std::path::PathBuf;

/// Arguments of `carat diff`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  carat explain 4312 --json > before.json\n  \
    carat explain 4312 --json > after.json\n  carat diff before.json after.json\n\n\
    With `carat explain 4312 --who --json` for both: also what keeps more objects alive than before, by name")]
pub(crate) struct DiffArgs {
    /// What `carat explain PID --json` printed first
    before: PathBuf,
    /// What it printed later, or for another process
    after: PathBuf,
    /// Classes in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    classes: usize,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    let before = read_explained(&args.before)?;
    let after = read_explained(&args.after)?;
    let difference = census_difference(&before, &after);
    let grown = grown_most_text(&grown_most(&difference, &before, &after));
    output::print_text(&(grown + "\n" + &difference_text(&difference, args.classes)))?;
    let mut rubies = before.rubies.iter().chain(&after.rubies);
    if rubies.any(|census| census.who.is_some()) {
        let grown = holder_growth(&before.rubies, &after.rubies);
        let since = args.before.display().to_string();
        output::print_text(&("\n".to_owned() + &holder_growth_text(&grown, &since)))?;
    }
    let kept = (has_kept(&before), has_kept(&after));
    if let Some(next) = after_difference(running(&after), &args.after.display().to_string(), kept) {
        output::print_text(&("\n".to_owned() + &next))?;
    }
    Ok(Exit::Fine)
}

/// Whether a reading can be compared by what keeps it.
fn has_kept(tree: &ExplainedTree) -> bool {
    let mut whos = tree.rubies.iter().map(|census| census.who.as_ref());
    whos.all(|who| who.is_some_and(|who| who.kept.is_some()))
}

/// The first process of a reading, if it runs.
fn running(tree: &ExplainedTree) -> Option<u32> {
    let first = tree.rubies.first()?.process;
    ProcRoot::default().identify_program(first).is_ok().then_some(first)
}
