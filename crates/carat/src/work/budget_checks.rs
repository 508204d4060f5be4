//! What the budgets of a CI job say about results.

use crate::view::output;
use crate::work::exit::Exit;
use carat_model::Results;
use carat_report::{Budget, Kept, budget};

/// Prints for every budget whether the results keep it.
pub(crate) fn check_budgets(results: &Results, budgets: &[Budget]) -> Exit {
    let outcomes = budget(results, budgets);
    outcomes.iter().fold(Exit::Fine, |exit, outcome| {
        output::print_message(&outcome.to_string());
        let this = match outcome.kept {
            Kept::Yes => Exit::Fine,
            Kept::Unproven => Exit::Undecided,
            Kept::Broken => Exit::Broken,
        };
        exit.worse(this)
    })
}
