//! What is kept, by what keeps it, in the file formats of profilers: pprof, with objects and bytes, and speedscope, with bytes.

use crate::kept_samples::{KeptFrame, Numbered, kept_samples};
use crate::text::one_line;
use carat_outside::who::KeptTree;
use prost::Message;
use serde_json::{Value, json};

/// A profile of pprof. Its messages are those of `profile.proto` of github.com/google/pprof, with the fields that are written.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

/// The profile of processes or dumps, each with its name, not compressed. `at` is the time of the reading in nanoseconds since 1970,
/// 0 if it is unknown. The outermost frame is where ways begin; of several trees it is the name of the tree.
pub fn pprof(trees: &[(String, &KeptTree)], at: i64) -> Vec<u8> {
    let mut frames = Numbered::new();
    let mut sample = Vec::new();
    for (name, tree) in trees {
        let tree_frame = (trees.len() > 1).then(|| KeptFrame::named(name));
        for kept in kept_samples(tree) {
            let outermost = tree_frame.iter().cloned().chain(kept.frames);
            let mut location_id: Vec<u64> =
                outermost.map(|frame| frames.number(frame) + 1).collect();
            // pprof has the innermost frame first.
            location_id.reverse();
            let value = [kept.objects, kept.bytes].map(signed).to_vec();
            sample.push(Sample { location_id, value });
        }
    }
    let mut strings = Numbered::new();
    let mut text = |one: &str| signed(strings.number(one.to_owned()));
    // The first string of every profile is the empty one.
    let _ = text("");
    let (objects, count) = (text("kept_objects"), text("count"));
    let (space, bytes) = (text("kept_space"), text("bytes"));
    let comment = text(&one_line("memory that is kept, by what keeps it; written by carat"));
    let function = (1..).zip(&frames.all).map(|(id, frame)| Function {
        id,
        name: text(&frame.name),
        filename: text(&frame.place.0),
        start_line: signed(frame.place.1),
    });
    let function: Vec<Function> = function.collect();
    let location = function.iter().map(|function| Location {
        id: function.id,
        line: vec![Line { function_id: function.id, line: function.start_line }],
    });
    let profile = Profile {
        sample_type: vec![
            ValueType { r#type: objects, unit: count },
            ValueType { r#type: space, unit: bytes },
        ],
        sample,
        location: location.collect(),
        function,
        string_table: strings.all,
        time_nanos: at,
        comment: vec![comment],
        default_sample_type: space,
    };
    profile.encode_to_vec()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The schema of a file of speedscope.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// One profile for each process or dump, each with its name. The outermost frame is where ways begin, and the weight of a frame is what
/// is kept in that way and in none of the ways above it.
pub fn speedscope(trees: &[(String, &KeptTree)]) -> String {
    let mut frames = Numbered::new();
    let mut profiles = Vec::new();
    for (name, tree) in trees {
        let kept = kept_samples(tree);
        let weights: Vec<u64> = kept.iter().map(|sample| sample.bytes).collect();
        let total = weights.iter().fold(0_u64, |total, bytes| total.saturating_add(*bytes));
        let samples = kept.into_iter().map(|sample| -> Vec<u64> {
            sample.frames.into_iter().map(|frame| frames.number(frame)).collect()
        });
        let samples: Vec<Vec<u64>> = samples.collect();
        profiles.push(json!({
            "type": "sampled",
            "name": one_line(name),
            "unit": "bytes",
            "startValue": 0,
            "endValue": total,
            "samples": samples,
            "weights": weights,
        }));
    }
    let frames =
        frames.all.iter().map(|KeptFrame { name, place: (file, line) }| match file.is_empty() {
            true => json!({ "name": name }),
            false => json!({ "name": name, "file": file, "line": line }),
        });
    let frames: Vec<Value> = frames.collect();
    let file = json!({
        "$schema": SCHEMA,
        "shared": { "frames": frames },
        "profiles": profiles,
        "name": "memory that is kept, by what keeps it",
        "exporter": "carat",
    });
    file.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{CodePlace, Holder, KeptAmount, KeptBy, KeptNode, WayRoot};

    fn node(above: Option<u32>, by: KeptBy, objects: u64, bytes: u64) -> KeptNode {
        let all = KeptAmount { objects, bytes, ..KeptAmount::default() };
        KeptNode { above, by, all, ..KeptNode::default() }
    }

    fn global(name: &str) -> KeptBy {
        KeptBy::Root(WayRoot::Global { name: name.to_owned() })
    }

    fn tree() -> KeptTree {
        let code = CodePlace { label: "run".into(), path: "app/plant.rb".into(), line: 25 };
        let block = Holder { name: "Proc".into(), code: Some(code), ..Holder::default() };
        let block = KeptBy::Itself(block);
        let nodes = vec![node(None, global("$a"), 7, 70), node(Some(0), block, 5, 50)];
        let all = KeptAmount { objects: 9, bytes: 100, ..KeptAmount::default() };
        KeptTree { nodes, all, ..KeptTree::default() }
    }

    /// Names of the frames of each sample, the outermost first, and its values.
    fn samples(profile: &Profile) -> Vec<(Vec<String>, Vec<i64>)> {
        let name = |id: &u64| {
            let location = profile.location.iter().find(|one| one.id == *id).unwrap();
            let function = location.line[0].function_id;
            let function = profile.function.iter().find(|one| one.id == function).unwrap();
            profile.string_table[function.name as usize].clone()
        };
        let all = profile.sample.iter();
        all.map(|one| (one.location_id.iter().rev().map(name).collect(), one.value.clone()))
            .collect()
    }

    #[test]
    fn every_object_and_byte_is_in_one_sample_and_code_has_its_file_and_line() {
        let tree = tree();
        let profile = Profile::decode(&pprof(&[("app".into(), &tree)], 7)[..]).unwrap();
        let names = |names: &[&str]| names.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            samples(&profile),
            [
                (names(&["global variable $a"]), vec![2, 20]),
                (names(&["global variable $a", "Proc of run at plant.rb:25"]), vec![5, 50]),
                (names(&["everything else"]), vec![2, 30]),
            ]
        );
        assert_eq!(profile.string_table[0], "");
        let block = &profile.function[1];
        let file = &profile.string_table[block.filename as usize];
        assert_eq!((file.as_str(), block.start_line), ("app/plant.rb", 25));
        let types = profile.sample_type.iter();
        let types: Vec<&str> =
            types.map(|one| profile.string_table[one.r#type as usize].as_str()).collect();
        assert_eq!((types, profile.time_nanos), (vec!["kept_objects", "kept_space"], 7));
    }

    #[test]
    fn of_several_processes_each_is_the_outermost_frame() {
        let tree = tree();
        let trees = [("process 7".to_owned(), &tree), ("process 8".to_owned(), &tree)];
        let profile = Profile::decode(&pprof(&trees, 0)[..]).unwrap();
        let found = samples(&profile);
        assert_eq!(found.len(), 6);
        assert!(found[..3].iter().all(|(names, _)| names[0] == "process 7"), "{found:?}");
        assert!(found[3..].iter().all(|(names, _)| names[0] == "process 8"), "{found:?}");
    }

    #[test]
    fn every_byte_is_in_one_sample_under_the_way_that_keeps_it() {
        let nodes = [(None, "$a", 70), (Some(0), "$b", 50), (None, "$c", 20)];
        let nodes: Vec<KeptNode> =
            nodes.map(|(above, name, bytes)| node(above, global(name), 1, bytes)).into();
        let all = KeptAmount { bytes: 100, ..KeptAmount::default() };
        let tree = KeptTree { nodes, all, ..KeptTree::default() };
        let file: Value = serde_json::from_str(&speedscope(&[("app".to_owned(), &tree)])).unwrap();
        let profile = &file["profiles"][0];
        assert_eq!(profile["weights"], json!([20, 50, 20, 10]));
        assert_eq!(profile["samples"], json!([[0], [0, 1], [2], [3]]));
        assert_eq!((&profile["endValue"], &profile["unit"]), (&json!(100), &json!("bytes")));
        assert_eq!(file["shared"]["frames"][1]["name"], "global variable $b");
        assert_eq!(file["$schema"], SCHEMA);
    }
}
