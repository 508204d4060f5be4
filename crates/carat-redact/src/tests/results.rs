//! What a table of fields does not show: what depends on the text, or on another field.

use crate::{Audience, redact_results};
use carat_model::load::report::{RouteFailure, RouteReport};
use carat_model::metric::MEMORY_PSS_LATE;
use carat_model::{
    ClassAmount, ExperimentInfo, LoadReport, Outcome, Results, Sample, Trial, TrialCensus,
};
use std::collections::BTreeMap;

fn results(trials: Vec<Trial>) -> Results {
    let info = ExperimentInfo {
        name: "x".to_owned(),
        about: None,
        plan_hash: String::new(),
        plan_text: "[server.env]\nFEED = \"wombat\"\n".to_owned(),
        seed: 0,
        max_blocks: 1,
        variants: Vec::new(),
        primary: MEMORY_PSS_LATE.id.to_owned(),
        margin: 0.02,
        guards: BTreeMap::new(),
        fleet: None,
    };
    Results::unconcluded(info, trials)
}

/// The first trial as an own and as a shared report have it.
fn shown(trial: &Trial) -> [Trial; 2] {
    let given = results(vec![trial.clone()]);
    [Audience::Own, Audience::Shared]
        .map(|audience| redact_results(&given, audience).trials.remove(0))
}

fn trial_of(load: LoadReport) -> Trial {
    Trial { load: Some(load), ..Trial::bare(1, "a") }
}

fn loads(given: &LoadReport) -> [LoadReport; 2] {
    shown(&trial_of(given.clone())).map(|trial| trial.load.expect("a load"))
}

#[test]
fn a_name_of_host_or_user_is_removed_from_every_text_and_one_of_two_letters_is_not() {
    let facts = [("host", "emu-7"), ("user", "ann"), ("ip", "10"), ("kernel", "linux")];
    let trial = Trial {
        machine: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        notes: vec!["ann on emu-7, linux, 10, wombat".to_owned()],
        ..Trial::bare(1, "a")
    };
    let [own, shared] = shown(&trial);
    assert_eq!(own, trial);
    assert_eq!(shared.notes, ["[name] on [name], linux, 10, [name]"]);
    assert_eq!(shared.machine.into_keys().collect::<Vec<_>>(), ["kernel"]);
}

#[test]
fn a_route_keeps_its_first_folder_and_a_job_only_a_name_of_rubys_own() {
    let names = ["GET /users", "GET /a/acme/x", "GET /b/acme/x", "Acme::PayJob", "String", ""];
    let route = |name: &str| RouteReport { route: name.to_owned(), ..RouteReport::default() };
    let given = LoadReport { routes: names.map(route).into(), ..LoadReport::default() };
    let [own, shared] = loads(&given);
    assert_eq!(own, given);
    let shared: Vec<String> = shared.routes.into_iter().map(|route| route.route).collect();
    let names = ["GET /users", "GET …/[file]", "GET …/[file] (2)", "class 1", "String", ""];
    assert_eq!(shared, names);
}

#[test]
fn a_failure_keeps_a_kind_of_carats_own_and_the_class_of_another_only_for_its_user() {
    let errors = |kinds: [&str; 3]| kinds.map(|kind| (kind.to_owned(), 1)).into();
    let given =
        LoadReport { errors_by: errors(["Acme::Error", "status", "tls"]), ..LoadReport::default() };
    let [own, shared] = loads(&given);
    assert_eq!(own, given);
    assert_eq!(shared.errors_by, errors(["class 1", "status", "tls"]));
}

#[test]
fn the_reason_of_a_shared_trial_is_its_most_frequent_failure_if_it_had_one() {
    let failure = |kind: &str| RouteFailure {
        route: "GET /users".to_owned(),
        kind: kind.to_owned(),
        count: 3,
        ..RouteFailure::default()
    };
    let failed =
        LoadReport { failures: ["timeout", "tls"].map(failure).into(), ..LoadReport::default() };
    let said = || Some("acme said".to_owned());
    for (detail, load, shared) in [
        (said(), failed.clone(), Some("GET /users → timeout ×3")),
        (said(), LoadReport::default(), None),
        (None, failed, None),
    ] {
        let outcome = Outcome::LoadInvalid;
        let trial = Trial { detail, outcome, log_tail: "acme".to_owned(), ..trial_of(load) };
        let [own, found] = shown(&trial);
        assert_eq!((own.detail, own.log_tail.as_str()), (trial.detail, "acme"));
        assert_eq!((found.detail.as_deref(), found.log_tail.as_str()), (shared, ""));
    }
}

#[test]
fn classes_that_become_one_are_added_up() {
    let amount = |objects| ClassAmount { objects, ..ClassAmount::NONE };
    let classes = [("A token=a", 1), ("A token=b", 2), ("B", 4)];
    let classes = classes.map(|(name, objects)| (name.to_owned(), amount(objects)));
    let census = Some(Box::new(TrialCensus::new(1, classes.into())));
    let samples = vec![Sample { census, ..Sample::default() }];
    let [own, shared] = shown(&Trial { samples, ..Trial::bare(1, "a") }).map(|mut trial| {
        let census = trial.samples.remove(0).census.expect("a census");
        census.classes.into_iter().map(|(name, of)| (name, of.objects)).collect::<Vec<_>>()
    });
    let names = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
        names.iter().map(|(name, objects)| ((*name).to_owned(), *objects)).collect()
    };
    assert_eq!(own, names(&[("A token=[hidden]", 3), ("B", 4)]));
    assert_eq!(shared, names(&[("class 1", 1), ("class 2", 2), ("class 3", 4)]));
}

#[test]
fn a_histogram_in_base64_stays_and_another_text_in_its_place_is_left_out() {
    for (given, kept) in [("HISTFAAA+/=-_9", true), ("a b", false), ("a.b", false)] {
        let report = LoadReport { latency_hdr: Some(given.to_owned()), ..LoadReport::default() };
        for shown in loads(&report) {
            assert_eq!(shown.latency_hdr.as_deref(), Some(if kept { given } else { "" }));
        }
    }
}
