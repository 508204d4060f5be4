//! From a results file to the value that every face shows.

use crate::experiment::question;
use crate::model::Results;
use crate::store::{Header, Store, StoreError};
use crate::verdict::growth::of_variants;
use crate::verdict::{Judge, Judgement, Warning, curves};

/// Everything in a results file, with what follows from it.
pub(crate) fn concluded(store: &Store) -> Result<(Results, Judgement), StoreError> {
    let header = store.header()?;
    let mut results = store.results()?;
    let judgement = judge(&header).judge(&results.trials);
    results.conclusions = judgement.conclusions.clone();
    results.curves = curves(&question(&header), &results.trials);
    results.growth = of_variants(&results.variants, &results.trials);
    results.warnings = judgement.warnings.iter().map(Warning::to_string).collect();
    Ok((results, judgement))
}

/// What decides about a results file.
pub(crate) fn judge(header: &Header) -> Judge {
    Judge::new(question(header))
}
