//! The bundled experiment files.

use carat::config::Experiment;
use std::fs;
use std::path::Path;

#[test]
fn every_bundled_experiment_file_is_valid_and_has_its_own_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut names = Vec::new();
    for workload in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(workload.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = Experiment::read(&path).unwrap().name;
                assert!(!names.contains(&name), "{}: `{name}` is taken", path.display());
                names.push(name);
            }
        }
    }
    assert!(names.len() >= 15, "only {names:?}");
}
