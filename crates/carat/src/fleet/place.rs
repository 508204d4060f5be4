//! Which block to run, and which attempt it is, from the options or from the variables of an engine.

use crate::fleet::FleetError;
use crate::fleet::plan::FleetPlan;

/// The number of a block in the environment of Slurm's array jobs.
const SLURM_INDEX: &str = "SLURM_ARRAY_TASK_ID";
/// The place of a block among those of its type, from 0, for Kubernetes and AWS Batch.
const PLACES: [&str; 2] = ["JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"];
/// Attempts before this one, for Slurm and Kubernetes (a pod's annotation).
const EARLIER_ATTEMPTS: [&str; 2] = ["SLURM_RESTART_COUNT", "JOB_INDEX_FAILURE_COUNT"];
/// The number of this attempt, from 1, for AWS Batch.
const ATTEMPT: &str = "AWS_BATCH_JOB_ATTEMPT";

/// What the options ask for.
#[derive(Debug, Clone, Default)]
pub struct AskedBlock {
    pub block: Option<u32>,
    /// The type of this machine, where an engine numbers the blocks of a type.
    pub machine_type: Option<String>,
}

/// The block to run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    pub block: u32,
    /// The number of the attempt at least, from 1; 1 where the engine does not say.
    pub attempt: u32,
}

impl BlockPlace {
    /// The block that the options or the engine name; `variable` reads the environment.
    ///
    /// # Errors
    /// Where none is named, or the plan has no such block.
    pub fn find(
        plan: &FleetPlan,
        asked: &AskedBlock,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, FleetError> {
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        let place = PLACES.iter().find_map(|name| number(name));
        // What the user asked for comes before what an engine says.
        let block = match (asked.block.or_else(|| number(SLURM_INDEX)), place) {
            (Some(block), _) => block,
            (None, Some(place)) => block_at(plan, asked.machine_type.as_deref(), place)?,
            (None, None) => return Err(FleetError::NoIndex),
        };
        if plan.fleet().type_of(block).is_none() {
            let last = plan.blocks.len();
            return Err(FleetError::Request(format!(
                "there is no block {block}; the fleet has the blocks 1 to {last}"
            )));
        }
        let earlier = EARLIER_ATTEMPTS.iter().find_map(|name| number(name));
        let attempt = number(ATTEMPT).or(earlier.map(|count| count.saturating_add(1))).unwrap_or(1);
        Ok(Self { block, attempt: attempt.max(1) })
    }
}

/// The block at a place, from 0, among those of a type.
fn block_at(plan: &FleetPlan, machine_type: Option<&str>, place: u32) -> Result<u32, FleetError> {
    let name = match (machine_type, plan.types.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only.name.as_str(),
        (None, _) => {
            return Err(FleetError::Request(
                "the fleet has several types of machines; say with --type NAME which this is"
                    .into(),
            ));
        }
    };
    plan.fleet().blocks_of(name).nth(place as usize).ok_or_else(|| {
        let known: Vec<&str> = plan.types.iter().map(|one| one.name.as_str()).collect();
        FleetError::Request(format!(
            "type `{name}` has no block with index {place}; the fleet's types are {}",
            known.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::MachineType;

    fn plan(types: &[&str], blocks: &[&str]) -> FleetPlan {
        FleetPlan {
            schema: String::new(),
            id: "1".into(),
            name: "x".into(),
            plan_hash: "h".into(),
            seed: 1,
            max_blocks: 4,
            folder: "/".into(),
            binary: "b".into(),
            blocks: blocks.iter().map(|&name| name.into()).collect(),
            types: types.iter().map(|one| MachineType::parse(one).unwrap()).collect(),
        }
    }

    fn find(
        plan: &FleetPlan,
        asked: &AskedBlock,
        set: &[(&str, &str)],
    ) -> Result<(u32, u32), String> {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = BlockPlace::find(plan, asked, &variable);
        found.map(|place| (place.block, place.attempt)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_engine_names_block_and_attempt_in_its_own_variables() {
        let plan = plan(&["slurm:a", "k8s:b"], &["a", "b", "b", "a"]);
        let asked = AskedBlock::default();
        let b = AskedBlock { machine_type: Some("b".into()), ..AskedBlock::default() };
        let slurm = [("SLURM_ARRAY_TASK_ID", "4")];
        assert_eq!(find(&plan, &asked, &slurm), Ok((4, 1)));
        let again = [slurm[0], ("SLURM_RESTART_COUNT", "2")];
        assert_eq!(find(&plan, &asked, &again), Ok((4, 3)));
        let pod = [("JOB_COMPLETION_INDEX", "1"), ("JOB_INDEX_FAILURE_COUNT", "1")];
        assert_eq!(find(&plan, &b, &pod), Ok((3, 2)));
        let batch = [("AWS_BATCH_JOB_ARRAY_INDEX", "0"), ("AWS_BATCH_JOB_ATTEMPT", "3")];
        assert_eq!(find(&plan, &b, &batch), Ok((2, 3)));
        let given = AskedBlock { block: Some(2), ..AskedBlock::default() };
        assert_eq!(find(&plan, &given, &slurm), Ok((2, 1)), "an option is stronger");
    }

    #[test]
    fn a_block_that_nobody_names_or_planned_is_refused_with_what_to_do() {
        let two = plan(&["slurm:a", "k8s:b"], &["a", "b", "b", "a"]);
        let asked = AskedBlock::default();
        let refused = |set: &[(&str, &str)], what: &str| {
            let message = find(&two, &asked, set).unwrap_err();
            assert!(message.contains(what), "{message}");
        };
        refused(&[], "--block N");
        refused(&[("SLURM_ARRAY_TASK_ID", "5")], "the blocks 1 to 4");
        refused(&[("SLURM_ARRAY_TASK_ID", "0")], "the blocks 1 to 4");
        refused(&[("JOB_COMPLETION_INDEX", "0")], "--type NAME");
        let one = plan(&["k8s:a"], &["a", "a"]);
        assert_eq!(find(&one, &asked, &[("JOB_COMPLETION_INDEX", "1")]), Ok((2, 1)));
        assert!(find(&one, &asked, &[("JOB_COMPLETION_INDEX", "2")]).is_err());
    }
}
