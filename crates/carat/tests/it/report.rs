//! The formats of results: figures equal those of the results, hostile text stays text, unusual inputs give sensible output.

use crate::report_builder::{Effect, PAYLOAD, Recipe, conclude, hostile, with_control};
use crate::report_examples::{ledger, recording};
use carat_analysis::{Question, class_comparisons, question};
use carat_model::{
    ClassAmount, ControlComparison, DailyGrowth, GrowthKind, MemoryFigure, MomentComparison,
    Outcome, PartAtWork, PartGrowth, ProgressUnit, Results, TrackedPart, TrialCensus, Unit,
    VariantGrowth,
};
use carat_report::{
    Audience, Budget, FIGURES_SCHEMA, Kept, NextCommands, PageOptions, SCHEMA, Style, budget,
    budget_next, comparison_html, csv, figures, from_json, html, json, ledger_html, markdown,
    openmetrics, recording_html, terminal,
};
use serde_json::Value;

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
    assert!(page.len() <= 450_000, "{} bytes", page.len());
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
fn connection_steps_have_a_verdict_over_the_whole_and_where_single_steps_differ() {
    let results = Recipe { blocks: 15, responses: 20, ..Recipe::cable() }.build();
    let whole = results.curves.iter().find(|c| c.metric == "broadcast.complete.p95").unwrap();
    let estimate = whole.estimate.unwrap();
    let text = terminal(&results, Style::default());
    assert!(text.contains("time until every connection has a broadcast"), "{text}");
    assert!(text.contains("over all steps"), "{text}");
    let page = html(&results, &PageOptions::default());
    assert!(page.contains("difference of the p95"), "the table has the steps");
    assert!(page.contains(&format!("data-v=\"{}\"", whole.steps[9].estimate.unwrap().ratio)));
    for format in [page, markdown(&results, Audience::Own)] {
        assert!(format.contains("sender's own result"), "{format}");
    }
    let truth = Recipe::cable().effects[1].latency - 1.0;
    let (low, high) = estimate.ratio_interval;
    assert!(low < truth && truth < high, "{estimate:?}");
}

#[test]
fn growth_over_the_load_is_one_line_per_variant_with_its_cause() {
    let mut results = Recipe::default().build();
    let part = |part, kind, rate| PartGrowth {
        rate: Some(rate),
        interval: Some((rate * 0.9, rate * 1.1)),
        at_most: Some(rate * 1.1),
        tolerance: Some(4.0),
        per_day: Some(DailyGrowth {
            amount: rate * 86.4e6,
            interval: Some((rate * 77.76e6, rate * 95.04e6)),
            progress_per_s: 1000.0,
        }),
        ..PartGrowth::without_figures(part, kind, ProgressUnit::Requests, 300e3)
    };
    let grown = |memory, kept| {
        vec![part(TrackedPart::Memory, memory, 31.6), part(TrackedPart::KeptObjects, kept, 0.5)]
    };
    let names: Vec<String> = results.info.variants.iter().map(|v| v.name.clone()).collect();
    let growth = |name: &String, kind| VariantGrowth {
        variant: name.clone(),
        parts: grown(GrowthKind::Undecided, kind),
    };
    results.growth = names.iter().map(|name| growth(name, GrowthKind::Undecided)).collect();
    assert!(!terminal(&results, Style::default()).contains("growth over the load"));
    results.growth[1] = growth(&names[1], GrowthKind::Linear);
    let text = terminal(&results, Style { width: 300, ..Style::default() });
    let want = format!("  {} is undecided after 300,000 requests", names[1]);
    assert!(text.contains(&want) && text.contains("what grows: Ruby objects"), "{text}");
    let title = "all trials of a variant together; growth below 4.0 B per request or 4.00 objects";
    assert!(text.contains(title), "{text}");
    let comment = markdown(&results, Audience::Own);
    let daily = "31.6 B per request, 2.73 GB per day at 1,000 requests per second";
    assert!(comment.contains("- **") && comment.contains("what grows: Ruby objects"), "{comment}");
    results.growth[0].parts[0].kind = GrowthKind::Linear;
    assert!(markdown(&results, Audience::Own).contains(daily));
    assert!(terminal(&results, Style { width: 300, ..Style::default() }).contains(daily));
    let page = html(&results, &PageOptions::default());
    assert!(page.contains(daily) && page.contains(">2.73 GB</td>"), "{page}");
    assert!(page.contains("Growth over the load") && page.contains("What grows: Ruby objects"));
    assert!(page.contains("grows by 0.50 objects per request"), "{page}");
}

