//! What the budgets of a CI job say about results.

use crate::view::output;
use crate::work::exit::Exit;
use carat_model::Results;
use carat_report::{Budget, Kept, NextCommands, budget, budget_next};

/// Prints for every budget whether the results keep it, and what would decide those that cannot be told.
pub(crate) fn check_budgets(results: &Results, budgets: &[Budget], next: &NextCommands) -> Exit {
    let outcomes = budget(results, budgets);
    let exit = outcomes.iter().fold(Exit::Fine, |exit, outcome| {
        output::print_message(&outcome.to_string());
        let this = match outcome.kept {
            Kept::Yes => Exit::Fine,
            Kept::Unproven => Exit::Undecided,
            Kept::Broken => Exit::Broken,
        };
        exit.worse(this)
    });
    if let Some(next) = budget_next(results, &outcomes, next) {
        output::print_message(&format!("decide  {next}"));
    }
    exit
}
