//! Figures of each route or step of an HTTP load: medians over the trials that count, or those of a single load.

use crate::facts;
use crate::lists::distinct;
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::load::{RouteReport, Times};
use carat_model::metric::BEYOND;
use carat_model::{LoadReport, Results, Unit};
use carat_stats::summary::median;

/// Every route or step in the order of the load, and under each every variant; `None` if the load has only one route.
pub(crate) fn route_table(results: &Results) -> Option<FactTable> {
    // Of all variants together, so that every table has the same routes in one order.
    let counted = results.trials.iter().filter(|trial| facts::counts(trial));
    let keys = keys(counted.filter_map(|trial| trial.load.as_ref()));
    let mut rows = Vec::new();
    for key in &keys {
        for variant in &results.info.variants {
            let trials = facts::counted_trials(results, &variant.name);
            // A variant without the route has no row: zero responses would be a figure.
            let loads = trials.filter_map(|trial| trial.load.as_ref());
            rows.extend(row(loads, Some(&variant.name), key));
        }
    }
    table(rows, true)
}

/// The routes of a single load, which has no variant; `None` if it has only one.
pub(crate) fn load_table(load: &LoadReport) -> Option<FactTable> {
    let keys = keys([load].into_iter());
    let rows = keys.iter().filter_map(|key| row([load].into_iter(), None, key));
    table(rows.collect(), false)
}

/// With columns of variants and trials if the rows are of `several`.
fn table(rows: Vec<Vec<Cell>>, several: bool) -> Option<FactTable> {
    let mut table = FactTable::new("Every route or step").texts(["route or step"]);
    if several {
        table = table.texts(["variant"]).numbers(["n"]);
    }
    let table = table.numbers(["responses", "errors", "p50", "p95", "p99"]);
    (!rows.is_empty()).then(|| table.rows(rows))
}

/// What makes a route the same in two trials: scenario, step, whether it was redirected, and the route.
type RouteKey = (Option<String>, Option<u32>, bool, String);

fn key(route: &RouteReport) -> RouteKey {
    (route.scenario.clone(), route.step, route.redirected, route.route.clone())
}

/// Every key once, in the order of the first load that has it; none if there is only one.
fn keys<'a>(loads: impl Iterator<Item = &'a LoadReport>) -> Vec<RouteKey> {
    let keys = distinct(loads.flat_map(|load| &load.routes).map(key));
    // The figures of a single route are those of the whole load.
    if keys.len() > 1 { keys } else { Vec::new() }
}

/// The cells of a route: its name, the variant and its trials, the median of the correct responses of a trial, errors of all
/// trials together, and medians of percentiles. `None` if none of the loads has it.
fn row<'a>(
    loads: impl Iterator<Item = &'a LoadReport>,
    variant: Option<&str>,
    wanted: &RouteKey,
) -> Option<Vec<Cell>> {
    let routes = loads.flat_map(|load| &load.routes).filter(|route| key(route) == *wanted);
    let routes: Vec<&RouteReport> = routes.collect();
    let responses: Vec<f64> = routes.iter().map(|route| route.completed as f64).collect();
    let errors: u64 = routes.iter().map(|route| route.errors).sum();
    // Without trials that have too few responses beyond.
    let median_of = |percentile: fn(&Times) -> Option<f64>| {
        let times = routes.iter().filter_map(|route| route.latency.as_ref());
        let values: Vec<f64> = times.filter_map(percentile).collect();
        Cell::amount(Unit::Seconds, median(&values))
    };
    let mut cells = vec![Cell::text(name(wanted))];
    if let Some(variant) = variant {
        cells.extend([Cell::text(variant), Cell::count(routes.len())]);
    }
    cells.extend([
        Cell::shown(median(&responses)?, |responses| format!("{responses:.0}")),
        Cell::shown(errors as f64, |errors| errors.to_string()),
        median_of(|times| Some(times.p50)),
        median_of(|times| Some(times.p95).filter(|_| has_beyond(times, 0.05))),
        median_of(|times| Some(times.p99).filter(|_| has_beyond(times, 0.01))),
    ]);
    Some(cells)
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
        assert_eq!(load_table(&one), None);
        let two = LoadReport { routes: vec![route("GET /b", 300), route("GET /a", 90)], ..one };
        let rows = load_table(&two).unwrap().rows;
        assert_eq!([&rows[0][0].text, &rows[1][0].text], ["GET /b", "GET /a"]);
        let values = |row: &[Cell]| row[1..].iter().map(|cell| cell.value).collect::<Vec<_>>();
        assert_eq!(values(&rows[0]), [Some(300.0), Some(2.0), Some(0.1), Some(0.2), None]);
        assert_eq!(values(&rows[1])[2..], [Some(0.1), None, None]);
        let first = keys([&two].into_iter()).remove(0);
        let of_variant = row([&two].into_iter(), Some("a"), &first).unwrap();
        assert_eq!([&of_variant[1].text, &of_variant[2].text], ["a", "1"], "and its trials");
    }

    #[test]
    fn a_step_is_named_by_its_scenario_and_its_place() {
        let step = (Some("shopping".into()), Some(2), true, "POST /cart".into());
        assert_eq!(name(&step), "shopping, step 2: POST /cart, after its redirect");
        assert_eq!(name(&(None, None, false, "GET /".into())), "GET /");
    }
}
