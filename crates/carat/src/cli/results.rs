//! From a results file to the value that every face shows.

use crate::analysis::growth::of_variants;
use crate::analysis::{Judge, Question, Warning, curves};
use crate::core::{ExperimentInfo, Results};
use crate::run::experiment::question;
use crate::store::{Store, StoreError};

/// Everything in a results file, with what follows from it.
pub(crate) fn concluded(store: &Store) -> Result<Results, StoreError> {
    let mut results = store.results()?;
    let question = question(&results.header);
    conclude(&mut results, &question);
    Ok(results)
}

/// Writes beside the trials what follows from them for that question.
pub(crate) fn conclude(results: &mut Results, question: &Question) {
    let judgement = Judge::new(question.clone()).judge(&results.trials);
    results.conclusions = judgement.conclusions;
    results.curves = curves(question, &results.trials);
    results.growth = of_variants(&results.header.variants, &results.trials);
    results.warnings = judgement.warnings.iter().map(Warning::to_string).collect();
}

/// What decides about a results file.
pub(crate) fn judge(header: &ExperimentInfo) -> Judge {
    Judge::new(question(header))
}
