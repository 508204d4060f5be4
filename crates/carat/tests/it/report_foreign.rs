//! Texts that other programs and people wrote, in every field of everything that is reported: only printable characters,
//! short lines, and nothing in a shared report that names anybody.

use crate::report::formats;
use crate::report_builder::Recipe;
use crate::report_examples::{ledger, reading, recording};
use carat_model::OutsideReading;
use carat_model::{Ledger, Recording, Results};
use carat_report::{
    Audience, CensusTextOptions, PageOptions, Style, census_text, growth_text, ledger_html,
    ledger_text, recording_html, terminal,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every kind of character that must not be shown, and 3,000 letters.
fn hostile() -> String {
    let invisible = "\u{1b}[31m\u{1b}]0;t\u{7}\u{9b}1m\u{0}\u{8}\u{ad}\u{61c}\u{200b}\u{200e}\u{200d}\u{202e}\u{2066}\
                     \u{2028}\u{feff}\u{fe0f}\u{3164}\u{e0041}\u{e007f}\r\nnext";
    format!("{invisible}{}", "x".repeat(3_000))
}

/// A content with every text replaced for which it can be read again. The same text is always replaced by the same one.
fn with_texts<T: Serialize + DeserializeOwned>(content: &T, make: impl Fn(&str) -> String) -> T {
    let original = serde_json::to_value(content).unwrap();
    let mut places = Vec::new();
    collect_texts(&original, String::new(), &mut places);
    // Whether a field may have any text is asked once for all elements of a list.
    let mut is_free: BTreeMap<String, bool> = BTreeMap::new();
    let mut value = original.clone();
    for place in places {
        let parts = place.split('/');
        let field = parts.map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
        let field: Vec<&str> = field.collect();
        let free = *is_free.entry(field.join("/")).or_insert_with(|| {
            let mut one = original.clone();
            *one.pointer_mut(&place).unwrap() = Value::String("any text".into());
            serde_json::from_value::<T>(one).is_ok()
        });
        if free {
            let at = value.pointer_mut(&place).unwrap();
            *at = Value::String(make(at.as_str().unwrap()));
        }
    }
    assert!(is_free.values().any(|free| *free));
    serde_json::from_value(value).unwrap()
}

fn collect_texts(value: &Value, at: String, places: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::String(_) => places.push(at),
        Value::Array(values) => {
            for (number, value) in values.iter().enumerate() {
                collect_texts(value, format!("{at}/{number}"), places);
            }
        }
        Value::Object(values) => {
            for (key, value) in values {
                collect_texts(value, format!("{at}/{}", escaped(key)), places);
            }
        }
        _ => {}
    }
}

/// Few trials and samples, with a ledger, because every text is replaced one by one.
fn few_results() -> Results {
    let mut results = Recipe::arenas().build();
    results.trials.truncate(8);
    for trial in &mut results.trials {
        trial.samples.truncate(2);
        trial.notes = vec!["a note".into()];
        trial.log_tail = "a line".into();
        trial.samples.last_mut().unwrap().ledger = Some(Box::new(ledger("a worker")));
    }
    results.trials[5].outcome = carat_model::Outcome::Crashed;
    results.trials[5].detail = Some("it ended".into());
    results
}

/// Every report of one ledger, one recording and one reading.
fn other_formats(
    (ledger, recording, reading): (&Ledger, &Recording, &OutsideReading),
    audience: Audience,
) -> Vec<(&'static str, String)> {
    let options = PageOptions { audience, generated_at: None };
    let title = &ledger.processes[0].title;
    vec![
        (
            "page of a ledger",
            ledger_html(
                title,
                ledger,
                carat_analysis::LedgerSource::Processes(Some(reading)),
                &options,
            ),
        ),
        ("page of a recording", recording_html(recording, &options)),
    ]
}

fn assert_printable(name: &str, text: &str) {
    let shown = |c: char| carat_outside::printable::is_printable(c) || matches!(c, '\n' | '\t');
    // Rows of CSV end as the format says.
    let text = text.replace("\r\n", "\n");
    if let Some(place) = text.find(|c| !shown(c)) {
        let start = text[..place].char_indices().rev().nth(80).map_or(0, |(at, _)| at);
        panic!("{name}: {:?} after {:?}", text[place..].chars().next(), &text[start..place]);
    }
}

