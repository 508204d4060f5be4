//! Figures of each route or step of an HTTP load: medians over the trials that count, or those of a single load.

use crate::facts;
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::load::{RouteReport, Times};
use carat_model::metric::BEYOND;
use carat_model::{LoadReport, Results, Unit};
use carat_stats::summary::median;
use std::collections::BTreeMap;

/// One route or step under one variant. A figure that no trial has is `None`.
#[derive(Debug, Clone, PartialEq)]
struct RouteRow {
    /// Scenario and step, if it is a step of one, then method and path.
    name: String,
    variant: String,
    /// Trials that report it.
    trials: usize,
    /// Median of the correct responses of a trial.
    responses: f64,
    /// Requests without a correct response, in all trials together.
    errors: u64,
    /// Medians over the trials, in seconds from the intended send; without trials that have too few responses beyond.
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

/// The values of the trials.
#[derive(Default)]
struct RouteValues {
    responses: Vec<f64>,
    errors: u64,
    times: Vec<Times>,
}

/// Every route or step in the order of the load, and under each every variant; empty if the load has only one route.
fn route_rows(results: &Results) -> Vec<RouteRow> {
    // Of all variants together, so that every table has the same routes in one order.
    let counted = results.trials.iter().filter(|trial| facts::counts(trial));
    let keys = keys(counted.filter_map(|trial| trial.load.as_ref()));
    let mut rows = Vec::new();
    for key in &keys {
        for variant in &results.info.variants {
            let trials = facts::counted_trials(results, &variant.name);
            // A variant without the route has no row: zero responses would be a figure.
            rows.extend(row(trials.filter_map(|trial| trial.load.as_ref()), &variant.name, key));
        }
    }
    rows
}

/// The rows as a table; `None` if the load has only one route.
pub(crate) fn route_table(results: &Results) -> Option<FactTable> {
    table(&route_rows(results), true)
}

/// The routes of a single load; `None` if it has only one.
pub(crate) fn load_table(load: &LoadReport) -> Option<FactTable> {
    table(&load_rows(load), false)
}

/// With columns of variants and trials if the rows are of `several`.
fn table(rows: &[RouteRow], several: bool) -> Option<FactTable> {
    let mut table = FactTable::new("Every route or step").texts(["route or step"]);
    if several {
        table = table.texts(["variant"]).numbers(["n"]);
    }
    let table = table.numbers(["responses", "errors", "p50", "p95", "p99"]);
    (!rows.is_empty()).then(|| table.rows(rows.iter().map(|row| row.cells(several))))
}

/// Every route or step of a single load, which has no variant; empty if it has only one.
fn load_rows(load: &LoadReport) -> Vec<RouteRow> {
    let keys = keys([load].into_iter());
    keys.iter().filter_map(|key| row([load].into_iter(), "", key)).collect()
}

/// What makes a route the same in two trials: scenario, step, whether it was redirected, and the route.
type RouteKey = (Option<String>, Option<u32>, bool, String);

fn key(route: &RouteReport) -> RouteKey {
    (route.scenario.clone(), route.step, route.redirected, route.route.clone())
}

/// Every key once, in the order of the first load that has it; none if there is only one.
fn keys<'a>(loads: impl Iterator<Item = &'a LoadReport>) -> Vec<RouteKey> {
    let mut places: BTreeMap<RouteKey, usize> = BTreeMap::new();
    for route in loads.flat_map(|load| &load.routes) {
        let place = places.len();
        places.entry(key(route)).or_insert(place);
    }
    // The figures of a single route are those of the whole load.
    let several = places.len() > 1;
    let mut keys: Vec<(RouteKey, usize)> = places.into_iter().collect();
    keys.sort_by_key(|(_, place)| *place);
    keys.into_iter().map(|(key, _)| key).filter(|_| several).collect()
}

/// `None` if none of the loads has the route.
fn row<'a>(
    loads: impl Iterator<Item = &'a LoadReport>,
    variant: &str,
    wanted: &RouteKey,
) -> Option<RouteRow> {
    let mut values = RouteValues::default();
    for route in loads.flat_map(|load| &load.routes).filter(|route| key(route) == *wanted) {
        values.responses.push(route.completed as f64);
        values.errors += route.errors;
        values.times.extend(route.latency.clone());
    }
    Some(RouteRow {
        name: name(wanted),
        variant: variant.to_owned(),
        trials: values.responses.len(),
        responses: median(&values.responses)?,
        errors: values.errors,
        p50: values.median_of(|times| Some(times.p50)),
        p95: values.median_of(|times| Some(times.p95).filter(|_| has_beyond(times, 0.05))),
        p99: values.median_of(|times| Some(times.p99).filter(|_| has_beyond(times, 0.01))),
    })
}

impl RouteRow {
    fn cells(&self, several: bool) -> Vec<Cell> {
        let mut cells = vec![Cell::text(&self.name)];
        if several {
            cells.extend([Cell::text(&self.variant), Cell::count(self.trials)]);
        }
        cells.extend([
            Cell::shown(self.responses, |responses| format!("{responses:.0}")),
            Cell::shown(self.errors as f64, |errors| errors.to_string()),
        ]);
        cells.extend([self.p50, self.p95, self.p99].map(|p| Cell::amount(Unit::Seconds, p)));
        cells
    }
}

impl RouteValues {
    fn median_of(&self, percentile: fn(&Times) -> Option<f64>) -> Option<f64> {
        median(&self.times.iter().filter_map(percentile).collect::<Vec<f64>>())
    }
}

/// Whether enough responses lie beyond a percentile for it to be known; `share` of them do.
fn has_beyond(times: &Times, share: f64) -> bool {
    times.count as f64 * share >= BEYOND as f64
}

/// `shopping, step 2: POST /cart`.
fn name((scenario, step, redirected, route): &RouteKey) -> String {
    let place = scenario.as_ref().map(|scenario| match step {
        Some(step) => format!("{scenario}, step {step}: "),
        None => format!("{scenario}: "),
    });
    let end = if *redirected { ", after its redirect" } else { "" };
    one_line(&format!("{}{route}{end}", place.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_load_has_a_row_per_route_unless_it_has_only_one() {
        let times = |count| Times { count, p50: 0.1, p95: 0.2, p99: 0.3, ..Times::default() };
        let route = |name: &str, count| RouteReport {
            route: name.into(),
            completed: count,
            errors: 2,
            latency: Some(times(count)),
            ..RouteReport::default()
        };
        let one = LoadReport { routes: vec![route("GET /", 300)], ..LoadReport::default() };
        assert_eq!(load_rows(&one), []);
        let two = LoadReport { routes: vec![route("GET /b", 300), route("GET /a", 90)], ..one };
        let rows = load_rows(&two);
        assert_eq!(
            rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
            ["GET /b", "GET /a"]
        );
        assert_eq!((rows[0].responses, rows[0].errors, rows[0].trials), (300.0, 2, 1));
        assert_eq!((rows[0].p95, rows[0].p99), (Some(0.2), None));
        assert_eq!((rows[1].p50, rows[1].p95), (Some(0.1), None));
    }

    #[test]
    fn a_step_is_named_by_its_scenario_and_its_place() {
        let step = (Some("shopping".into()), Some(2), true, "POST /cart".into());
        assert_eq!(name(&step), "shopping, step 2: POST /cart, after its redirect");
        assert_eq!(name(&(None, None, false, "GET /".into())), "GET /");
    }
}