#[test]
fn trials_that_failed_are_counted_and_named() {
    let mut results = Recipe::default().build();
    results.trials[5].outcome = Outcome::OomKilled;
    let text = terminal(&results, Style::default());
    assert!(text.contains("compact: trials that do not count: 1 oom-killed"), "{text}");
}

#[test]
fn very_long_texts_do_not_make_a_very_long_page() {
    let mut results = Recipe { responses: 10, ..Recipe::arenas() }.build();
    results.info.plan_text = "x".repeat(700_000);
    results.warnings = vec!["y".repeat(50_000); 60];
    for trial in &mut results.trials {
        trial.outcome = Outcome::Crashed;
        trial.log_tail = "z".repeat(10_000);
    }
    let page = html(&results, &PageOptions::default());
    assert!(page.len() <= 450_000, "{} bytes", page.len());
    assert!(page.contains("leaves out long texts"), "it says so");
}

/// Every format of results, with its name.
pub(crate) fn formats(results: &Results, audience: Audience) -> Vec<(&'static str, String)> {
    let options = PageOptions { audience, generated_at: None };
    vec![
        ("page", html(results, &options)),
        ("comparison", comparison_html(std::slice::from_ref(results), &options)),
        ("json", json(results, audience).unwrap()),
        ("csv", csv(results, audience)),
        ("markdown", markdown(results, audience)),
        ("openmetrics", openmetrics(results, audience)),
    ]
}

/// Results with a canary in every field that may hold a secret, a path or a name.
fn with_canaries() -> Results {
    let mut results = Recipe::default().build();
    let secrets = "REDIS_URL=redis://ann:canary-1@db/0 SECRET_KEY_BASE=canary-2 --token canary-3";
    results.info.plan_text =
        format!("[server.env]\nMASTER_KEY = \"canary-4\"\nFEED = \"canary-private\"\n# {secrets}");
    results.info.about = Some(secrets.into());
    results.warnings = vec![secrets.into()];
    let machine = &mut results.trials[4].machine;
    machine.insert("command".into(), format!("/srv/canary-path/app/bin/puma {secrets}"));
    machine.insert("api_key".into(), "canary-5".into());
    results.info.variants[1].settings.insert("AWS_SECRET_ACCESS_KEY".into(), "canary-6".into());
    results.info.variants[1].settings.insert("FEED".into(), "canary-private".into());
    results.trials[4].outcome = Outcome::Crashed;
    results.trials[4].detail = Some(format!("on weighing-room-7 by annabel: {secrets}"));
    results.trials[4].notes = vec![secrets.into()];
    results.trials[4].log_tail = format!("canary-log {secrets}");
    let baseline = results.info.variants[0].name.clone();
    for trial in &mut results.trials {
        let objects = if trial.variant == baseline { 20 } else { 10 };
        let amount = ClassAmount { objects, slot_bytes: 40 * objects, malloc_bytes: None };
        let classes = [("canary-class secret=canary-8".to_owned(), amount)];
        let sample = trial.samples.last_mut().unwrap();
        sample.census = Some(Box::new(TrialCensus::new(1, classes.into())));
    }
    conclude(&mut results);
    let variants = results.info.variants.iter().map(|variant| variant.name.as_str());
    let question = Question::new(&variants.collect::<Vec<_>>(), &results.info.primary);
    results.classes = class_comparisons(&question, &results.trials);
    results
}

