//! Memory as a multiple of the least that the application could have: what every format says of it.

use crate::moments::metric_moment;
use crate::numbers::percent;
use crate::text::{one_line, shorten};
use carat_model::{LeastDistance, MetricMoment, Results, Unit};

/// Characters shown of a variant's name: a limit for hostile files.
const NAME: usize = 300;

/// The moment and the multiple of every variant, without a full stop; `None` where no server forked.
pub(crate) fn line(results: &Results) -> Option<String> {
    let variants: Vec<String> = results.least.iter().map(of_variant).collect();
    let moment = metric_moment(results, MetricMoment::AfterLoad);
    (!variants.is_empty()).then(|| {
        let level = level(results).map(|level| format!("; {level}")).unwrap_or_default();
        let variants = variants.join(" · ");
        format!("memory {moment}, × the least this app can have: {variants}{level}")
    })
}

/// `default 3.12 (3.05 to 3.20, n = 8)`.
fn of_variant(one: &LeastDistance) -> String {
    let name = shorten(&one_line(&one.variant), NAME);
    let interval = interval(one).map(|interval| format!("{interval}, ")).unwrap_or_default();
    format!("{name} {:.2} ({interval}n = {})", one.median, one.trials)
}

/// `3.12 × (3.05 to 3.20)`.
pub(crate) fn multiple(one: &LeastDistance) -> String {
    let interval = interval(one).map(|interval| format!(" ({interval})"));
    format!("{}{}", Unit::Ratio.show(one.median), interval.unwrap_or_default())
}

/// `3.05 to 3.20`; `None` while there are too few blocks.
pub(crate) fn interval(one: &LeastDistance) -> Option<String> {
    one.interval.map(|(low, high)| format!("{low:.2} to {high:.2}"))
}

/// `intervals at 95 %, exploratory`; `None` without intervals.
pub(crate) fn level(results: &Results) -> Option<String> {
    let confidence = results.least.iter().find_map(|one| one.confidence)?;
    Some(format!("intervals at {}, exploratory", percent(confidence, 0)))
}