#[test]
fn every_format_shows_only_printable_characters_and_short_texts_whatever_a_field_contains() {
    let make = |text: &str| format!("{text}{}", hostile());
    let results = with_texts(&few_results(), make);
    let ledger = with_texts(&ledger("a worker"), make);
    let recording = {
        let mut shown = recording("a worker");
        shown.ledger = Some(ledger.clone());
        shown.info = with_texts(&shown.info, make);
        shown.end = with_texts(&shown.end, make);
        shown
    };
    let reading = with_texts(&reading("Acme"), make);
    let mut all = formats(&results, Audience::Own);
    all.extend(other_formats((&ledger, &recording, &reading), Audience::Own));
    for (name, text) in &all {
        assert_printable(name, text);
        if name.contains("page") || *name == "comparison" {
            assert!(text.len() < 600_000, "{name}: {} bytes", text.len());
        }
    }
    assert_printable("terminal", &terminal(&results, Style::default()));
    for (name, text) in [
        ("ledger", ledger_text(&ledger, &[])),
        ("growth", growth_text(&recording)),
        ("census", census_text(&reading, CensusTextOptions::default())),
    ] {
        assert_printable(name, &text);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < 2_000, "{name}: a line of {longest} characters");
    }
}

#[test]
fn no_field_of_a_shared_report_says_who_made_it_in_any_form_that_can_be_recognised() {
    let make = |text: &str| {
        format!(
            "{text} /home/annabel file:///home/annabel/x by ANNABEL in annabel_app '/srv/wallaby portal/x y.rb' \
             -I/srv/wallaby/lib ~annabel/x apps/wallaby/x.rb https://wallaby.example/a?b=wallaby \
             annabel@wallaby.example PORTAL_CUSTOMER=wombat 10.20.30.40"
        )
    };
    let results = with_texts(&few_results(), make);
    let ledger = with_texts(&ledger("a worker"), make);
    let mut recording = recording("a worker");
    recording.info = with_texts(&recording.info, make);
    recording.end = with_texts(&recording.end, make);
    recording.ledger = Some(ledger.clone());
    let reading = with_texts(&reading("Acme"), make);
    let mut all = formats(&results, Audience::Shared);
    all.push((
        "text",
        terminal(&results, Style { audience: Audience::Shared, ..Style::default() }),
    ));
    all.extend(other_formats((&ledger, &recording, &reading), Audience::Shared));
    for (name, text) in all {
        let lower = text.to_lowercase();
        for canary in ["annabel", "wallaby", "wombat", "10.20.30.40"] {
            if let Some(place) = lower.find(canary) {
                let start = lower[..place].char_indices().rev().nth(200).map_or(0, |(at, _)| at);
                panic!("{name} shows {canary}: {}", &lower[start..place + canary.len()]);
            }
        }
    }
}

#[test]
fn a_shared_report_has_no_word_that_a_server_or_its_application_chose() {
    let mut results = few_results();
    results.info.plan_text =
        "# of quokka\nname = \"x\"\n[server]\ncommand = [\"puma\", \"--tag\", \"quokka\"]\n\
         env = { customer = \"quokka\", OTHER = \"quokka\" }\n"
            .into();
    for trial in &mut results.trials {
        trial.log_tail = "quokka".into();
        trial.notes = vec!["a note on quokka".into()];
        trial.detail = Some("it printed: quokka".into());
        let load = trial.load.get_or_insert_default();
        load.errors_by = [("Quokka::Error".to_owned(), 3), ("quokka refused".to_owned(), 1)].into();
        load.failures = vec![carat_model::load::report::RouteFailure {
            route: "Quokka::Job".into(),
            kind: "Quokka::Error".into(),
            body: Some("quokka".into()),
            ..Default::default()
        }];
    }
    let mut ledger = ledger("a worker");
    ledger.processes[0].title = "puma 6.4.2 (tcp://0.0.0.0:3000) [quokka]".into();
    ledger.processes[0].environment = vec![("RUBYLIB".into(), "quokka".into())];
    let mut recording = recording("a worker");
    recording.info.what = "puma: cluster worker 0: 7 [quokka]".into();
    recording.end.as_mut().unwrap().classes[0].class = "Quokka".into();
    recording.info.command =
        ["bundle", "exec", "quokka", "--name=quokka"].map(str::to_owned).into();
    let mut all = formats(&results, Audience::Shared);
    all.extend(other_formats((&ledger, &recording, &reading("Quokka")), Audience::Shared));
    for (name, text) in all {
        let lower = text.to_lowercase();
        if let Some(place) = lower.find("quokka") {
            let start = lower[..place].char_indices().rev().nth(200).map_or(0, |(at, _)| at);
            panic!("{name}: {}", &lower[start..place + 6]);
        }
    }
}
