//! Failed jobs by the class of their exception: a short list, however many fail.

use crate::text::printable;
use carat_model::load::RouteFailure;
use carat_model::load::report::FAILURES_LISTED;

/// Kind of the jobs that did not end in time.
const UNFINISHED: &str = "not-done";

/// Jobs that failed with the same class of exception.
#[derive(Debug, Clone)]
struct FailureKind {
    class: String,
    count: u64,
    /// The first message.
    message: String,
}

/// The failed jobs of a load. Kinds beyond those that a report lists are only counted.
#[derive(Debug, Default)]
pub(crate) struct JobFailures {
    kinds: Vec<FailureKind>,
    pub count: u64,
}

impl JobFailures {
    /// Counts failed jobs of one class of exception.
    pub(crate) fn add(&mut self, class: &str, message: &str, count: u64) {
        self.count += count;
        let class = printable(class.as_bytes());
        // One place of the list is left for the jobs that did not end.
        if let Some(kind) = self.kinds.iter_mut().find(|kind| kind.class == class) {
            kind.count += count;
        } else if self.kinds.len() < FAILURES_LISTED - 1 {
            self.kinds.push(FailureKind { class, count, message: printable(message.as_bytes()) });
        }
    }

    /// Failed jobs of the class `job`, then those that did not end in time; the most frequent first.
    pub(crate) fn list(&self, job: &str, unfinished: u64) -> Vec<RouteFailure> {
        let row = |kind: &str, count, body: &str| RouteFailure {
            route: job.to_owned(),
            kind: kind.to_owned(),
            status: None,
            count,
            body: Some(body.to_owned()).filter(|body| !body.is_empty()),
        };
        let mut listed: Vec<RouteFailure> =
            self.kinds.iter().map(|kind| row(&kind.class, kind.count, &kind.message)).collect();
        if unfinished > 0 {
            listed.push(row(UNFINISHED, unfinished, ""));
        }
        listed.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_listed_by_class_with_the_first_message() {
        let mut failures = JobFailures::default();
        failures.add("NameError", "no \u{1b}[31mX", 1);
        failures.add("IOError", "gone", 1);
        failures.add("IOError", "again", 1);
        let listed: Vec<String> = failures.list("A", 9).iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["A → not-done ×9", "A → IOError ×2: gone", "A → NameError ×1: no X"]);
    }

    #[test]
    fn many_kinds_of_failures_take_no_more_room() {
        let mut failures = JobFailures::default();
        (0..100).for_each(|number| failures.add(&format!("E{number}"), "x", 1));
        assert_eq!((failures.list("A", 0).len(), failures.count), (FAILURES_LISTED - 1, 100));
    }
}
