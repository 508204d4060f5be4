//! Recorded traffic as every reader returns it.

use carat_model::count;
use carat_model::load::ReplayFormat;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedRequest {
    /// Method in capitals.
    pub method: String,
    /// Path with its query: printable ASCII without spaces, beginning with `/`.
    pub path: String,
    /// Headers, without those that belong to a connection.
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The status from 400 to 499 with which it was answered; that is a correct answer then.
    pub refused: Option<u16>,
    /// The route's own name, if the file has one.
    pub route: Option<String>,
}

/// The requests of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedTraffic {
    pub format: ReplayFormat,
    /// Every different request.
    pub requests: Vec<RecordedRequest>,
    /// Their numbers in the order of the file; never empty.
    pub order: Vec<u32>,
    /// Share of each different request, if the file says how often it is sent; otherwise empty.
    pub weights: Vec<u32>,
    /// Nanoseconds of each place of `order` since 1970; empty if a request has no time.
    pub times: Vec<i64>,
    /// Requests without a time.
    pub untimed: usize,
    /// Requests that had no response when they were recorded.
    pub unanswered: u64,
    /// What is not sent.
    pub left_out: LeftOut,
}

/// What of a file is not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Requests by method, if not every method is sent.
    pub methods: BTreeMap<String, u64>,
    /// Whether such requests cannot be made from the file.
    pub reads_only: bool,
    /// Requests to other servers.
    pub elsewhere: u64,
    /// WebSockets.
    pub websockets: u64,
    /// URLs that are not of HTTP, by scheme.
    pub schemes: BTreeMap<String, u64>,
    /// Requests that the browser's cache answered, so that no server got them.
    pub cached: u64,
    /// Requests whose body was not recorded.
    pub without_body: u64,
    /// Lines or entries that cannot be read.
    pub unreadable: u64,
    /// What the first of them is, and its number from 1 on.
    pub first_unreadable: Option<(&'static str, usize)>,
    /// The first routes without an example, with what they lack.
    pub routes: Vec<String>,
    /// Number of further such routes.
    pub more_routes: u64,
}

impl LeftOut {
    /// What is not sent, in words; `None` if everything is.
    pub fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (method, count) in &self.methods {
            parts.push(format!("{method} ×{count}"));
        }
        if let Some(last) = parts.last_mut().filter(|_| !self.reads_only) {
            // Said once, behind the last method.
            last.push_str(" (`all_methods` sends every method)");
        }
        if self.elsewhere > 0 {
            parts.push(format!("{} to other servers", self.elsewhere));
        }
        if self.websockets > 0 {
            parts.push(format!("{} for WebSockets", self.websockets));
        }
        for (scheme, count) in &self.schemes {
            parts.push(format!("{scheme}: ×{count}"));
        }
        if self.cached > 0 {
            parts.push(format!("{} from the browser's cache", self.cached));
        }
        if self.without_body > 0 {
            parts.push(format!("{} without a recorded body", self.without_body));
        }
        if let Some((unit, first)) = self.first_unreadable {
            parts.push(format!("{} unreadable, first {unit} {first}", self.unreadable));
        }
        parts.extend(self.routes.iter().cloned());
        if self.more_routes > 0 {
            parts.push(format!("{} more routes", self.more_routes));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl RecordedTraffic {
    /// How often each different request is sent, relative to the others.
    pub fn shares(&self) -> Vec<u64> {
        if !self.weights.is_empty() {
            return self.weights.iter().copied().map(u64::from).collect();
        }
        let mut counts = vec![0; self.requests.len()];
        for number in &self.order {
            counts[*number as usize] += 1;
        }
        counts
    }

    /// What is sent and what is not, in a line; `name` is that of the file.
    pub fn summary(&self, name: &str) -> String {
        format!("{}{}", self.contents(name), self.not_sent())
    }

    /// What is sent with the shares of its most frequent routes, and what is not, in a line.
    pub fn description(&self, name: &str, routes: &str) -> String {
        format!("{}: {routes}{}", self.contents(name), self.not_sent())
    }

    fn contents(&self, name: &str) -> String {
        let (sent, different) = (count(self.order.len(), "request"), self.requests.len());
        let unanswered = match self.unanswered {
            0 => String::new(),
            number => format!(", {number} recorded without a response"),
        };
        format!("{name} ({}) with {sent}, {different} different{unanswered}", self.format)
    }

    fn not_sent(&self) -> String {
        self.left_out.text().map_or_else(String::new, |text| format!("; not sent: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sent_is_said_in_one_line() {
        assert_eq!(LeftOut::default().text(), None);
        let left_out = LeftOut {
            methods: [("DELETE".to_owned(), 3), ("POST".to_owned(), 12)].into(),
            reads_only: false,
            elsewhere: 2,
            websockets: 6,
            schemes: [("data".to_owned(), 2)].into(),
            cached: 3,
            without_body: 1,
            unreadable: 4,
            first_unreadable: Some(("line", 17)),
            routes: vec!["GET /a/{b} has no example of `b`".to_owned()],
            more_routes: 5,
        };
        assert_eq!(
            left_out.text().unwrap(),
            "DELETE ×3, POST ×12 (`all_methods` sends every method), 2 to other servers, \
             6 for WebSockets, data: ×2, 3 from the browser's cache, 1 without a recorded body, 4 unreadable, first line 17, GET /a/{b} has no example of `b`, 5 more routes"
        );
    }
}
