//! A type of machine in a fleet, and the engine that runs its blocks.

use serde::{Deserialize, Serialize};

/// The longest name: with prefix and index it is part of a Kubernetes name, which has at most 63 characters.
const LONGEST: usize = 30;

/// What runs the blocks of one type of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// A job array of Slurm.
    Slurm,
    /// An Indexed Job of Kubernetes.
    K8s,
    /// Anything else that runs `carat fleet block`, such as GNU parallel.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineType {
    /// Its name in jobs and reports.
    pub name: String,
    /// What runs its blocks.
    pub engine: EngineKind,
    /// How the engine finds such machines: options of `sbatch`, or `LABEL=VALUE` of Kubernetes' nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
}

impl MachineType {
    /// The only type where none is given.
    pub fn any() -> Self {
        Self { name: "machine".into(), engine: EngineKind::Other, selector: String::new() }
    }

    /// Parses `slurm:NAME=OPTIONS`, `k8s:NAME=LABEL=VALUE` or `other:NAME`.
    ///
    /// # Errors
    /// Where the text is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let usage = "write slurm:NAME=OPTIONS, k8s:NAME=LABEL=VALUE or other:NAME";
        let (engine, rest) = text.split_once(':').ok_or_else(|| format!("`{text}`: {usage}"))?;
        let (name, selector) = rest.split_once('=').unwrap_or((rest, ""));
        let engine = match engine {
            "slurm" => EngineKind::Slurm,
            "k8s" => EngineKind::K8s,
            "other" => EngineKind::Other,
            _ => return Err(format!("`{text}`: {usage}")),
        };
        let is_name = (1..=LONGEST).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_name {
            return Err(format!(
                "`{name}` is no name of a machine type: use at most {LONGEST} small letters, digits and inner hyphens"
            ));
        }
        // It becomes a line of a job's file.
        if selector.chars().any(char::is_control) {
            return Err(format!("`{name}`: its options must be one line"));
        }
        let is_label = selector.split_once('=').is_some_and(|(label, _)| !label.is_empty());
        match engine {
            EngineKind::K8s if !selector.is_empty() && !is_label => {
                Err(format!("`{selector}` is no label of a node: write LABEL=VALUE"))
            }
            EngineKind::Other if !selector.is_empty() => {
                Err(format!("other:{name} has no options: write other:{name}"))
            }
            _ => Ok(Self { name: name.to_owned(), engine, selector: selector.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_an_engine_a_name_and_options() {
        let parsed = MachineType::parse("slurm:c6i=-p c6i --mem=0").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.engine), ("c6i", EngineKind::Slurm));
        assert_eq!(parsed.selector, "-p c6i --mem=0");
        assert_eq!(MachineType::parse("k8s:m7g=pool=m7g").unwrap().selector, "pool=m7g");
        assert_eq!(MachineType::parse("other:ci").unwrap().engine, EngineKind::Other);
    }

    #[test]
    fn what_would_not_be_a_job_is_refused() {
        for (text, what) in [
            ("c6i", "write slurm:NAME"),
            ("nomad:c6i", "write slurm:NAME"),
            ("slurm:C6i", "no name"),
            ("slurm:-c6i", "no name"),
            ("slurm:", "no name"),
            ("k8s:a=pool", "LABEL=VALUE"),
            ("slurm:a=-p x\n#SBATCH -w y", "one line"),
            ("other:a=b", "no options"),
        ] {
            let refused = MachineType::parse(text).unwrap_err();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
