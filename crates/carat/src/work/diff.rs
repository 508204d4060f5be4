//! Prints what changed between two readings of running Rubies, and what to type next.

use crate::input::read_explained;
use crate::view::output;
use crate::work::exit::Exit;
use carat_analysis::{ExplainedTree, census_difference, grown_most, holder_growth};
use carat_report::{after_difference, difference_text, grown_most_text, holder_growth_text};
use std::path::Path;

/// Prints what changed from one reading to the other, with so many classes.
///
/// # Errors
/// Where a file has no reading.
pub(crate) fn diff(first: &Path, second: &Path, classes: usize) -> anyhow::Result<Exit> {
    let before = read_explained(first)?;
    let after = read_explained(second)?;
    let difference = census_difference(&before, &after);
    let grown = grown_most_text(&grown_most(&difference, &before, &after));
    output::print_text(&(grown + "\n"))?;
    let mut rubies = before.rubies.iter().chain(&after.rubies);
    if rubies.any(|census| census.who.is_some()) {
        let grown = holder_growth(&before.rubies, &after.rubies);
        let since = first.display().to_string();
        // Who keeps more comes before the classes, most of which belong to what runs at the moment.
        output::print_text(&(holder_growth_text(&grown, &since) + "\n"))?;
    }
    output::print_text(&difference_text(&difference, classes))?;
    let next = after_difference(&second.display().to_string(), has_kept(&after));
    output::print_text(&("\n".to_owned() + &next))?;
    Ok(Exit::Fine)
}

/// Whether a reading can be compared by what keeps it.
fn has_kept(tree: &ExplainedTree) -> bool {
    let mut whos = tree.rubies.iter().map(|census| census.who.as_ref());
    whos.all(|who| who.is_some_and(|who| who.kept.is_some()))
}
