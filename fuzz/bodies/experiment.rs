//! An experiment file is understood or refused with a reason, and what is understood has a load and an identity.

use carat::config::Experiment;
use std::path::Path;

/// Fails where that does not hold.
pub(crate) fn check(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Experiment::parse(text, Path::new("carat.toml"), Path::new(".")) {
        Ok(experiment) => {
            assert!(!experiment.baseline().name.is_empty());
            assert_eq!(experiment.hash().len(), 64);
            experiment.load.spec("127.0.0.1:1").expect("a checked load is a load");
            experiment.load.warmup("127.0.0.1:1").expect("a checked load can be warmed up");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
