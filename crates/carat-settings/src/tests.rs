//! Every setting of the catalogue is applied, verified and implemented.

use crate::catalogue::{definitions, find};
use crate::setting::SettingDefinition;
use crate::verify::tests::word;
use crate::{
    Environment, MallocInUse, ProcessObservation, RuntimeReport, Scrub, Settings, StartContext,
    verify,
};
use carat_wire::env;
use carat_wire::page::AllocatorKind;
use std::collections::BTreeSet;
use std::path::Path;

/// A library that exists and can be loaded by this program.
const LIBRARY: &str = "/proc/self/exe";

/// Values for settings that accept more than words; each setting is tested with those it accepts.
const SAMPLES: [&str; 8] = ["2", "1", "0.5", LIBRARY, "narenas:2", "40000", "1m", "16"];

/// Every word that is not the default, or else the samples that the setting accepts, as `name=value`.
fn choices(setting: &'static SettingDefinition) -> Vec<String> {
    if setting.name == "env" {
        return vec!["env.NAME=value".into()];
    }
    let texts = if setting.words.is_empty() { &SAMPLES[..] } else { setting.words };
    let chosen = texts.iter().filter_map(|text| setting.choose(text));
    chosen.filter(|chosen| !chosen.is_default()).map(|chosen| chosen.to_string()).collect()
}

fn environment(pairs: &[String]) -> (Settings, Environment) {
    let settings = Settings::from_pairs(pairs.iter().map(String::as_str)).unwrap();
    let environment = settings.environment(&StartContext {
        runtime: Path::new("/x/carat_runtime.so"),
        find_allocator: &|name| match name {
            "jemalloc" => Some(LIBRARY.into()),
            "mimalloc" => Some("/proc/thread-self/exe".into()),
            _ => std::env::current_exe().ok(),
        },
        inherited: &|_| None,
        scrub: Scrub::Nothing,
        ruby: None,
        linked: None,
        stack_limit: None,
    });
    (settings, environment.unwrap())
}

fn required(setting: &SettingDefinition) -> Vec<String> {
    setting.requires.map(|(name, value)| format!("{name}={value}")).into_iter().collect()
}

#[test]
fn every_setting_is_applied() {
    for setting in definitions() {
        let choices = choices(setting);
        assert!(!choices.is_empty(), "no sample is a value of {}", setting.name);
        let without = required(setting);
        let mut results = vec![environment(&without).1];
        for choice in choices {
            let (_, environment) =
                environment(&[without.as_slice(), std::slice::from_ref(&choice)].concat());
            assert!(!results.contains(&environment), "{choice} changes nothing");
            results.push(environment);
        }
    }
}

/// The status of the choice in a process that shows everything its environment asks for.
fn status_when_in_effect(choice: &str, required: &[String]) -> &'static str {
    let (settings, environment) = environment(&[required, &[choice.to_owned()]].concat());
    let variables = environment.set.iter().map(|(name, value)| format!("{name}={value}\0"));
    let environ: String = variables.collect();
    let mut maps: String =
        environment.preload.iter().map(|library| format!("{}\n", library.display())).collect();
    maps += "7f0000010000-7f0000020000 r-xp 00000000 00:00 0 \n\
             7f0000020000-7f0001010000 ---p 00000000 00:00 0 \n";
    let own = std::env::current_exe().unwrap().canonicalize().unwrap();
    maps += &format!("55d000000000-55d000100000 r-xp 00000000 08:01 7  {}\n", own.display());
    let request = environment.set.get(env::SETTINGS).map_or("", String::as_str);
    let name = choice.split('=').next().unwrap();
    let kind = find(name).and_then(|setting| setting.malloc).unwrap_or(AllocatorKind::Glibc);
    let library = environment.preload.first().map(|library| library.canonicalize().unwrap());
    let file = library.unwrap_or_default().display().to_string();
    let process = ProcessObservation {
        malloc: Some(MallocInUse { kind, file: &file }),
        maps: Some(&maps),
        environ: Some(environ.as_bytes()),
        status: Some(if choice == "thp=on" { "THP_enabled:\t1" } else { "THP_enabled:\t0" }),
        root: environment.root.as_deref(),
        ruby: None,
        huge_page_policy: None,
        started_with: &[],
        runtime: Some(RuntimeReport {
            requested: Some(env::settings_checksum(request.as_bytes())),
            applied: u64::MAX,
            ..RuntimeReport::default()
        }),
    };
    let checks = verify(&settings, &environment, &process);
    word(&checks.iter().find(|check| check.setting == choice).unwrap().status)
}

#[test]
fn every_setting_is_verified() {
    for setting in definitions() {
        let required = required(setting);
        for choice in &choices(setting) {
            assert_eq!(status_when_in_effect(choice, &required), "applied", "{choice}");
            let (settings, environment) =
                environment(&[&required[..], std::slice::from_ref(choice)].concat());
            let checks = verify(&settings, &environment, &ProcessObservation::default());
            let check = checks.iter().find(|check| check.setting == *choice).unwrap();
            assert_eq!(word(&check.status), "unknown", "{choice} without evidence");
        }
    }
}

#[test]
fn every_setting_of_the_runtime_has_its_ruby_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../carat-runtime/src/ruby/settings");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("named \"{name}\"")), "{} has another name", path.display());
        files.insert(name);
    }
    // `carat exec` requests it by itself.
    assert!(files.remove("scrub"));
    let runtime = definitions().filter(|setting| {
        let texts = if setting.words.is_empty() { &SAMPLES[..] } else { setting.words };
        let mut chosen = texts.iter().filter_map(|text| setting.choose(text));
        chosen.any(|chosen| chosen.needs_runtime())
    });
    let names: BTreeSet<String> = runtime.map(|setting| setting.name.to_owned()).collect();
    assert_eq!(files, names);
}
