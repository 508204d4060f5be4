//! An experiment file is either refused with a reason, or valid, and then it has a hash, and commands or a load that can be used.

use carat::config::{Experiment, TrialLoad, TrialTask};
use std::path::Path;

/// Fails where that does not hold.
pub(crate) fn check(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Experiment::parse(text, Path::new("carat.toml"), Path::new(".")) {
        Ok(experiment) => {
            assert!(!experiment.baseline().name.is_empty());
            assert_eq!(experiment.hash().len(), 64);
            assert!(experiment.commands().all(|(_, spec)| !spec.command.program().is_empty()));
            if let TrialTask::Serve { load: TrialLoad::Generated(load), .. } = &experiment.task {
                let _ = (load.warmup("127.0.0.1:1"), load.measured("127.0.0.1:1"));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
