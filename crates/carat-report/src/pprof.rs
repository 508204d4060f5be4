//! What is kept, by what keeps it, in the file format of pprof: a profile whose values are objects and bytes.
//!
//! The messages are those of `profile.proto` of github.com/google/pprof, with the fields that are written.

use crate::kept_samples::{KeptFrame, Numbered, kept_samples};
use crate::text::one_line;
use carat_outside::who::KeptTree;
use prost::Message;

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

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{CodePlace, Holder, KeptAmount, KeptBy, KeptNode, WayRoot};

    fn node(above: Option<u32>, by: KeptBy, objects: u64, bytes: u64) -> KeptNode {
        let all = KeptAmount { objects, bytes, ..KeptAmount::default() };
        KeptNode { above, by, all, ..KeptNode::default() }
    }

    fn tree() -> KeptTree {
        let code = CodePlace { label: "run".into(), path: "app/plant.rb".into(), line: 25 };
        let block = Holder { name: "Proc".into(), code: Some(code), ..Holder::default() };
        let global = KeptBy::Root(WayRoot::Global { name: "$a".into() });
        let nodes = vec![node(None, global, 7, 70), node(Some(0), KeptBy::Itself(block), 5, 50)];
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
}
