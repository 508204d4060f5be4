//! An experiment on simulated servers: many trials a second, the same on every machine.

use crate::support::{Folder, fake_experiment};

/// The experiment file; the results file gets the same name.
pub(crate) fn experiment(name: &str) -> String {
    fake_experiment(name, "[trials]\nmax = 12\nmargin = \"0.25%\"\nseed = 5\n")
}

/// Simulated figures, with too much variance for a verdict, so that all blocks run.
pub(crate) const FIGURES: &str = "71e6:9e6,71e6:9e6";

/// Identity and figures of every trial of a results file, in order.
pub(crate) fn trials(folder: &Folder, file: &str) -> Vec<serde_json::Value> {
    let ran = folder.run(&["report", file, "--json"]);
    let results: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    let trials = results["results"]["trials"].as_array().unwrap();
    trials.iter().map(|trial| serde_json::json!([trial["id"], trial["metrics"]])).collect()
}
