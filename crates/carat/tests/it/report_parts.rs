//! What pages, terminal, Markdown and JSON say of the parts of memory, of steps, names and failures.

use crate::report_builder::{Effect, Recipe, conclude, with_control};
use crate::report_examples::{ledger, recording};
use crate::report_page::LONG_NAME;
use carat_model::{Bytes, GrowthKind, Outcome, Results, Unit};
use carat_report::{
    Audience, PageOptions, Style, figures, html, json, ledger_html, markdown, recording_html,
    terminal,
};
use serde_json::Value;

fn page(results: &Results) -> String {
    html(results, &PageOptions::default())
}

/// On one line, as a reader reads it.
fn text(results: &Results) -> String {
    let text = terminal(results, Style { width: 200, ..Style::default() });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_format_names_the_part_that_makes_the_saving() {
    let results = Recipe::arenas().build();
    let exported: Value = serde_json::from_str(&json(&results, Audience::Own).unwrap()).unwrap();
    let found = exported["part_differences"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!((&found[0]["variant"], &found[0]["blocks"]), (&"arena_max = 2".into(), &12.into()));
    let sentence = found[0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("malloc free ") && sentence.contains(" MB is nearly all of the "));
    assert!(sentence.ends_with(" MB saved (medians over 12 blocks)"), "{sentence}");
    for shown in [page(&results), markdown(&results, Audience::Own), text(&results)] {
        assert!(shown.contains(sentence), "{sentence}: {shown}");
        assert!(shown.to_lowercase().contains("where the saving comes from"), "{shown}");
    }
}

#[test]
fn the_differences_of_the_parts_add_up_to_that_of_all_memory_in_json() {
    let results = Recipe::arenas().build();
    let exported: Value = serde_json::from_str(&json(&results, Audience::Own).unwrap()).unwrap();
    for found in exported["part_differences"].as_array().unwrap() {
        for figure in ["baseline", "variant", "difference"] {
            let parts = found["parts"].as_array().unwrap().iter();
            let sum: f64 = parts.map(|part| part[figure].as_f64().unwrap()).sum();
            assert!((sum - found["all"][figure].as_f64().unwrap()).abs() < 1.0, "{found}");
        }
        let printed = Unit::Bytes.show(found["all"]["variant"].as_f64().unwrap());
        assert!(page(&results).contains(&format!(">{printed}</td>")), "{printed}");
    }
}

#[test]
fn a_verdict_about_another_moment_or_figure_than_the_parts_is_said() {
    let parts = "proportional memory (PSS) after 1,500 requests";
    let same = Recipe::arenas().build();
    assert!(text(&same).contains(parts) && !text(&same).contains("whereas the verdict"));
    let peak = Recipe { primary: "memory.pss.peak", ..Recipe::arenas() }.build();
    let whereas = format!("{parts}, whereas the verdict is about peak memory over the whole trial");
    assert!(text(&peak).contains(&whereas), "{}", text(&peak));
    let resident = Recipe { primary: "memory.rss.final", ..Recipe::arenas() }.build();
    let whereas = format!("{parts}, whereas the verdict is about resident memory");
    assert!(text(&resident).contains(&whereas), "{}", text(&resident));
}

#[test]
fn memory_over_the_least_is_one_line_with_n_and_an_interval_in_every_format() {
    let results = Recipe::cable().build();
    let exported: Value = serde_json::from_str(&json(&results, Audience::Own).unwrap()).unwrap();
    let found = exported["results"]["least"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["trials"]), (4, &12.into()));
    let [low, high] = [0_usize, 1].map(|end| found[0]["interval"][end].as_f64().unwrap());
    let median = found[0]["median"].as_f64().unwrap();
    assert!(low < median && median < high, "{found:?}");
    let expected = format!(
        "× the least this app can have: default {median:.2} ({low:.2} to {high:.2}, n = 12) · arena"
    );
    for shown in [page(&results), markdown(&results, Audience::Own), text(&results)] {
        assert!(shown.contains(&expected), "{expected}: {shown}");
    }
    let figures = figures(&results, Audience::Own).unwrap();
    let figure = format!("\"over-least\": \"{median:.2} × ({low:.2} to {high:.2})\"");
    assert!(figures.contains(&figure), "{figure}: {figures}");
    let alone = Recipe::arenas().build();
    assert!(!page(&alone).contains("id=\"least\"") && !text(&alone).contains("the least this"));
}

#[test]
fn results_without_ledgers_have_no_section_about_parts() {
    let results = Recipe::default().build();
    assert!(!page(&results).contains("id=\"saving\""));
    assert!(!json(&results, Audience::Own).unwrap().contains("part_differences"));
}

#[test]
fn every_step_of_a_scenario_has_its_percentiles_on_page_and_in_markdown() {
    let results = Recipe::arenas().build();
    let comment = markdown(&results, Audience::Own);
    let row = "| visit, step 2: POST /login | default | 12 | 750 | 0 | 6.00 ms | 18.00 ms | – |";
    assert!(comment.contains(row), "{comment}");
    let page = page(&results);
    let rows = page.split_once("id=\"routes\"").unwrap().1.split_once("</section>").unwrap().0;
    assert_eq!(rows.matches("visit, step 2: POST /login").count(), 4, "one row per variant");
    assert!(rows.contains(">18.00 ms</td>"), "{rows}");
}

#[test]
fn a_long_name_is_cut_nowhere() {
    let effects = vec![
        Effect { name: "default", memory: 1.0, latency: 1.0 },
        Effect { name: LONG_NAME, memory: 0.8, latency: 1.0 },
    ];
    let results = Recipe { effects, ..Recipe::arenas() }.build();
    let page = page(&results);
    // The hash of the plan is shortened on purpose.
    let without_hash = page.replace("(plan 9f2c4e5ab1d0…)", "");
    assert!(!without_hash.contains('…'), "{}", without_hash.split_once('…').unwrap().0.len());
    assert!(!markdown(&results, Audience::Own).contains('…'));
    let text = terminal(&results, Style::default());
    assert!(!text.contains('…'), "{text}");
    let above = format!("\n  {LONG_NAME}\n");
    assert!(text.matches(&above).count() >= 2, "above its figures: {text}");
}

#[test]
fn a_comparison_with_a_control_lists_the_differences_of_its_few_blocks() {
    let mut results = with_control(Recipe { blocks: 2, ..Recipe::arenas() }.build());
    for compared in &mut results.controls {
        (compared.conclusion.estimate, compared.conclusion.blocks) = (None, 2);
        compared.part = None;
    }
    let text = text(&results);
    let said = "against its control arena_max = 2 it cannot be judged yet (2 blocks); so far −";
    assert!(text.contains(said), "{text}");
    let (_, after) = text.split_once(said).unwrap();
    let blocks = after.split_once("(by block ").unwrap().1.split_once(')').unwrap().0;
    assert_eq!(blocks.split(", ").count(), 2, "{blocks}");
}

#[test]
fn where_no_trial_succeeded_the_cause_is_the_headline() {
    let mut results = Recipe::default().build();
    for trial in &mut results.trials {
        trial.outcome = Outcome::NeverReady;
        trial.detail = Some("not ready after 60 s: Address already in use".into());
        trial.metrics.clear();
    }
    conclude(&mut results);
    let cause = "No trial succeeded. default: not ready after 60 s: Address already in use";
    let page = page(&results);
    assert!(page.contains(&format!("<h1>{cause}</h1>")), "{page}");
    assert!(text(&results).starts_with(&format!("! {cause}")), "{}", text(&results));
    assert!(markdown(&results, Audience::Own).contains("No trial succeeded"));
}

#[test]
fn the_page_of_a_ledger_has_findings_allocator_heap_and_arenas() {
    let page = ledger_html(
        "puma",
        &ledger("hello"),
        carat_analysis::LedgerSource::Processes(None),
        &PageOptions::default(),
    );
    for part in ["What to try", "id=\"allocator\"", "id=\"heap\"", "id=\"arenas\""] {
        assert!(page.contains(part), "{part}");
    }
    for text in ["4300 master", "4301 worker 0", "glibc: hello", "15.00 %", ": 9 arenas"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn the_page_of_a_ledger_says_why_slots_are_unknown_and_what_ruby_holds() {
    let mut ledger = ledger("hello");
    ledger.processes[0].slots_unknown = Some("the collector is not CRuby's own".into());
    ledger.processes[1].heap.as_mut().unwrap().malloc_of_ruby = Some(Bytes(12_000_000));
    let page = ledger_html(
        "puma",
        &ledger,
        carat_analysis::LedgerSource::Processes(None),
        &PageOptions::default(),
    );
    for text in [
        "Slots unknown in 4300 master: the collector is not CRuby",
        "Ruby itself holds 12.00 MB from malloc",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_recording_names_its_processes_and_counts_no_page_twice() {
    let page = recording_html(&recording("hello"), &PageOptions::default());
    for text in ["master", "worker 0", "worker 3", "worker 2 starts", "full GC", "per process"] {
        assert!(page.contains(text), "{text}");
    }
    let live = page.split_once("\"name\":\"malloc live\"").unwrap().1;
    let values = live.split_once("\"y\":[").unwrap().1.split_once(']').unwrap().0;
    let values: Vec<f64> = values.split(',').map(|value| value.parse().unwrap()).collect();
    assert!(values.iter().all(|value| *value < 100e6), "one process has 95 to 97 MB: {values:?}");
    assert!(page.contains("Undecided: kept objects"), "undecided parts are one line");
}

#[test]
fn the_page_of_a_recording_has_the_steps_of_its_load() {
    let mut recording = recording("hello");
    let load = recording.end.as_mut().unwrap().load.as_mut().unwrap();
    let mut trials = Recipe::arenas().build().trials.into_iter();
    load.report = trials.find(|trial| trial.variant == "default").unwrap().load;
    let page = recording_html(&recording, &PageOptions::default());
    let rows = page.split_once("id=\"routes\"").unwrap().1.split_once("</section>").unwrap().0;
    for text in ["visit, step 2: POST /login", "responses", "18.00 ms"] {
        assert!(rows.contains(text), "{text}: {rows}");
    }
    assert!(!rows.contains("variant"), "{rows}");
}

#[test]
fn undecided_growth_is_one_line_for_all_variants_that_have_it() {
    let mut results = Recipe::arenas().build();
    for growth in &mut results.growth {
        growth.parts.truncate(1);
        growth.parts[0].kind = GrowthKind::Undecided;
        (growth.parts[0].required, growth.parts[0].needed) = (None, Some(90e3));
    }
    let line = "Undecided: all memory of every variant; about 90,000 requests would decide.";
    assert!(page(&results).contains(line), "{}", page(&results));
    results.growth[0].parts[0].kind = GrowthKind::Flat;
    let line = "Undecided: all memory of arena_max = 2, jemalloc, trim at full GC; about 90,000";
    assert!(page(&results).contains(line), "{}", page(&results));
}

#[test]
fn no_two_elements_of_a_page_have_one_name_where_variants_are_more_than_colours() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let effects = names.map(|name| Effect { name, memory: 0.97, latency: 1.0 }).into();
    let page = page(&Recipe { effects, ..Recipe::default() }.build());
    let ids = page.split(" id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let mut ids: Vec<&str> = ids.map(|(id, _)| id).collect();
    assert!(ids.contains(&"memory-9") && ids.contains(&"memory-1-t"), "{ids:?}");
    ids.sort_unstable();
    let twice: Vec<_> = ids.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn the_unit_of_memory_is_said_once() {
    let results = Recipe::arenas().build();
    for text in [page(&results), markdown(&results, Audience::Own), text(&results)] {
        assert_eq!(text.matches("MB are 10⁶ bytes").count(), 1, "{text}");
    }
}

#[test]
fn a_comment_says_what_every_variant_sets_also_by_a_profile() {
    let mut results = Recipe::arenas().build();
    let set = [("allocator", "jemalloc"), ("worker_growth", "40000")];
    results.info.variants[1].settings =
        set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let comment = markdown(&results, Audience::Own);
    for row in [
        "| default | none |\n",
        "| arena\\_max = 2 | allocator=jemalloc, worker\\_growth=40000 |\n",
        "| jemalloc | allocator=jemalloc |\n",
    ] {
        assert!(comment.contains(row), "{row}{comment}");
    }
}
