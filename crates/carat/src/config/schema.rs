//! The JSON Schema of the experiment file, for editors. The tables are in `experiment.schema.json`; what the catalogues know is filled in.

use carat_model::METRICS;
use carat_settings::{profiles, summaries};
use serde_json::{Map, Value, json};

const TABLES: &str = include_str!("experiment.schema.json");

/// A JSON Schema (2020-12) of the experiment file. It accepts every file that `Experiment::parse` does, and refuses unknown keys,
/// settings, profiles and metrics, values of another type, and tables that exclude each other.
///
/// # Panics
/// If the file that is part of the program is not a schema.
pub fn experiment_schema() -> Value {
    let mut schema: Value = serde_json::from_str(TABLES).expect("the file is JSON");
    let definitions = &mut schema["$defs"];
    definitions["settings"] = settings();
    definitions["metric"] = json!({ "enum": METRICS.iter().map(|one| one.id).collect::<Vec<_>>() });
    definitions["variant"]["properties"]["profile"] = profile();
    schema
}

fn profile() -> Value {
    let names: Vec<&str> = profiles().map(|(name, _)| name).collect();
    json!({ "description": "A set of settings for one purpose", "enum": names })
}

/// A name with a dot is written as it is, in quotes, or as a table in a table.
fn settings() -> Value {
    let mut properties = Map::new();
    let mut tables: Map<String, Value> = Map::new();
    properties.insert("profile".into(), profile());
    for (name, accepted, effect) in summaries() {
        let text = format!("{effect}. Values: {accepted}.");
        let value = if name == "env" {
            json!({ "description": text, "type": "object" })
        } else {
            json!({ "description": text, "type": ["string", "number", "boolean", "array"] })
        };
        if let Some((table, key)) = name.split_once('.') {
            let inner = tables.entry(table).or_insert_with(|| json!({}));
            inner[key] = value.clone();
        }
        properties.insert(name.into(), value);
    }
    for (table, inner) in tables {
        // `gc` is a setting, and begins the names of others.
        let setting = properties.entry(table.clone()).or_insert_with(|| {
            let text = format!("Settings whose names begin with {table}.");
            json!({ "description": text, "type": [] })
        });
        if let Some(types) = setting["type"].as_array_mut() {
            types.push("object".into());
        }
        setting["properties"] = inner;
        setting["additionalProperties"] = false.into();
    }
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": { "^env\\.": { "type": ["string", "number", "boolean"] } },
        "additionalProperties": false,
    })
}
