//! Writes kept results, as `carat report --json --share` exports them, into a new results file that a run can continue:
//!
//! ```text
//! cargo run --release -p carat --example restore -- EXPORT.json --experiment FILE [--set NAME=VALUE]… --output NEW
//! ```
//!
//! `bin/reproduce --keep` continues the results of docs/evidence/experiments with it. Trials keep what the export has. What it
//! lacks, such as the histograms and logs of a shortened one, stays unknown. The exit code is 2 where the export is of another
//! plan than the experiment file.

use carat::config::{Experiment, ExperimentFileError};
use carat::input::{CaratFileError, load_results};
use carat::run::experiment::experiment_info;
use carat::store::{Salvaged, StoreError, salvage_trials};
use carat_model::{ExperimentInfo, Variant};
use carat_report::has_hidden_parts;
use clap::Parser;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thiserror::Error;

#[derive(Debug, Parser)]
struct Arguments {
    /// Exported JSON; it is only read
    export: PathBuf,
    /// Experiment file whose plan the export must have; needed where the export hides parts of the plan
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// The setting that `carat compare --set` added to the plan, as NAME=VALUE
    #[arg(long, value_name = "SETTING", value_parser = setting, requires = "experiment")]
    set: Vec<(String, String)>,
    /// New results file
    #[arg(short, long)]
    output: PathBuf,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let Arguments { export, experiment, set, output } = Arguments::parse();
    let source = experiment.map(|path| ExperimentSource { path, settings: set });
    let (text, code) = match restore(&export, source.as_ref(), &output) {
        Ok(Salvaged { copied, lost, .. }) => {
            let lost = lost.iter().map(|one| format!("\n  lost: {one}")).collect::<String>();
            (format!("copied {copied} trials to {}{lost}", output.display()), ExitCode::SUCCESS)
        }
        // A code of its own, because the experiment then starts anew, and after any other error it must not.
        Err(error @ RestoreError::OtherPlan { .. }) => (format!("error: {error}"), 2.into()),
        Err(error) => (format!("error: {error}"), ExitCode::FAILURE),
    };
    let _ = writeln!(io::stderr(), "{text}");
    code
}

/// An experiment file, and the settings that a run adds to every variant.
#[derive(Debug, Clone)]
struct ExperimentSource {
    path: PathBuf,
    /// Names and values.
    settings: Vec<(String, String)>,
}

/// Why exported results cannot be continued. No file is written then.
#[derive(Debug, Error)]
enum RestoreError {
    #[error(transparent)]
    Export(#[from] CaratFileError),
    #[error(transparent)]
    File(#[from] ExperimentFileError),
    /// The text is not that of the plan.
    #[error(
        "the plan hash in {0} does not match the plan text in it: the text was changed, or an older carat computed the hash in another form; run the experiment again"
    )]
    OtherText(PathBuf),
    /// The hash cannot be compared with the text.
    #[error(
        "parts of the plan text in {0} are hidden, so its plan hash cannot be checked; name the experiment file with --experiment FILE"
    )]
    HiddenText(PathBuf),
    /// The results are of another plan than the experiment file.
    #[error(
        "{export} has the results of another plan than {experiment}, or an older carat computed the hash of its plan in another form; run the experiment again"
    )]
    OtherPlan { export: PathBuf, experiment: PathBuf },
    /// A field of the results contradicts the plan.
    #[error("{what} in {export} differs from its plan; export the results again")]
    OtherQuestion {
        export: PathBuf,
        /// The field.
        what: &'static str,
    },
    /// The new file.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies exported results into the new results file `new`. `source` is needed only where the export hides parts of its
/// plan text; the new file then has the text of the experiment file, whose hash must be that of the export.
///
/// # Errors
/// Where the export cannot be read, its hash and its plan do not match, or `new` exists or cannot be written.
fn restore(
    export: &Path,
    source: Option<&ExperimentSource>,
    new: &Path,
) -> Result<Salvaged, RestoreError> {
    let results = load_results(export)?;
    let info = results.info;
    let experiment = planned(export, &info, source)?;
    let variants = info.variants.clone();
    // From the plan, so that nothing which only the export says gets into the new file.
    let fresh = experiment_info(&experiment, variants, info.seed, Some(info.max_blocks));
    if let Some(what) = contradiction(&info, &fresh, &experiment) {
        return Err(RestoreError::OtherQuestion { export: export.to_owned(), what });
    }
    Ok(salvage_trials(&fresh, results.trials, new)?)
}

