//! Round trips by number of connections: one point per step of a cable load.

use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, variant_class};
use crate::facts;
use crate::lists::grouped_in_order;
use crate::page::{Gallery, number_table};
use crate::step_figures::step_table;
use crate::text::one_line;
use crate::wording;
use carat_model::load::{StepReport, Times};
use carat_model::{Results, Unit};
use carat_stats::curve::rising;
use maud::{Markup, html as markup};

/// Distributions of a step, the most informative first, with what they measure.
const DISTRIBUTIONS: [(&str, &str); 3] = [
    ("complete", "until every connection had the broadcast"),
    ("own", "until the sender had its own broadcast"),
    ("delivery", "until a connection had the broadcast"),
];

/// Thin lines in one picture.
const THIN_LINES: usize = 40;

/// Connections, and seconds at that step.
type StepSeries = Vec<(f64, f64)>;

/// Empty if no trial has steps.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    // The most informative one that the load has.
    let loads = results.trials.iter().filter_map(|trial| trial.load.as_ref());
    let steps = loads.flat_map(|load| &load.steps);
    let has = |name: &str| steps.clone().any(|step| step.times.contains_key(name));
    let present = DISTRIBUTIONS.into_iter().find(|(name, _)| has(name));
    let Some((distribution, meaning)) = present else {
        return markup! {};
    };
    let numbers = step_table(results);
    let body = markup! {
        figure {
            figcaption {
                "Seconds " (meaning) ", by the number of connected clients. The thick line goes through the medians over trials, a thin line is one trial. \
                In the table, memory is that of the tree in the last sample at that number. \
                If the medians decrease, the dashed line is the nearest curve that never decreases: a decrease is noise unless its steps are proven to differ."
            }
            div.grid2 {
                (picture(results, distribution, "median", |times| times.p50, gallery))
                (picture(results, distribution, "p95", |times| times.p95, gallery))
            }
        }
        ul.also {
            @for curve in &results.curves { li { strong { (curve.variant) } ": " (wording::curve(curve)) "." } }
        }
        @if let Some(numbers) = &numbers { (number_table(numbers)) }
    };
    gallery.part("steps", &markup! { "Round trips by number of connections" }, &body)
}

/// The series of every trial that counts: one percentile of one distribution.
fn trials(
    results: &Results,
    variant: &str,
    distribution: &str,
    percentile: fn(&Times) -> f64,
) -> Vec<StepSeries> {
    let point = |step: &StepReport| {
        let times = step.times.get(distribution)?;
        Some((f64::from(step.clients), percentile(times)))
    };
    facts::counted_trials(results, variant)
        .filter_map(|trial| trial.load.as_ref())
        .map(|load| load.steps.iter().filter_map(point).collect())
        .collect()
}

/// The median over the trials at every step.
fn medians(trials: &[StepSeries]) -> StepSeries {
    let points = trials.iter().flatten().map(|(clients, value)| (*clients as u32, *value));
    let medians = grouped_in_order(points).into_iter().filter_map(|(clients, values)| {
        Some((f64::from(clients), facts::summarize(&values)?.median))
    });
    medians.collect()
}

/// One percentile of one distribution, with its name.
fn picture(
    results: &Results,
    distribution: &str,
    name: &str,
    percentile: fn(&Times) -> f64,
    gallery: &mut Gallery,
) -> Markup {
    let thin = (THIN_LINES / results.info.variants.len().max(1)).max(2);
    let mut lines = Vec::new();
    let mut descriptions = Vec::new();
    for (place, variant) in results.info.variants.iter().enumerate() {
        let class = variant_class(place);
        let trials = trials(results, &variant.name, distribution, percentile);
        let medians = medians(&trials);
        if let Some((clients, value)) = medians.last() {
            let value = Unit::Seconds.show(*value);
            descriptions.push(format!("{}: {value} at {clients} clients", variant.name));
        }
        // The median of one trial is that trial.
        if trials.len() > 1 {
            lines.extend(trials.into_iter().take(thin).map(|points| PlotLine::thin(class, points)));
        }
        // The nearest curve that never decreases; points that never fall are their own.
        let (clients, values): (Vec<f64>, Vec<f64>) = medians.iter().copied().unzip();
        let pooled = rising(&values);
        if pooled != values {
            let points = clients.into_iter().zip(pooled).collect();
            lines.push(PlotLine::new("", class, Stroke::Reference, points));
        }
        lines.push(PlotLine::new(one_line(&variant.name), class, Stroke::Points, medians));
    }
    let (x, y) = (Axis::Linear(Unit::Count), Axis::Linear(Unit::Seconds));
    let plot = Plot::new(x, "connections", y, lines);
    let title = format!("{name} of round trips by number of connections");
    let caption = Caption::new(format!("steps-{name}"), title, descriptions.join("; "));
    gallery.panel(name, plot.draw(caption))
}
