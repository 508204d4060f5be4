//! Everything that follows from the trials of an experiment.

use crate::analysis::growth::of_variants;
use crate::analysis::{
    Judge, Question, Warning, class_comparisons, curves, least_distances, machine_comparisons,
    moments,
};
use crate::core::Results;

/// Fills in conclusions, warnings and everything else that follows from the trials as they answer `question`.
pub(crate) fn conclude(results: &mut Results, question: &Question) {
    let judgement = Judge::new(question.clone()).judge(&results.trials);
    results.conclusions = judgement.conclusions;
    results.controls = judgement.controls;
    results.curves = curves(question, &results.trials);
    results.growth = of_variants(&results.info.variants, &results.trials);
    results.moments = moments(question, &results.trials);
    results.least = least_distances(question, &results.trials);
    results.machines = machine_comparisons(question, &results.trials);
    results.classes = class_comparisons(question, &results.trials);
    results.warnings = judgement.warnings.iter().map(Warning::to_string).collect();
}
