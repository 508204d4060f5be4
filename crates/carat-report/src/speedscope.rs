//! What is kept, by what keeps it, in the file format of speedscope: a flame graph whose widths are bytes.

use crate::kept_samples::{KeptFrame, Numbered, kept_samples};
use crate::text::one_line;
use carat_outside::who::KeptTree;
use serde_json::{Value, json};

/// The schema of the format.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// One profile for each process or dump, each with its name. The outermost frame is where ways begin, and the weight of a frame is what
/// is kept in that way and in none of the ways above it.
pub fn speedscope(trees: &[(String, &KeptTree)]) -> String {
    let mut frames = Numbered::new();
    let mut profiles = Vec::new();
    for (name, tree) in trees {
        let (mut samples, mut weights, mut total) = (Vec::new(), Vec::new(), 0_u64);
        for sample in kept_samples(tree) {
            let path: Vec<u64> =
                sample.frames.into_iter().map(|frame| frames.number(frame)).collect();
            samples.push(path);
            weights.push(sample.bytes);
            total = total.saturating_add(sample.bytes);
        }
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
    let frames: Vec<Value> = frames.all.iter().map(shown).collect();
    let file = json!({
        "$schema": SCHEMA,
        "shared": { "frames": frames },
        "profiles": profiles,
        "name": "memory that is kept, by what keeps it",
        "exporter": "carat",
    });
    file.to_string() + "\n"
}

fn shown(frame: &KeptFrame) -> Value {
    let (file, line) = &frame.place;
    match file.is_empty() {
        true => json!({ "name": frame.name }),
        false => json!({ "name": frame.name, "file": file, "line": line }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{KeptAmount, KeptBy, KeptNode, WayRoot};

    fn node(above: Option<u32>, name: &str, bytes: u64) -> KeptNode {
        let by = KeptBy::Root(WayRoot::Global { name: name.to_owned() });
        let all = KeptAmount { bytes, ..KeptAmount::default() };
        KeptNode { above, by, all, ..KeptNode::default() }
    }

    #[test]
    fn every_byte_is_in_one_sample_under_the_way_that_keeps_it() {
        let nodes = vec![node(None, "$a", 70), node(Some(0), "$b", 50), node(None, "$c", 20)];
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