#[test]
fn the_objects_by_class_are_on_the_page_and_a_shared_one_numbers_the_classes() {
    for (audience, name) in [(Audience::Own, "canary-class"), (Audience::Shared, "class 1")] {
        let page = html(&with_canaries(), &PageOptions { audience, generated_at: None });
        let section = page.split_once("id=\"classes\"").expect("a section").1;
        assert!(section.split_once("</section>").unwrap().0.contains(name), "{audience:?}");
    }
}

#[test]
fn no_format_shows_a_secret() {
    let mut all = formats(&with_canaries(), Audience::Own);
    all.push(("terminal", terminal(&with_canaries(), Style::default())));
    all.push((
        "ledger",
        ledger_html(
            "puma",
            &ledger("password=canary-7"),
            carat_analysis::LedgerSource::Processes(None),
            &PageOptions::default(),
        ),
    ));
    all.push((
        "recording",
        recording_html(&recording("password=canary-7"), &PageOptions::default()),
    ));
    for (name, text) in all {
        for number in 1..9 {
            let canary = format!("canary-{number}");
            assert!(!text.contains(&canary), "{name} shows {canary}");
        }
    }
}

#[test]
fn a_shared_report_names_neither_host_nor_user_nor_paths_nor_private_variables() {
    for (name, text) in formats(&with_canaries(), Audience::Shared) {
        for canary in ["canary-", "weighing-room-7", "annabel"] {
            assert!(!text.contains(canary), "{name} shows {canary}");
        }
    }
}

#[test]
fn hostile_text_stays_text_in_every_format() {
    let results = hostile(with_control(Recipe::arenas().build()));
    for (name, text) in formats(&results, Audience::Own) {
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{name} has a control character");
        if ["page", "comparison", "markdown"].contains(&name) {
            assert!(!text.contains("<img") && !text.contains("<script>window"), "{name}");
        }
    }
    let table = csv(&results, Audience::Own);
    assert!(table.lines().next().unwrap().contains(",warmup_block,"), "{table}");
    let columns = |line: &str| line.split(',').count();
    assert!(
        table.lines().all(|line| columns(line) >= columns(table.lines().next().unwrap())),
        "{table}"
    );
    let text = terminal(&results, Style { colour: true, width: 80, ..Style::default() });
    assert!(!text.contains("\u{1b}[31m\u{202e}") && !text.contains('\u{7}'), "{text}");
    assert!(text.contains(&PAYLOAD[..20]), "the text itself is shown: {text}");
}

#[test]
fn json_names_its_schema_and_reads_back() {
    let results = Recipe::default().build();
    let value: serde_json::Value =
        serde_json::from_str(&json(&results, Audience::Own).unwrap()).unwrap();
    assert_eq!(value["schema"], SCHEMA);
    let back: Results = serde_json::from_value(value["results"].clone()).unwrap();
    assert_eq!(
        (&back.info.variants, &back.conclusions.len()),
        (&results.info.variants, &results.conclusions.len())
    );
    for (one, other) in back.trials.iter().zip(&results.trials) {
        assert_eq!((&one.id, one.outcome, &one.load), (&other.id, other.outcome, &other.load));
    }
}

#[test]
fn openmetrics_has_units_and_an_end() {
    let text = openmetrics(&Recipe::arenas().build(), Audience::Own);
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("# UNIT carat_memory_pss_final_bytes bytes\n"), "{text}");
    let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    let distinct: std::collections::BTreeSet<&str> =
        text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(families, distinct.len(), "{text}");
}

