//! The faces of results: figures equal the results', hostile text stays text, odd inputs stay sensible.

use crate::report_builder::{Effect, Recipe};
use carat::model::Outcome;
use carat::report::{PageOptions, Style, html, terminal};

#[test]
fn a_page_stays_under_its_size_whatever_the_input() {
    let effects = ["a", "b", "c", "d", "e"].map(|name| Effect { name, memory: 0.9, latency: 1.0 });
    let many = Recipe {
        effects: effects.into(),
        blocks: 500,
        samples: 40,
        responses: 20,
        ..Recipe::default()
    };
    let page = html(&many.build(), &PageOptions::default());
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn one_trial_gives_a_page_and_a_table() {
    let mut results = Recipe { blocks: 1, ..Recipe::default() }.build();
    let page = html(&results, &PageOptions::default());
    assert!(page.contains("cannot be judged yet: 1 block"), "{page}");
    results.trials.truncate(1);
    let text = terminal(&results, Style::default());
    assert!(text.contains("cannot be judged yet"), "{text}");
}

#[test]
fn trials_that_failed_are_counted_and_named() {
    let mut results = Recipe::default().build();
    results.trials[5].outcome = Outcome::OomKilled;
    let text = terminal(&results, Style::default());
    assert!(text.contains("compact: trials that do not count: 1 oom-killed"), "{text}");
}

#[test]
#[ignore = "writes pages to look at into the folder CARAT_PAGES"]
fn pages_to_look_at() {
    let folder =
        std::path::PathBuf::from(std::env::var_os("CARAT_PAGES").expect("CARAT_PAGES is set"));
    for (name, recipe) in [("compact", Recipe::default()), ("arenas", Recipe::arenas())] {
        let results = recipe.build();
        let page = html(
            &results,
            &PageOptions {
                generated_at: Some("2026-11-21 13:30 UTC".into()),
                ..PageOptions::default()
            },
        );
        std::fs::write(folder.join(format!("{name}.html")), page).unwrap();
        std::fs::write(folder.join(format!("{name}.txt")), terminal(&results, Style::default()))
            .unwrap();
    }
}
