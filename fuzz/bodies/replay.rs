//! A file of recorded traffic is read or refused with a reason that a terminal can show, and what is read of it can be sent.

use carat_load::http::replay::{RecordedTraffic, ReplayRules, read_traffic};
use carat_model::load::ReplayFormat;

/// Panics if that does not hold for a format, or for the one that is found if there is none.
pub(crate) fn check(input: &[u8], format: Option<ReplayFormat>) {
    for all in [false, true] {
        let rules = ReplayRules { all_methods: all, private_headers: all };
        match read_traffic(input, format, rules) {
            Ok(traffic) => check_traffic(&traffic, rules),
            Err(reason) => {
                assert!(!reason.is_empty() && reason.len() < 20_000, "{} bytes", reason.len());
                assert!(!reason.contains(char::is_control), "{reason:?}");
            }
        }
    }
}

fn check_traffic(traffic: &RecordedTraffic, rules: ReplayRules) {
    let count = traffic.requests.len();
    assert!(!traffic.order.is_empty());
    assert!(traffic.order.iter().all(|number| (*number as usize) < count));
    assert!(traffic.weights.is_empty() || traffic.weights.len() == count);
    assert!(traffic.times.is_empty() || traffic.times.len() == traffic.order.len());
    assert!(!traffic.summary("file").contains(char::is_control));
    for request in &traffic.requests {
        let method = request.method.as_bytes();
        assert!(!method.is_empty() && method.iter().all(|b| b.is_ascii_uppercase() || *b == b'-'));
        assert!(rules.all_methods || matches!(request.method.as_str(), "GET" | "HEAD"));
        let path = request.path.as_bytes();
        assert!(path.starts_with(b"/") && path.iter().all(u8::is_ascii_graphic), "{path:?}");
        for (name, value) in &request.headers {
            // Nothing in a header begins another one.
            assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':'));
            assert!(!value.contains(char::is_control), "{value:?}");
            let name = name.to_ascii_lowercase();
            let secret = matches!(name.as_str(), "cookie" | "authorization");
            assert!(rules.private_headers || !secret, "{name}");
            assert!(!matches!(name.as_str(), "host" | "content-length" | "transfer-encoding"));
        }
    }
}