#[test]
fn a_budget_is_broken_kept_or_unproven_by_the_whole_interval() {
    let results = Recipe::arenas().build();
    let judged = |text: &str| -> Vec<Kept> {
        budget(&results, &[Budget::parse(text).unwrap()]).iter().map(|o| o.kept).collect()
    };
    assert_eq!(judged("memory.pss.final<+2%"), [Kept::Yes, Kept::Yes, Kept::Yes]);
    assert_eq!(judged("latency.p95<+5%")[1..], [Kept::Yes, Kept::Broken]);
    assert_eq!(judged("memory.pss.final<-21%")[0], Kept::Unproven);
    assert_eq!(
        judged("memory.pss.final<400MB"),
        [Kept::Broken, Kept::Unproven, Kept::Yes, Kept::Broken],
        "the second has a median of 393 MB, but its interval holds 400 MB"
    );
    assert_eq!(judged("broadcast.own.p95<1s"), [Kept::Unproven; 4], "no figure is no pass");
    let line = budget(&results, &[Budget::parse("latency.p95<+5%").unwrap()])[2].to_string();
    assert!(line.starts_with("✗ latency.p95<+5% BROKEN by trim at full GC: +"), "{line}");
}

#[test]
fn a_budget_that_cannot_be_told_says_what_would_decide_it() {
    let results = Recipe::arenas().build();
    let spent = |most| {
        let mut spent = results.clone();
        spent.info.max_blocks = most;
        spent
    };
    let next = NextCommands {
        resume: Some("carat compare a.toml --resume".into()),
        anew: Some("carat compare a.toml --fresh".into()),
        plan: Some("carat plan a.carat".into()),
        details: Vec::new(),
    };
    let said = |results: &Results, text: &str| {
        let outcomes = budget(results, &[Budget::parse(text).unwrap()]);
        budget_next(results, &outcomes, &next)
    };
    assert_eq!(said(&results, "memory.pss.final<+2%"), None, "it is kept");
    let guard = said(&results, "latency.p95<+0.4%").unwrap();
    assert!(guard.starts_with("the experiment ended because its own questions"), "{guard}");
    assert!(
        guard.contains("guard of latency.p95") && guard.contains("--fresh --budget"),
        "{guard}"
    );
    // Two blocks: more may be added, up to the fewest that decide anything.
    let mut few = spent(2);
    few.trials.retain(|trial| trial.block <= 2);
    let asked = question(&few.info);
    carat_analysis::conclude(&mut few, &asked);
    let added = said(&few, "memory.pss.final<-21%").unwrap();
    assert!(added.starts_with("carat compare a.toml --resume --blocks "), "{added}");
    let ended = said(&spent(12), "memory.pss.final<-21%").unwrap();
    assert!(ended.contains("--fresh --blocks ") || ended.contains("plan"), "{ended}");
    // An interrupted run goes on.
    few.info.max_blocks = 30;
    let resumed = said(&few, "memory.pss.final<-21%").unwrap();
    assert_eq!(resumed, "carat compare a.toml --resume --budget 'memory.pss.final<-21%'");
}

