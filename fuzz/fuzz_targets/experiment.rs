//! An experiment file is understood or refused with a reason, and what is understood has a load and an identity.

#![no_main]

use carat::plan::Experiment;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|text: &str| {
    match Experiment::parse(text, Path::new("carat.toml"), Path::new(".")) {
        Ok(experiment) => {
            assert!(!experiment.baseline().name.is_empty());
            assert_eq!(experiment.hash().len(), 64);
            experiment.load.spec("127.0.0.1:1").expect("a checked load is a load");
            experiment.load.warmup("127.0.0.1:1").expect("a checked load can be warmed up");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
