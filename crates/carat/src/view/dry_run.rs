//! The text of `carat compare --dry-run`.

use crate::config::{Experiment, TrialTask, block_order};
use crate::run::machine_facts;
use crate::run::trial::PreparedVariant;
use crate::target::Libraries;
use crate::view::effort::ExperimentEffort;
use carat_analysis::question;
use carat_load::http::replay::describe;
use carat_model::load::{
    ALL_AT_ONCE, Amount, HttpLoad, HttpRoute, Pace, SidekiqLoad, SqlQueueLoad,
};
use carat_model::{ExperimentInfo, LoadSpec, LoadTemplate, Span, first_names, mask_secrets};
use carat_report::first_verdict_text;
use carat_report::numbers::{count, duration, limit};
use carat_report::text::{settings_text, shorten};
use carat_stats::summary::median;
use std::fmt::{self, Write};
use std::path::Path;

/// Blocks whose order is shown, besides the warm-up block.
const BLOCKS: u32 = 5;

/// Routes named in the description of a load.
const ROUTES: usize = 3;

/// What would run, and how long it takes. `earlier` has the seconds of trials that ran under the same plan.
pub fn dry_run_text(
    experiment: &Experiment,
    info: &ExperimentInfo,
    prepared: &[PreparedVariant],
    earlier: &[f64],
) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(&mut out, experiment, info)
        .and_then(|()| write_effort(&mut out, experiment, info, earlier))
        .and_then(|()| write_task(&mut out, experiment))
        .and_then(|()| write_variants(&mut out, experiment, prepared));
    out
}

/// What else is fixed: the variants as they would be started, the order of the first blocks, and this machine.
pub fn dry_run_details(
    experiment: &Experiment,
    info: &ExperimentInfo,
    prepared: &[PreparedVariant],
    libraries: &Libraries,
) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "plan        {}", info.plan_hash)
        .and_then(|()| writeln!(out, "seed        {}", info.seed))
        .and_then(|()| writeln!(out, "libraries   {}", libraries.directory.display()))
        .and_then(|()| prepared.iter().try_for_each(|one| write_variant(&mut out, one)))
        .and_then(|()| write_order(&mut out, experiment, info, prepared));
    out
}

fn write_plan(out: &mut String, experiment: &Experiment, info: &ExperimentInfo) -> fmt::Result {
    writeln!(out, "experiment  {}", experiment.name)?;
    let warmup =
        if experiment.trials.warmup_block { ", after an unscored warm-up block" } else { "" };
    writeln!(out, "blocks      at most {}{warmup}", info.max_blocks)?;
    writeln!(out, "primary     {}, margin {}", info.primary, limit(info.margin))?;
    for (name, most) in &info.guards {
        writeln!(out, "guard       {name} at most {} worse", limit(*most))?;
    }
    writeln!(out, "claims      {}", claims(info))
}

fn write_task(out: &mut String, experiment: &Experiment) -> fmt::Result {
    if let TrialTask::Run { within } = &experiment.task {
        writeln!(out, "run         until its command ends, at most {} s", within.as_seconds())?;
    }
    for (name, spec) in experiment.commands() {
        writeln!(out, "{name:<12}{}", spec.command.words().join(" "))?;
    }
    Ok(())
}

/// The command, once where all variants share it, and a line for each variant.
fn write_variants(
    out: &mut String,
    experiment: &Experiment,
    prepared: &[PreparedVariant],
) -> fmt::Result {
    let mut shown: Option<&[String]> = None;
    for one in prepared {
        if shown != Some(&one.command) {
            writeln!(out, "command     {}", one.command.join(" "))?;
            shown = Some(&one.command);
        }
        let controls = match one.variant.controls.as_slice() {
            [] => String::new(),
            controls => format!("; control {}", controls.join(", ")),
        };
        let (name, settings) = (&one.variant.name, settings_text(&one.variant, " = "));
        let planned = experiment.variants.iter().find(|planned| planned.name == *name);
        let env = planned.into_iter().flat_map(|planned| &planned.env);
        let env: String = env.map(|(name, value)| format!("; env {name}={value}")).collect();
        // What is printed unasked ends up in logs.
        let env = mask_secrets(&env);
        writeln!(out, "variant     {name}: {settings}{env}{controls}")?;
    }
    Ok(())
}

/// The load, the number of trials, and how long they take.
fn write_effort(
    out: &mut String,
    experiment: &Experiment,
    info: &ExperimentInfo,
    earlier: &[f64],
) -> fmt::Result {
    let ExperimentEffort { first_verdict, most, .. } = ExperimentEffort::of(experiment, info);
    if let Some(load) = experiment.task.generated_load() {
        writeln!(out, "load        {}", load_text(load, &experiment.folder))?;
    }
    writeln!(out, "trials      at most {most}")?;
    let least = least_seconds(experiment);
    // Earlier trials of the same plan say more than any estimate.
    let (seconds, source) = match median(earlier) {
        Some(seconds) => (seconds, format!("{} so far", count(earlier.len(), "trial"))),
        None if least > 0.0 => {
            (least, "the load and the pauses alone, without start and stop".into())
        }
        None => return writeln!(out, "time        unknown until a trial has run"),
    };
    let about = if earlier.is_empty() { "at least" } else { "about" };
    let first = first_verdict.map_or_else(String::new, |trials| {
        format!(", {about} {} until the first possible verdict", duration(trials as f64 * seconds))
    });
    let (one, all) = (duration(seconds), duration(most as f64 * seconds));
    writeln!(out, "time        {about} {one} per trial ({source}){first}, {all} for all")
}

