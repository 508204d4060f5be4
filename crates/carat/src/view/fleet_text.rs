//! The state of a fleet, as text and as JSON.

use crate::fleet::{FleetLook, FleetPlan, LookEnd, MachineTypeCount};
use crate::view::merge_text::uncounted_lines;
use carat_report::numbers::count;
use carat_report::text::one_line;
use serde_json::{Value, json};

/// Name and version of the JSON.
const SCHEMA: &str = "carat.fleet-status/1";

/// What the parts show: a line per type of machine, what counts, and the attempts that do not.
pub(crate) fn fleet_text(plan: &FleetPlan, look: &FleetLook) -> String {
    let types = count(plan.types.len(), "machine type");
    let hash: String = plan.plan_hash.chars().take(12).collect();
    let mut text = format!(
        "{}: at most {} on {types}, plan {hash}, seed {}\n",
        one_line(&plan.name),
        count(plan.max_blocks as usize, "block"),
        plan.seed
    );
    for one in &look.types {
        text.push_str(&format!("  {}\n", type_line(one)));
    }
    let counted = count(look.counted.len(), "block");
    text.push_str(&format!("{counted} counted; {}\n", end_text(&look.end)));
    for line in look.merged.iter().flat_map(uncounted_lines) {
        text.push_str(&format!("! {line}\n"));
    }
    text
}

fn type_line(one: &MachineTypeCount) -> String {
    let MachineTypeCount { name, planned, done, void, begun } = one;
    let mut line = format!("{name}: {done} of {planned} blocks have a result");
    if *begun > 0 {
        line.push_str(&format!(", {begun} began"));
    }
    if *void > 0 {
        line.push_str(&format!(", {void} given up"));
    }
    line
}

/// What follows for the fleet, without a full stop.
pub(crate) fn end_text(end: &LookEnd) -> String {
    match end {
        LookEnd::Waiting => "the next block has no result yet".into(),
        LookEnd::Decided => "no further block would count".into(),
        LookEnd::Failed(error) => error.to_string(),
        LookEnd::UsedUp => "every planned block is used".into(),
        LookEnd::Unfit { void, most } => format!(
            "{} given up, {most} may be: read log/ and use other machines",
            count(*void, "block")
        ),
    }
}

/// The same as JSON.
///
/// # Errors
/// If it cannot be written as JSON.
pub(crate) fn fleet_json(plan: &FleetPlan, look: &FleetLook) -> serde_json::Result<String> {
    let types: Vec<Value> = look.types.iter().map(|one| json!({
        "name": one.name, "planned": one.planned, "done": one.done, "void": one.void, "begun": one.begun,
    })).collect();
    let end = match look.end {
        LookEnd::Waiting => "waiting",
        LookEnd::Decided => "decided",
        LookEnd::Failed(_) => "failed",
        LookEnd::UsedUp => "used-up",
        LookEnd::Unfit { .. } => "unfit",
    };
    let uncounted: Vec<String> = look.merged.iter().flat_map(uncounted_lines).collect();
    let status = json!({
        "schema": SCHEMA, "name": plan.name, "plan_hash": plan.plan_hash, "seed": plan.seed,
        "max_blocks": plan.max_blocks, "types": types, "counted": look.counted, "end": end,
        "uncounted": uncounted,
    });
    Ok(serde_json::to_string_pretty(&status)? + "\n")
}
