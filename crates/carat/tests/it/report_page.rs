//! The page in a real browser: no error, no request, figures as in the JSON, hostile text stays text.
//!
//! With `CARAT_TEST_PAGES=FOLDER` the pages stay there.

use crate::needs::BROWSER;
use crate::report_builder::{Effect, PAYLOAD, Recipe, conclude, hostile};
use crate::report_examples::{ledger, reading, recording, search};
use carat_model::{Outcome, Results};
use carat_report::{
    Audience, PageOptions, comparison_html, from_json, html, json, ledger_html, recording_html,
    tune_html,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As people name the variants of a real app.
pub(crate) const LONG_NAME: &str =
    "prepared fork without compaction, two arenas, jemalloc 5.3 and four threads per worker";

fn cases() -> Vec<(&'static str, Results)> {
    let crowd = ["a", "b", "c", "d", "e"].map(|name| Effect { name, memory: 0.97, latency: 1.0 });
    let crowd = Recipe {
        effects: crowd.into(),
        blocks: 500,
        samples: 12,
        responses: 20,
        ..Recipe::default()
    };
    let mut lonely = Recipe { blocks: 1, ..Recipe::default() }.build();
    lonely.info.variants.truncate(1);
    lonely.trials.retain(|trial| trial.variant == "default");
    conclude(&mut lonely);
    let mut missing = Recipe::default().build();
    for trial in missing.trials.iter_mut().filter(|trial| trial.variant == "compact") {
        trial.metrics.remove("latency.p95");
        trial.load = None;
        trial.samples.clear();
    }
    conclude(&mut missing);
    let mut broken = Recipe::default().build();
    broken.trials.iter_mut().for_each(|trial| trial.outcome = Outcome::NeverReady);
    conclude(&mut broken);
    let long = Recipe {
        effects: vec![
            Effect { name: "default", memory: 1.0, latency: 1.0 },
            Effect { name: LONG_NAME, memory: 0.8, latency: 1.0 },
        ],
        ..Recipe::arenas()
    };
    vec![
        ("long-name", long.build()),
        ("built-compact", Recipe::default().build()),
        ("built-arenas", Recipe::arenas().build()),
        ("built-cable", Recipe::cable().build()),
        ("crowd", crowd.build()),
        ("one-trial", lonely),
        ("missing-metric", missing),
        ("nothing-counts", broken),
        ("hostile", hostile(Recipe::default().build())),
    ]
}

/// The experiments whose results are kept in the repository, as a reader gets them.
fn kept() -> Vec<(String, Results)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence");
    let folders = ["experiments", "remedies"].map(|folder| docs.join(folder));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut kept: Vec<(String, Results)> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let folder = path.parent().and_then(Path::file_name).unwrap().to_string_lossy();
            let name = format!("{folder}-{}", path.file_stem().unwrap().to_string_lossy());
            (name, from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        })
        .collect();
    kept.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(kept.len() >= 5, "only {} kept results were found", kept.len());
    kept
}

/// Where the pages are written.
enum Folder {
    Kept(PathBuf),
    Passing(tempfile::TempDir),
}

impl Folder {
    fn new() -> Self {
        match std::env::var_os("CARAT_TEST_PAGES") {
            Some(kept) => Self::Kept(kept.into()),
            None => Self::Passing(tempfile::tempdir().expect("a folder can be made")),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.path(),
        }
    }

    fn keep(self) -> PathBuf {
        match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.keep(),
        }
    }
}

fn other_pages() -> Vec<(&'static str, String)> {
    let options = PageOptions::default();
    let mut other = Recipe { seed: 7, ..Recipe::default() }.build();
    for trial in &mut other.trials {
        trial.machine.insert("ruby".into(), "3.3.8 (x86_64-linux-gnu)".into());
    }
    vec![
        ("recording", recording_html(&recording("hello"), &options)),
        ("recording-hostile", recording_html(&recording(PAYLOAD), &options)),
        ("search", tune_html(&search("arena_max=2"), &options)),
        ("search-hostile", tune_html(&search(PAYLOAD), &options)),
        (
            "ledger",
            ledger_html(
                "puma",
                &ledger("hello"),
                carat_analysis::LedgerSource::Processes(None),
                &options,
            ),
        ),
        (
            "ledger-hostile",
            ledger_html(
                PAYLOAD,
                &ledger(PAYLOAD),
                carat_analysis::LedgerSource::Processes(None),
                &options,
            ),
        ),
        (
            "ledger-outside",
            ledger_html(
                "puma",
                &ledger("hello"),
                carat_analysis::LedgerSource::Processes(Some(&reading("Post"))),
                &options,
            ),
        ),
        (
            "ledger-outside-hostile",
            ledger_html(
                PAYLOAD,
                &ledger(PAYLOAD),
                carat_analysis::LedgerSource::Processes(Some(&reading(PAYLOAD))),
                &options,
            ),
        ),
        (
            "comparison",
            comparison_html(
                &[Recipe::default().build(), other, hostile(Recipe::arenas().build())],
                &options,
            ),
        ),
    ]
}

#[test]
fn the_page_works_in_a_browser_and_its_figures_are_those_of_the_json() {
    require!(Browser);
    let tools = BROWSER.clone().unwrap();
    let folder = Folder::new();
    let made = cases().into_iter().map(|(name, results)| (name.to_owned(), results));
    let mut written = BTreeSet::new();
    for (name, results) in made.chain(kept()) {
        assert!(written.insert(name.clone()), "two pages are called {name}");
        let options =
            PageOptions { generated_at: Some("2026-11-21".into()), ..PageOptions::default() };
        let page = html(&results, &options);
        assert!(page.len() <= 450_000, "{name}: {} bytes", page.len());
        std::fs::write(folder.path().join(format!("{name}.html")), page).unwrap();
        let text = json(&results, Audience::Own).unwrap();
        std::fs::write(folder.path().join(format!("{name}.json")), text).unwrap();
    }
    for (name, page) in other_pages() {
        assert!(written.insert(name.to_owned()), "two pages are called {name}");
        assert!(page.len() <= 450_000, "{name}: {} bytes", page.len());
        std::fs::write(folder.path().join(format!("{name}.html")), page).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/check.mjs");
    let run = Command::new(tools.node)
        .arg(script)
        .arg(tools.browser)
        .arg(tools.axe)
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    if !run.status.success() {
        panic!(
            "pages are kept in {}\n{said}{}",
            folder.keep().display(),
            String::from_utf8_lossy(&run.stderr)
        );
    }
}