/// Seconds that every trial takes at least: a load that ends by time or has a rate, and the pauses after it.
fn least_seconds(experiment: &Experiment) -> f64 {
    let measure = &experiment.measure;
    let Some(load) = experiment.task.generated_load() else { return 0.0 };
    let loads = [Some(load.measured("")), load.warmup("")];
    let loads: f64 = loads.iter().flatten().map(load_seconds).sum();
    // The load depends on the server's speed, so nothing is known.
    if loads == 0.0 {
        return 0.0;
    }
    let idle = measure.idle.map_or(0.0, Span::as_seconds);
    loads + measure.settle.as_seconds() + idle
}

/// Planned seconds of a load; zero if they depend on the server.
fn load_seconds(load: &LoadSpec) -> f64 {
    let (amount, pace) = match load {
        LoadSpec::Http(load) => (load.amount, load.pace),
        LoadSpec::Sidekiq(load) => (load.amount, load.pace),
        LoadSpec::SqlQueue(load) => (load.amount, load.pace),
        LoadSpec::Cable(_) => return 0.0,
    };
    match (amount, pace) {
        (Amount::Seconds(seconds), _) => seconds,
        (Amount::Requests(requests), Pace::Open { per_second, .. }) => requests as f64 / per_second,
        (Amount::Requests(_), Pace::Closed { .. }) => 0.0,
    }
}

fn load_text(load: &LoadTemplate, folder: &Path) -> String {
    let warmup = match load.warmup("") {
        Some(LoadSpec::Http(load)) => {
            format!(", after {} to warm up", amount_text(load.amount, "request"))
        }
        Some(
            LoadSpec::Sidekiq(SidekiqLoad { amount, .. })
            | LoadSpec::SqlQueue(SqlQueueLoad { amount, .. }),
        ) => {
            format!(", after {} to warm up", amount_text(amount, "job"))
        }
        _ => String::new(),
    };
    match load.measured("").in_folder(folder) {
        LoadSpec::Http(load) => {
            let connections = count(load.connections as usize, "connection");
            let pace = match load.pace {
                Pace::Open { per_second, .. } => format!(" at {per_second} per second"),
                Pace::Closed { .. } => String::new(),
            };
            let amount = amount_text(load.amount, "request");
            format!("{amount} over {connections}{pace}{warmup}: {}", what_text(&load))
        }
        LoadSpec::Sidekiq(SidekiqLoad { amount, pace, class, queue, .. })
        | LoadSpec::SqlQueue(SqlQueueLoad { amount, pace, class, queue, .. }) => {
            let amount = amount_text(amount, "job");
            let pace = match pace {
                Pace::Open { per_second, .. } => format!("at {per_second} per second"),
                Pace::Closed { at_once: ALL_AT_ONCE } => "all at once".to_owned(),
                Pace::Closed { at_once } => format!("{at_once} at once"),
            };
            format!("{amount} {pace}{warmup}: {class} in queue {queue}")
        }
        LoadSpec::Cable(load) => {
            let (steps, broadcasts) = (load.steps as usize, load.broadcasts as usize);
            let (steps, broadcasts) = (count(steps, "step"), count(broadcasts, "broadcast"));
            format!("{steps} of {} connections each, {broadcasts} per step", load.step_size)
        }
    }
}

fn amount_text(amount: Amount, noun: &str) -> String {
    match amount {
        Amount::Requests(number) => count(usize::try_from(number).unwrap_or(usize::MAX), noun),
        Amount::Seconds(seconds) => duration(seconds),
    }
}

fn what_text(load: &HttpLoad) -> String {
    if let Some(replay) = &load.replay {
        let pace = match replay.pace {
            Some(factor) => format!("{factor} times as fast as recorded, "),
            None => String::new(),
        };
        // A file that cannot be read is refused before, with the reason.
        let text = describe(replay).unwrap_or_else(|_| replay.file.clone());
        return format!("{pace}replay of {text}");
    }
    if load.scenarios.is_empty() {
        return routes_text(&load.routes);
    }
    let names: Vec<&str> = load.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    format!("scenarios {}", shorten(&names.join(", "), 120))
}

fn routes_text(routes: &[HttpRoute]) -> String {
    let named = routes.iter().map(|route| shorten(&format!("{} {}", route.method, route.path), 60));
    first_names(named, ROUTES)
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
    format!("{claims}{controls} {share} the error of 5 %; {}", first_verdict_text(&question))
}

fn write_variant(out: &mut String, prepared: &PreparedVariant) -> fmt::Result {
    writeln!(out, "\nvariant     {}", prepared.variant.name)?;
    writeln!(out, "directory   {}", prepared.dir.display())?;
    for (name, value) in &prepared.injection.env {
        // Padding is only there to make environments equal, and is as long as it must be.
        if *name != carat_wire::env::PADDING {
            // As above: a secret of the app's may have been put beside what carat injects.
            writeln!(out, "env         {}", mask_secrets(&format!("{name}={value}")))?;
        }
    }
    Ok(())
}

fn write_order(
    out: &mut String,
    experiment: &Experiment,
    info: &ExperimentInfo,
    prepared: &[PreparedVariant],
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