/// The experiment that has the plan hash of the export.
fn planned(
    export: &Path,
    info: &ExperimentInfo,
    source: Option<&ExperimentSource>,
) -> Result<Experiment, RestoreError> {
    let is_planned = |experiment: &Experiment| experiment.hash() == info.plan_hash;
    // Only if its hash is that of the export: hidden parts make it another text.
    let own = Experiment::parse(&info.plan_text, export, Path::new(".")).ok().filter(is_planned);
    let export = export.to_owned();
    let given = match source {
        Some(source) => {
            let given = Experiment::read_with(&source.path, &source.settings, None)?;
            if !is_planned(&given) {
                return Err(RestoreError::OtherPlan { export, experiment: source.path.clone() });
            }
            Some(given)
        }
        None => None,
    };
    match (own, given) {
        // The export's own text is preferred, because it is what ran.
        (Some(own), _) => Ok(own),
        // A text that differs without hidden parts was changed after the export.
        (None, _) if !has_hidden_parts(&info.plan_text) => Err(RestoreError::OtherText(export)),
        (None, Some(given)) => Ok(given),
        (None, None) => Err(RestoreError::HiddenText(export)),
    }
}

/// The first field that does not follow from the plan. The hash covers the plan only.
fn contradiction(
    info: &ExperimentInfo,
    planned: &ExperimentInfo,
    experiment: &Experiment,
) -> Option<&'static str> {
    let of_results = info.variants.iter().map(|Variant { name, controls, .. }| (name, controls));
    let of_plan = experiment.variants.iter().map(|variant| (&variant.name, &variant.controls));
    let fields = [
        ("the name", info.name == planned.name),
        ("the primary metric", info.primary == planned.primary),
        // By its bits, because the plan has exactly this number.
        ("the margin", info.margin.to_bits() == planned.margin.to_bits()),
        ("the list of guards", info.guards == planned.guards),
        ("the list of variants", of_results.eq(of_plan)),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat::config::trial_id;
    use carat::input::concluded;
    use carat::store::Store;
    use carat_model::{Bytes, LoadReport, Moment, Outcome, Sample, Trial};
    use carat_report::{Audience, json};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::fs;

    const PLAN: &str = r#"
name = "kept"
[server]
command = ["true"]
ready = { tcp = true }
env = { ENV }
[load.http]
path = "/"
requests = 1
[[variant]]
name = "default"
[[variant]]
name = "other"
control = "default"
[measure]
primary = "memory.rss.final"
guards = { "latency.p95" = "+7%" }
[trials]
max = 30
margin = "0.25%"
"#;

    /// Variables of which a shared export hides all but the first, and any export the third and the fourth.
    const VARIABLES: [&str; 5] = [
        "WORKERS = '10'",
        "FEED = 'acme'",
        "API_TOKEN = 'abc'",
        "DATABASE = 'redis://ann:s3cret@db:6379/0'",
        "PUMA_DIR = '/home/ann/app/x'",
    ];

    /// What the trials of a test are made of.
    #[derive(Debug, Clone)]
    struct Figures {
        seed: u64,
        values: Vec<f64>,
        memory: Vec<Option<u64>>,
        ended: bool,
    }

    fn figures() -> impl Strategy<Value = Figures> {
        let values = prop::collection::vec(1e3..1e9, 10);
        let memory = prop::collection::vec(prop::option::of(0..1_u64 << 40), 7);
        (any::<u64>(), values, memory, any::<bool>())
            .prop_map(|(seed, values, memory, ended)| Figures { seed, values, memory, ended })
    }

    fn samples(memory: &[Option<u64>]) -> Vec<Sample> {
        let moments = [Moment::Ready, Moment::Start, Moment::Requests(50), Moment::End];
        let sample = |(at, &bytes): (usize, &Option<u64>)| Sample {
            at_ms: 100 * at as u64,
            moment: moments.get(at).copied(),
            processes: 1,
            rss: bytes.map(Bytes),
            answered: bytes.filter(|_| at > 1),
            partial: bytes.is_none(),
            ..Sample::default()
        };
        memory.iter().enumerate().map(sample).collect()
    }

    fn trial(info: &ExperimentInfo, place: (u32, u32), figures: &Figures) -> Trial {
        let (block, position) = place;
        let variant = info.variants[position as usize].name.clone();
        let value = figures.values[(block * 2 + position) as usize];
        let load = LoadReport { completed: 9, seconds: value / 7.0, ..LoadReport::default() };
        let metrics = [("memory.rss.final", value), ("latency.p95", value / 1e9)];
        Trial {
            id: trial_id(&info.plan_hash, info.seed, block, &variant),
            block,
            position,
            variant,
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 1_790_000_000_000,
            seconds: value / 3.0,
            machine: BTreeMap::from([("host".into(), "room-7".into())]),
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
            samples: samples(&figures.memory),
            load_window_ms: figures.ended.then_some((100, 500)),
            load: figures.ended.then_some(load),
            notes: vec!["read on room-7: TOKEN=abc, /home/ann/x/y".into()],
            log_tail: "Listening on room-7\nSECRET=1".into(),
        }
    }

    /// A folder with the experiment file and its results.
    fn kept(variables: &[&str], figures: &Figures) -> (tempfile::TempDir, ExperimentSource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.toml");
        fs::write(&path, PLAN.replace("ENV", &variables.join(", "))).unwrap();
        let experiment = Experiment::read(&path).unwrap();
        let settings = BTreeMap::from([("root".to_owned(), "/srv/roots/old".to_owned())]);
        let variants = experiment.variants.iter().map(|variant| Variant {
            name: variant.name.clone(),
            settings: settings.clone(),
            controls: variant.controls.clone(),
        });
        let info = experiment_info(&experiment, variants.collect(), figures.seed, None);
        let places = (0..5).flat_map(|block| [(block, 0), (block, 1)]);
        let trials: Vec<Trial> = places.map(|place| trial(&info, place, figures)).collect();
        Store::create(&folder.path().join("kept.carat"), &info).unwrap().add(&trials).unwrap();
        (folder, ExperimentSource { path, settings: Vec::new() })
    }

    fn export(file: &Path, audience: Audience) -> String {
        json(&concluded(&Store::open(file).unwrap()).unwrap(), audience).unwrap()
    }

    /// Exports that are tried; `bin/test --quick` tries few.
    fn tries() -> u32 {
        std::env::var("CARAT_TEST_TRIES").map_or(40, |number| number.parse().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tries()))]

        #[test]
        fn an_export_that_is_restored_and_exported_again_is_the_same_byte_for_byte(
            figures in figures(),
            variables in prop::sample::subsequence(VARIABLES.to_vec(), 0..=VARIABLES.len()),
        ) {
            let (folder, source) = kept(&variables, &figures);
            for audience in [Audience::Own, Audience::Shared] {
                let first = export(&folder.path().join("kept.carat"), audience);
                let path = folder.path().join("export.json");
                fs::write(&path, &first).unwrap();
                let new = folder.path().join(format!("{audience:?}.carat"));
                let restored = restore(&path, Some(&source), &new).unwrap();
                prop_assert_eq!((restored.copied, restored.resumable), (10, true));
                prop_assert_eq!(export(&new, audience), first);
            }
        }
    }

    /// The export of an experiment with these variables after `change`, restored.
    fn restore_changed(
        variables: &[&str],
        with_file: bool,
        change: impl Fn(&str) -> String,
    ) -> Result<Salvaged, RestoreError> {
        let figures = Figures { seed: 5, values: vec![7e7; 10], memory: Vec::new(), ended: false };
        let (folder, source) = kept(variables, &figures);
        let path = folder.path().join("export.json");
        let exported = export(&folder.path().join("kept.carat"), Audience::Shared);
        fs::write(&path, change(&exported)).unwrap();
        let new = folder.path().join("new.carat");
        let restored = restore(&path, Some(&source).filter(|_| with_file), &new);
        assert_eq!(new.exists(), restored.is_ok());
        restored
    }

    #[test]
    fn an_export_without_hidden_parts_needs_no_experiment_file_and_another_one_does() {
        let same = str::to_owned;
        assert_eq!(restore_changed(&VARIABLES[..1], false, same).unwrap().copied, 10);
        let hidden = restore_changed(&VARIABLES[..2], false, same).unwrap_err();
        assert!(matches!(hidden, RestoreError::HiddenText(_)), "{hidden}");
        assert_eq!(restore_changed(&VARIABLES[..2], true, same).unwrap().copied, 10);
    }

    #[test]
    fn an_export_that_contradicts_its_plan_is_refused() {
        let changed = |from: &'static str, to: &'static str| {
            let change = move |text: &str| {
                assert!(text.contains(from), "{text}");
                text.replace(from, to)
            };
            [false, true].map(|with_file| restore_changed(&VARIABLES[..1], with_file, change))
        };
        for text in changed("requests = 1", "requests = 2") {
            assert!(matches!(text, Err(RestoreError::OtherText(_))), "{text:?}");
        }
        let [alone, with_file] = changed("\"plan_hash\": \"", "\"plan_hash\": \"0");
        assert!(matches!(alone, Err(RestoreError::OtherText(_))), "{alone:?}");
        assert!(matches!(with_file, Err(RestoreError::OtherPlan { .. })), "{with_file:?}");
        for (from, to, expected) in [
            ("\"margin\": 0.0025", "\"margin\": 0.01", "the margin"),
            ("\"latency.p95\": 0.07", "\"latency.p95\": 0.5", "the list of guards"),
            (
                "\"primary\": \"memory.rss.final\"",
                "\"primary\": \"latency.p95\"",
                "the primary metric",
            ),
            (
                "\"controls\": [\n          \"default\"",
                "\"controls\": [\n          \"other\"",
                "the list of variants",
            ),
        ] {
            for refused in changed(from, to) {
                match refused {
                    Err(RestoreError::OtherQuestion { what, .. }) => assert_eq!(what, expected),
                    other => panic!("{expected}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_trial_that_does_not_follow_from_the_plan_is_left_out_and_listed() {
        let change = |text: &str| text.replacen("\"block\": 1,", "\"block\": 9,", 1);
        let restored = restore_changed(&[], false, change).unwrap();
        assert_eq!((restored.copied, restored.lost.len()), (9, 1));
        assert!(restored.lost[0].contains("its id does not follow"), "{:?}", restored.lost);
    }
}
