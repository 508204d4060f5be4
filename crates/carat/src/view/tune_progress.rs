//! The progress of a search, in words.

use crate::run::tune::{TuneEvent, TunePlan, TuneProgress, TuneStage};
use carat_report::numbers::{count, duration, grouped, percent, single_change, time_left};
use carat_report::text::shorten;
use std::fmt::Write;
use std::time::Duration;

/// Characters of a configuration.
const CONFIGURATION: usize = 70;

/// What happens, for the log of a search whose goal is `least`.
pub(crate) fn event_text(event: &TuneEvent, least: &str) -> String {
    match event {
        TuneEvent::Plan(plan) => plan_text(plan),
        TuneEvent::Begin(progress) => {
            let mut text = progress_line(progress, least);
            if let Some((best, _)) = &progress.best {
                let _ = write!(text, "\n  best so far: {}", shorten(best, CONFIGURATION));
            }
            // One that is tried several times in a block is one line.
            for same in progress.configurations.chunk_by(|one, next| one == next) {
                let _ = write!(text, "\n  {}", shorten(&same[0], CONFIGURATION));
                if same.len() > 1 {
                    let _ = write!(text, " (×{})", same.len());
                }
            }
            text
        }
    }
}

fn plan_text(plan: &TunePlan) -> String {
    let configurations = plan.configurations.and_then(|number| u64::try_from(number).ok());
    let number = configurations.map_or("more than 5 million".into(), grouped);
    let trial = duration(plan.seconds);
    let factors = match plan.factors {
        1 => "1 setting or knob".to_owned(),
        many => format!("{many} settings and knobs"),
    };
    let mut text = format!("{factors}, {number} configurations; a trial takes about {trial}");
    let confirm = match plan.confirm_trials {
        (fewest, most) if fewest == most => {
            format!("{} ({})", count(most, "trial"), duration(most as f64 * plan.seconds))
        }
        (fewest, most) => {
            let times = [fewest, most].map(|trials| duration(trials as f64 * plan.seconds));
            format!("{fewest} to {most} ({})", times.join(" to "))
        }
    };
    let _ = write!(
        text,
        "\nthe search: at most {} ({}); then to confirm: {confirm}",
        count(plan.search_trials, "trial"),
        duration(plan.search_trials as f64 * plan.seconds),
    );
    for guard in &plan.guards {
        let mark = if guard.fits() { "" } else { "warning: " };
        let _ = write!(text, "\n{mark}{guard}");
    }
    for (name, why) in &plan.left_out {
        let _ = write!(text, "\nnot tried: {name}, because {why}");
    }
    text
}

/// Phase, trials, best so far and time left, on one line.
pub(crate) fn progress_line(progress: &TuneProgress, least: &str) -> String {
    let mut line = progress.stage.to_string();
    let (done, all) = progress.trials;
    match progress.stage {
        TuneStage::Look => line.push_str(": the default alone"),
        TuneStage::Screen | TuneStage::Adapt => {
            let _ = write!(line, " {done}/{all} ({})", percent(done as f64 / all.max(1) as f64, 0));
        }
        TuneStage::Confirm | TuneStage::Ablate => {}
    }
    if let Some((_, change)) = &progress.best {
        let _ = write!(line, " · best trial so far {}", single_change(least, *change));
    }
    if let Some(seconds) = progress.seconds_left {
        let most = if progress.stage == TuneStage::Confirm { "at most " } else { "about " };
        let left = time_left(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let _ = write!(line, " · {most}{left} left in this phase");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tune::GuardForecast;

    const LEAST: &str = "memory.pss.late";

    #[test]
    fn a_line_names_the_phase_the_best_so_far_and_the_time_left() {
        let progress = TuneProgress {
            stage: TuneStage::Adapt,
            trials: (48, 96),
            configurations: ["trim=idle", "default", "default"].map(str::to_owned).into(),
            best: Some(("arena_max=2".into(), -0.312)),
            seconds_left: Some(1860.0),
        };
        assert_eq!(
            progress_line(&progress, LEAST),
            "adapt 48/96 (50 %) · best trial so far −31.2 % · about 31 min left in this phase"
        );
        let text = event_text(&TuneEvent::Begin(progress), LEAST);
        assert!(
            text.ends_with("\n  best so far: arena_max=2\n  trim=idle\n  default (×2)"),
            "{text}"
        );
    }

    #[test]
    fn the_plan_has_trials_minutes_and_a_warning_where_a_guard_needs_more_than_is_allowed() {
        let guard = GuardForecast {
            metric: "latency.p95",
            limit: 0.05,
            spread: 0.1,
            trials: 6,
            blocks: 100,
            range: (40, 400),
            allowed: 60,
            requests: Some(2000),
        };
        let plan = TunePlan {
            factors: 11,
            configurations: Some(29_952),
            left_out: vec![("ksm", "the server forks no workers".into())],
            seconds: 45.0,
            search_trials: 96,
            confirm_trials: (18, 240),
            guards: vec![guard.clone(), GuardForecast { blocks: 20, ..guard }],
        };
        let alone = TunePlan { factors: 1, confirm_trials: (16, 16), ..plan.clone() };
        let alone = event_text(&TuneEvent::Plan(alone), LEAST);
        assert!(alone.starts_with("1 setting or knob, "), "{alone}");
        assert!(alone.contains("then to confirm: 16 trials (12 min)"), "{alone}");
        let text = event_text(&TuneEvent::Plan(plan), LEAST);
        for part in [
            "11 settings and knobs, 29,952 configurations",
            "96 trials (72 min)",
            "18 to 240 (14 min to 3.0 h)",
            "warning: latency.p95 varies by 10.0 %",
            "\nlatency.p95 varies",
            "not tried: ksm, because the server forks no workers",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
