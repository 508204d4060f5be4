//! The text of `carat compare --dry-run`.

use crate::analysis::Judge;
use crate::config::{Experiment, TrialTask, block_order};
use crate::core::{ExperimentInfo, Variant};
use crate::report::numbers::limit;
use crate::run::experiment::question;
use crate::run::machine_facts;
use crate::run::trial::Prepared;
use crate::target::Libraries;
use std::fmt::{self, Write};
use std::path::Path;

/// Blocks whose order is shown, besides the warm-up block.
const BLOCKS: u32 = 5;

/// The plan, the variants as they would be started, the order of the first blocks, and this machine.
pub fn dry_run_text(
    experiment: &Experiment,
    info: &ExperimentInfo,
    prepared: &[Prepared],
    libraries: &Libraries,
) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(&mut out, experiment, info, libraries)
        .and_then(|()| prepared.iter().try_for_each(|one| write_variant(&mut out, one)))
        .and_then(|()| write_order(&mut out, experiment, info, prepared));
    out
}

fn write_plan(
    out: &mut String,
    experiment: &Experiment,
    info: &ExperimentInfo,
    libraries: &Libraries,
) -> fmt::Result {
    writeln!(out, "experiment  {}", experiment.name)?;
    writeln!(out, "plan        {}", info.plan_hash)?;
    writeln!(out, "seed        {}", info.seed)?;
    let warmup =
        if experiment.trials.warmup_block { ", after an unscored warm-up block" } else { "" };
    writeln!(out, "blocks      at most {}{warmup}", info.max_blocks)?;
    writeln!(out, "primary     {}, margin {}", info.primary, limit(info.margin))?;
    for (name, most) in &info.guards {
        writeln!(out, "guard       {name} at most {} worse", limit(*most))?;
    }
    writeln!(out, "claims      {}", claims(info))?;
    if let TrialTask::Run { within } = &experiment.task {
        writeln!(out, "run         until its command ends, at most {} s", within.as_seconds())?;
    }
    for (name, spec) in experiment.commands() {
        writeln!(out, "{name:<12}{}", spec.command.words().join(" "))?;
    }
    writeln!(out, "libraries   {}", libraries.directory.display())
}

/// The claims that share the error, and when the first of them can be decided: every claim makes that later.
fn claims(info: &ExperimentInfo) -> String {
    let question = question(info);
    let (claims, with_baseline) = (question.claims(), question.compared().len());
    let controls = match claims - with_baseline {
        0 => String::new(),
        controls => format!(" ({with_baseline} with the baseline, {controls} with a control)"),
    };
    let share = if claims > 1 { "share" } else { "has" };
    let first = match Judge::new(question).first_verdict() {
        Some(blocks) => format!("a verdict is possible from block {blocks} on"),
        None => format!("no verdict is possible within {} blocks", info.max_blocks),
    };
    format!("{claims}{controls} {share} the error of 5 %; {first}")
}

fn write_variant(out: &mut String, prepared: &Prepared) -> fmt::Result {
    writeln!(out, "\nvariant     {}", prepared.variant.name)?;
    writeln!(out, "command     {}", prepared.command.join(" "))?;
    writeln!(out, "directory   {}", prepared.dir.display())?;
    writeln!(out, "settings    {}", settings(&prepared.variant))?;
    if !prepared.variant.controls.is_empty() {
        writeln!(out, "control     {}", prepared.variant.controls.join(", "))?;
    }
    for (name, value) in &prepared.injection.env {
        if *name != carat_wire::env::PADDING {
            writeln!(out, "env         {name}={value}")?;
        }
    }
    Ok(())
}

fn write_order(
    out: &mut String,
    experiment: &Experiment,
    info: &ExperimentInfo,
    prepared: &[Prepared],
) -> fmt::Result {
    writeln!(out)?;
    let first = u32::from(!experiment.trials.warmup_block);
    for block in first..=info.max_blocks.min(BLOCKS) {
        let names: Vec<&str> = block_order(info.seed, block, prepared.len())
            .iter()
            .map(|position| prepared[position.variant].variant.name.as_str())
            .collect();
        writeln!(out, "block {block:<5} {}", names.join(", "))?;
    }
    for (name, value) in machine_facts(Path::new("/")) {
        writeln!(out, "{name:11} {value}")?;
    }
    Ok(())
}

fn settings(variant: &Variant) -> String {
    if variant.settings.is_empty() {
        return "none".to_owned();
    }
    let pairs = variant.settings.iter().map(|(name, value)| format!("{name} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
