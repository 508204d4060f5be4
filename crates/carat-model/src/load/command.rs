//! The report of a load that a command drives: `[load.command]`.

use crate::load::LoadReport;
use crate::metric;
use crate::observations::LoadTotals;
use serde::Deserialize;

/// What a command may print about its load, as a line of JSON.
#[derive(Debug, Deserialize)]
struct CommandReport {
    /// Correct responses.
    completed: u64,
    /// From the first send to the last response.
    seconds: f64,
    /// Requests without a correct response; unknown if absent.
    errors: Option<u64>,
}

/// The report in the output of a command: its last line that is one.
pub fn report_of_command(output: &str) -> Option<LoadReport> {
    // From the end: a command may print intermediate figures first.
    output.lines().rev().find_map(|line| report(line.trim()))
}

fn report(line: &str) -> Option<LoadReport> {
    // An object only: serde would also accept a list of the values.
    let object = Some(line).filter(|line| line.starts_with('{'))?;
    let found: CommandReport = serde_json::from_str(object).ok()?;
    let CommandReport { completed, seconds, errors } = found;
    // Also refuses NaN, which compares as false.
    if !(seconds > 0.0 && seconds.is_finite()) {
        return None;
    }
    let totals = LoadTotals {
        completed,
        // Nothing is known to have been due beyond what completed.
        // Without a count of errors 0 means that no share can be computed.
        expected: errors.map_or(0, |errors| completed.saturating_add(errors)),
        unanswered: 0,
        seconds,
        latency: &|_| None,
        steps: &[],
    };
    let metrics = metric::of_load(&totals);
    let errors = errors.unwrap_or(0);
    Some(LoadReport { completed, errors, seconds, metrics, ..LoadReport::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_a_report_counts() {
        let output = "running\n{\"completed\": 5, \"seconds\": 1}\n{\"completed\": 600, \"seconds\": 1.5, \"tool\": \"k6\"}\ndone\n";
        let report = report_of_command(output).unwrap();
        assert_eq!((report.completed, report.seconds), (600, 1.5));
        assert_eq!(report.metrics, [("throughput".to_owned(), 400.0)].into());
        let report =
            report_of_command("{\"completed\": 9, \"seconds\": 1, \"errors\": 1}").unwrap();
        assert_eq!((report.errors, report.metrics["errors"]), (1, 0.1));
    }

    #[test]
    fn a_line_that_is_no_report_says_nothing() {
        for output in [
            "",
            "throughput: 5",
            "{\"completed\": 5}",
            "{\"completed\": -5, \"seconds\": 1}",
            "{\"completed\": 5, \"seconds\": 0}",
            "{\"completed\": 5, \"seconds\": 1e999}",
            "[5, 1, 0]",
        ] {
            assert_eq!(report_of_command(output), None, "{output}");
        }
    }
}
