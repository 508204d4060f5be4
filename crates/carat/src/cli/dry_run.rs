//! What `carat compare --dry-run` shows.

use crate::config::{Experiment, block_order};
use crate::core::{ExperimentInfo, Variant};
use crate::run::experiment::machine_facts;
use crate::run::trial::Prepared;
use crate::target::Libraries;
use std::fmt::Write;

/// The plan, the variants as they would be started, the first blocks, and this machine.
pub(crate) fn dry_run(
    experiment: &Experiment,
    header: &ExperimentInfo,
    prepared: &[Prepared],
    libraries: &Libraries,
) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!("experiment  {}", experiment.name));
    line(format!("plan        {}", header.plan_hash));
    line(format!("seed        {}", header.seed));
    line(format!("blocks      at most {}, after an unscored warm-up block", header.max_blocks));
    line(format!("primary     {}, margin {} %", header.primary, header.margin * 100.0));
    for (name, limit) in &header.guards {
        line(format!("guard       {name} at most {} % worse", limit * 100.0));
    }
    line(format!("libraries   {}", libraries.directory.display()));
    for one in prepared {
        line(format!("\nvariant     {}", one.variant.name));
        line(format!("command     {}", one.command.join(" ")));
        line(format!("directory   {}", one.dir.display()));
        line(format!("settings    {}", settings(&one.variant)));
        let shown = one.env.iter().filter(|(name, _)| *name != carat_wire::env::PADDING);
        shown.for_each(|(name, value)| line(format!("env         {name}={value}")));
    }
    let mut order = String::new();
    for block in 0..=header.max_blocks.min(5) {
        let names: Vec<&str> = block_order(header.seed, block, prepared.len())
            .iter()
            .map(|slot| prepared[slot.variant].variant.name.as_str())
            .collect();
        let _ = writeln!(order, "block {block:<5} {}", names.join(", "));
    }
    for (name, value) in machine_facts() {
        let _ = writeln!(order, "{name:11} {value}");
    }
    text + "\n" + &order
}

fn settings(variant: &Variant) -> String {
    if variant.settings.is_empty() {
        return "none".to_owned();
    }
    let pairs = variant.settings.iter().map(|(name, value)| format!("{name} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
