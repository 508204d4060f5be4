//! The JSON Schema of the experiment file, against the files that carat reads and refuses.

use crate::support::Folder;
use carat::config::{Experiment, experiment_schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the value breaks; only the words of JSON Schema that this schema uses.
fn faults(schema: &Value, root: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        let mut inside = |rule: &Value, value: &Value, place: &str| {
            faults(rule, root, value, place, found);
        };
        match word.as_str() {
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix('#').unwrap();
                inside(root.pointer(name).unwrap(), value, place);
            }
            "allOf" => each(rule).for_each(|one| inside(one, value, place)),
            "oneOf" => {
                let fitting = each(rule).filter(|one| fits(one, root, value)).count();
                found.extend((fitting != 1).then(|| format!("{place}: {fitting} of {rule}")));
            }
            "items" => {
                value.as_array().into_iter().flatten().for_each(|one| inside(rule, one, place));
            }
            "propertyNames" => keys(value).for_each(|key| inside(rule, &json!(key), place)),
            "additionalProperties" => {
                for key in keys(value).filter(|key| named(schema, key).is_none()) {
                    match rule {
                        Value::Bool(false) => found.push(format!("{place}.{key}: unknown")),
                        rule => faults(rule, root, &value[key], &format!("{place}.{key}"), found),
                    }
                }
            }
            word if is_broken(word, rule, value) => found.push(format!("{place}: {word} {rule}")),
            _ => {}
        }
    }
    for key in keys(value) {
        if let Some(rule) = named(schema, key) {
            faults(rule, root, &value[key], &format!("{place}.{key}"), found);
        }
    }
}

/// Whether a value alone breaks a rule.
fn is_broken(word: &str, rule: &Value, value: &Value) -> bool {
    let number = |breaks: fn(f64, f64) -> bool| {
        value.as_f64().is_some_and(|number| breaks(number, rule.as_f64().unwrap()))
    };
    let length = |breaks: fn(u64, u64) -> bool| {
        size(value).is_some_and(|size| breaks(size, rule.as_u64().unwrap()))
    };
    match word {
        "$schema" | "$defs" | "title" | "description" | "properties" | "patternProperties" => false,
        "type" => match rule {
            Value::Array(kinds) => !kinds.iter().any(|kind| is_of(kind, value)),
            kind => !is_of(kind, value),
        },
        "enum" => !each(rule).any(|one| one == value),
        "pattern" => value.as_str().is_some_and(|text| !matches(rule, text)),
        "minimum" => number(|number, least| number < least),
        "maximum" => number(|number, most| number > most),
        "exclusiveMinimum" => number(|number, least| number <= least),
        "minLength" | "minItems" | "minProperties" => length(|size, least| size < least),
        "maxLength" | "maxProperties" => length(|size, most| size > most),
        "required" => {
            value.is_object() && each(rule).any(|key| value.get(key.as_str().unwrap()).is_none())
        }
        word => panic!("this validator does not know `{word}`"),
    }
}

fn each(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.as_array().unwrap().iter()
}

fn keys(value: &Value) -> impl Iterator<Item = &String> {
    value.as_object().into_iter().flat_map(|object| object.keys())
}

/// The rule for a key by its name or a pattern.
fn named<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let by_pattern = || {
        let patterns = schema.get("patternProperties")?.as_object()?;
        patterns.iter().find(|(pattern, _)| matches(&json!(pattern), key)).map(|(_, rule)| rule)
    };
    schema.get("properties").and_then(|known| known.get(key)).or_else(by_pattern)
}

fn matches(pattern: &Value, text: &str) -> bool {
    regex::Regex::new(pattern.as_str().unwrap()).unwrap().is_match(text)
}

fn size(value: &Value) -> Option<u64> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(object) => object.len(),
        _ => return None,
    };
    Some(size as u64)
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        kind => panic!("this validator does not know the type `{kind}`"),
    }
}

fn fits(schema: &Value, root: &Value, value: &Value) -> bool {
    let mut found = Vec::new();
    faults(schema, root, value, "", &mut found);
    found.is_empty()
}

fn faults_of(text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).unwrap();
    let (schema, mut found) = (experiment_schema(), Vec::new());
    faults(&schema, &schema, &serde_json::to_value(table).unwrap(), "", &mut found);
    found
}

fn experiments(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            experiments(&path, found);
        } else if path.extension().is_some_and(|one| one == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn every_bundled_experiment_fits_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    ["workloads", "bench"].iter().for_each(|name| experiments(&root.join(name), &mut files));
    let mut fit = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        if text.contains("[[variant]]") {
            assert_eq!(faults_of(&text), [""; 0], "{}", file.display());
            fit += 1;
        }
    }
    assert!(fit >= 15, "{fit}");
}