#[test]
fn the_terminal_text_has_sentences_and_fits_its_width() {
    let text = terminal(&Recipe::arenas().build(), Style::default());
    assert!(
        text.starts_with("▼ arena_max = 2 uses 21 % less memory after 1,500 requests than default"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colour unless asked");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let narrow = terminal(&Recipe::arenas().build(), Style { width: 60, ..Style::default() });
    assert!(narrow.contains("▼ smaller"), "{narrow}");
}

/// What every format calls the moments of [`Recipe::arenas`], in order.
const MOMENTS: [&str; 6] = [
    "ready",
    "start of the load",
    "after 300 requests",
    "after 1,000 requests",
    "after the load",
    " idle",
];

/// Asserts that a text has every moment, in order, each with the medians of all variants.
fn assert_moments(text: &str, results: &Results) {
    let mut rest = text.split_once("at each moment").expect("a heading").1;
    for (at, moment) in MOMENTS.into_iter().enumerate() {
        rest = rest.split_once(moment).unwrap_or_else(|| panic!("{moment}: {text}")).1;
        let own = rest.split_once(*MOMENTS.get(at + 1).unwrap_or(&"\u{0}"));
        let own = own.map_or(rest, |own| own.0);
        let compared: Vec<_> = results.moments.iter().filter(|one| one.median > 0.0).collect();
        let mut moments: Vec<_> = compared.iter().map(|one| one.moment).collect();
        moments.sort();
        moments.dedup();
        let medians = compared
            .iter()
            .filter(|one| one.moment == moments[at] && one.figure == MemoryFigure::Pss)
            .map(|one| Unit::Bytes.show(one.median));
        let medians: Vec<String> = medians.collect();
        assert_eq!(medians.len(), results.info.variants.len());
        assert!(medians.iter().all(|median| own.contains(median)), "{moment} {medians:?}: {own}");
    }
}

#[test]
fn every_format_shows_memory_at_every_moment_of_every_variant() {
    let results = Recipe::arenas().build();
    assert_moments(&terminal(&results, Style::default()), &results);
    assert_moments(&markdown(&results, Audience::Own), &results);
    let page = html(&results, &PageOptions::default());
    let section = page.split_once("id=\"memory-at-moments\"").expect("a section").1;
    let table = section.split_once("<tbody>").expect("a table").1;
    assert_moments(&format!("at each moment {table}"), &results);
    for id in ["moments-requests", "moments-memory"] {
        assert!(section.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for text in [terminal(&results, Style::default()), page] {
        assert!(text.replace('\n', " ").contains("none is a verdict"), "{text}");
    }
}

#[test]
fn an_experiment_that_asks_for_no_moment_shows_no_table_of_moments() {
    let results = Recipe::default().build();
    let page = html(&results, &PageOptions::default());
    for text in [terminal(&results, Style::default()), markdown(&results, Audience::Own), page] {
        assert!(!text.to_lowercase().contains("at each moment"), "{text}");
    }
}

#[test]
fn moments_survive_the_json() {
    let results = Recipe::arenas().build();
    let read = from_json(&json(&results, Audience::Own).unwrap()).unwrap();
    assert_eq!(read.moments.len(), results.moments.len());
    for (read, written) in read.moments.iter().zip(&results.moments) {
        // Reading JSON may change the last bit of a fraction; whole bytes stay as they are.
        let same = MomentComparison { estimate: written.estimate, ..read.clone() };
        assert_eq!(same, *written);
        let ratios = [read, written].map(|one| one.estimate.map_or(9.0, |found| found.ratio));
        assert!((ratios[0] - ratios[1]).abs() < 1e-12, "{ratios:?}");
    }
    assert_eq!(read.trials[0].samples, results.trials[0].samples);
}

#[test]
fn a_control_is_in_every_format_that_shows_differences() {
    let results = with_control(Recipe::arenas().build());
    let text = terminal(&results, Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let said = "against its control arena_max = 2";
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(said), "{text}");
    for (name, text) in formats(&results, Audience::Shared) {
        let shown = match name {
            "csv" => continue,
            "json" => "\"control\": \"arena_max = 2\"",
            "openmetrics" => "control=\"arena_max = 2\"",
            _ => "against its control arena",
        };
        assert!(text.contains(shown), "{name}");
    }
    let back = carat_report::from_json(&json(&results, Audience::Own).unwrap()).unwrap();
    // JSON keeps a figure but for its last bit, so the words are compared.
    let words = |results: &Results| {
        let controls = results.controls.iter();
        controls.map(|c| (c.control.clone(), c.conclusion.verdict, c.part)).collect::<Vec<_>>()
    };
    assert_eq!(words(&back), words(&results));
    assert_eq!(back.info.variants, results.info.variants);
}

#[test]
fn a_ledger_among_the_samples_shows_no_secret_and_is_drawn() {
    let mut results = Recipe::default().build();
    for trial in &mut results.trials {
        let last = trial.samples.last_mut().unwrap();
        last.ledger = Some(Box::new(crate::report_examples::ledger("a worker")));
    }
    for audience in [Audience::Own, Audience::Shared] {
        assert!(!json(&results, audience).unwrap().contains("canary-8"));
    }
    let page = html(&results, &PageOptions::default());
    assert!(page.contains("What the memory was made of") && page.contains("Ruby slots, live"));
    assert!(!page.contains("canary-8"));
}

#[test]
fn every_figure_is_written_as_the_terminal_writes_it() {
    let results = Recipe { blocks: 10, responses: 20, ..Recipe::cable() }.build();
    let text = figures(&results, Audience::Own).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let shown = terminal(&results, Style { width: 200, ..Style::default() });
    assert_eq!(all["schema"], FIGURES_SCHEMA);
    assert_eq!(all["order"][1], "arena_max = 2");
    assert_eq!(all["run"]["blocks"], "10");
    let memory = &all["variants"]["arena_max = 2"]["memory.pss.final"];
    for figure in ["median", "difference", "verdict", "n"] {
        let figure = memory[figure].as_str().unwrap();
        assert!(shown.contains(figure), "{figure} is not in {shown}");
    }
    let (change, interval) = (memory["change"].as_str().unwrap(), &memory["interval"]);
    assert_eq!(memory["difference"], format!("{change} ({})", interval.as_str().unwrap()));
    let guard = &all["variants"]["jemalloc"]["latency.p95"]["conclusion"];
    assert!(guard.as_str().unwrap().contains("within"), "{guard}");
    let baseline = &all["variants"]["default"];
    assert!(baseline["memory.pss.final"]["difference"].is_null(), "{baseline}");
    assert!(baseline["steps"].as_object().is_some_and(|steps| steps.len() == 10), "{baseline}");
}

#[test]
fn figures_of_a_variant_with_a_control_have_the_difference_to_it() {
    let mut results = Recipe { blocks: 10, ..Recipe::arenas() }.build();
    let found = results.conclusions.iter().find(|one| one.variant == "jemalloc").unwrap();
    results.controls = vec![ControlComparison {
        control: "arena_max = 2".into(),
        conclusion: found.clone(),
        part: Some(PartAtWork::Both),
    }];
    let text = figures(&results, Audience::Own).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let variant = &all["variants"]["jemalloc"];
    let memory = &variant["memory.pss.final"];
    assert_eq!(memory["against"]["arena_max = 2"]["difference"], memory["difference"]);
    assert!(variant["part-at-work"].as_str().unwrap().contains("its control arena_max = 2"));
    assert!(all["variants"]["default"]["part-at-work"].is_null());
}

#[test]
fn figures_of_a_moment_have_its_number_of_requests_as_their_name() {
    let mut results = Recipe { blocks: 10, ..Recipe::arenas() }.build();
    results.moments = vec![MomentComparison {
        moment: carat_model::Moment::Requests(500),
        figure: MemoryFigure::Pss,
        variant: "jemalloc".into(),
        trials: 10,
        median: 3e8,
        range: (2.9e8, 3.1e8),
        answered: Some(502.0),
        at_s: 9.0,
        blocks: 10,
        estimate: None,
    }];
    let text = figures(&results, Audience::Own).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let memory = &all["variants"]["jemalloc"]["moments"]["500"]["pss"];
    assert_eq!((&memory["median"], &memory["n"]), (&"300.0 MB".into(), &"10".into()));
    assert_eq!((&memory["answered"], &memory["difference"]), (&"502".into(), &Value::Null));
}

#[test]
fn shared_figures_show_neither_host_nor_secret() {
    let results = hostile(Recipe::default().build());
    let text = figures(&results, Audience::Shared).unwrap();
    assert!(serde_json::from_str::<Value>(&text).is_ok() && !text.contains('\u{1b}'), "{text}");
}