const GOOD: &str = "name = 'app'
[server]
command = ['puma']
ready = { tcp = true }
[load.http]
path = '/'
requests = 100
[[variant]]
name = 'default'
[[variant]]
name = 'other'
settings = { arena_max = 2, malloc = { top_pad = '1m' }, 'malloc.mmap_threshold' = '1m', env = { A = 'b' } }
[measure]
primary = 'memory.pss.final'
guards = { 'latency.p95' = '+5%' }
[trials]
max = 9
";

#[test]
fn what_carat_refuses_for_its_form_does_not_fit_the_schema_either() {
    let parse = |text: &str| Experiment::parse(text, Path::new("x.toml"), Path::new("."));
    parse(GOOD).unwrap();
    assert_eq!(faults_of(GOOD), [""; 0]);
    for (old, new) in [
        ("name = 'app'", "nmae = 'app'"),
        ("command = ['puma']", "command = 'puma'"),
        ("command = ['puma']", "command = []"),
        ("{ tcp = true }", "{ tcp = true, http = '/' }"),
        ("{ tcp = true }", "{ http = 'up' }"),
        ("{ tcp = true }", "{ tcp = true, within = 'soon' }"),
        ("requests = 100", "requests = 'all'"),
        ("requests = 100", "reqests = 100"),
        ("requests = 100", "requests = 100\nerrors = 'few'"),
        ("requests = 100", "requests = 100\n[load.cable]\nsteps = 1"),
        ("requests = 100", "requests = 100\n[run]\ncommand = ['ruby']"),
        ("requests = 100", "requests = 100\nroutes = [{ weight = 1 }]"),
        ("[[variant]]\nname = 'default'\n", ""),
        ("arena_max = 2", "arena_maxx = 2"),
        ("top_pad", "top_pda"),
        ("name = 'other'", "name = 'other'\nprofile = 'fast'"),
        ("'memory.pss.final'", "'memory.pss.finale'"),
        ("'latency.p95' =", "'latency.p59' ="),
        ("'+5%'", "5"),
        ("max = 9", "max = 0"),
        ("max = 9", "max = 9\nseed = 'x'"),
    ] {
        let text = GOOD.replacen(old, new, 1);
        assert_ne!(text, GOOD, "{old}");
        assert!(parse(&text).is_err(), "carat reads {new}");
        assert!(!faults_of(&text).is_empty(), "the schema accepts {new}");
    }
}

/// The keys that carat knows in a table, from its message about an unknown one.
fn known_keys(table: &str) -> BTreeSet<String> {
    let text = format!("{table}\nno_such_key = 1\n");
    let refused =
        Experiment::parse(&text, Path::new("x.toml"), Path::new(".")).unwrap_err().to_string();
    let (_, listed) =
        refused.split_once("expected").unwrap_or_else(|| panic!("{table}: {refused}"));
    let listed = listed.lines().next().unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_schema_has_the_keys_that_carat_reads_and_no_others() {
    let schema = experiment_schema();
    let scenario = "[[load.http.scenario]]\nname = 'x'\n[[load.http.scenario.steps]]";
    let take = format!("{scenario}\n[load.http.scenario.steps.take.x]");
    for (table, definition) in [
        ("", ""),
        ("[server]", "/$defs/server"),
        ("[run]", "/$defs/run"),
        ("[services.x]", "/$defs/service"),
        ("[server.ready]", "/$defs/ready"),
        ("[prepare]", "/$defs/command"),
        ("[load]", "/$defs/load"),
        ("[load.http]", "/$defs/http"),
        ("[load.cable]", "/$defs/cable"),
        ("[load.sidekiq]", "/$defs/sidekiq"),
        ("[load.sql_queue]", "/$defs/sql_queue"),
        ("[load.command]", "/$defs/command"),
        ("[[load.http.routes]]", "/$defs/route"),
        ("[[load.http.scenario]]", "/$defs/scenario"),
        (scenario, "/$defs/step"),
        (&take, "/$defs/take"),
        ("[[variant]]", "/$defs/variant"),
        ("[measure]", "/$defs/measure"),
        ("[trials]", "/$defs/trials"),
    ] {
        let listed = schema.pointer(definition).unwrap();
        let listed: BTreeSet<String> = keys(&listed["properties"]).cloned().collect();
        assert_eq!(listed, known_keys(table), "{table}");
    }
}

#[test]
fn the_program_prints_the_schema_and_init_names_it_in_the_first_line() {
    let folder = Folder::new("schema");
    folder.write("config.ru", "run ->(env) { [200, {}, []] }\n");
    let printed = folder.run(&["schema"]);
    printed.assert_code(0);
    assert_eq!(serde_json::from_str::<Value>(&printed.out).unwrap(), experiment_schema());
    folder.run(&["init"]).assert_code(0);
    let text = fs::read_to_string(folder.path("carat.toml")).unwrap();
    assert!(text.starts_with("#:schema ./carat.schema.json\n"), "{text}");
    assert_eq!(faults_of(&text), [""; 0]);
}
