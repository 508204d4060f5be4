//! Routes of recorded requests: method and path, with a placeholder for what differs from one record to the next.

use crate::http::replay::shown::shown;
use crate::http::replay::traffic::RecordedTraffic;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Routes with figures of their own; the requests of all others are counted together.
const ROUTES_MAX: usize = 50;
/// Stands for an id.
const ID: &str = ":id";
/// Fewest hexadecimal digits of a digest.
const DIGEST: usize = 16;
/// Fewest characters of a part with a digit that is more likely a token than a name.
const TOKEN: usize = 32;

/// The route under which each request is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct RouteGroups {
    /// Names of the routes, the most frequent first.
    pub names: Vec<String>,
    /// How often each is sent, relative to the others.
    pub shares: Vec<u64>,
    /// The number of the route of each different request.
    pub of: Vec<u16>,
}

/// Groups the different requests by route.
pub fn group(traffic: &RecordedTraffic) -> RouteGroups {
    let own: Vec<String> = traffic
        .requests
        .iter()
        .map(|request| match &request.route {
            Some(route) => route.clone(),
            None => format!("{} {}", request.method, pattern(&request.path)),
        })
        .collect();
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for (route, share) in own.iter().zip(traffic.shares()) {
        *sums.entry(route.as_str()).or_default() += share;
    }
    let mut ordered: Vec<(&str, u64)> = sums.into_iter().collect();
    // By name among equals: the order of a hash map differs in every run.
    ordered.sort_unstable_by_key(|(route, share)| (Reverse(*share), *route));
    if ordered.len() > ROUTES_MAX {
        // One row less than the limit, because the others need a row too.
        let others: u64 = ordered.drain(ROUTES_MAX - 1..).map(|(_, share)| share).sum();
        ordered.push(("other routes", others));
    }
    let numbers: HashMap<&str, u16> = ordered.iter().map(|(route, _)| *route).zip(0..).collect();
    let last = ordered.len().saturating_sub(1) as u16;
    // What has no row of its own is in the last one.
    let of = own.iter().map(|route| numbers.get(route.as_str()).copied().unwrap_or(last)).collect();
    RouteGroups {
        names: ordered.iter().map(|(route, _)| shown(route)).collect(),
        shares: ordered.iter().map(|(_, share)| *share).collect(),
        of,
    }
}

/// A path without its query, and with a placeholder for every id.
fn pattern(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let parts = path.split('/').map(|part| {
        // `/assets/app-0123….js` and `/assets/app-4567….js` are one route with their extension.
        let (stem, extension) = part.split_at(part.find('.').unwrap_or(part.len()));
        placeholder(stem).map_or_else(|| part.to_owned(), |stem| format!("{stem}{extension}"))
    });
    parts.collect::<Vec<_>>().join("/")
}

/// What stands for a part that is an id, or that ends with a digest.
fn placeholder(stem: &str) -> Option<String> {
    // Not of a UUID: its last part would pass for a digest, and the rest for a name.
    if let Some((name, digest)) = stem.rsplit_once('-')
        && is_digest(digest)
        && !is_uuid(stem)
    {
        return Some(format!("{name}-{ID}"));
    }
    // Such as `12-the-title`.
    let number = stem.split('-').next().unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_token = stem.len() >= TOKEN && stem.bytes().any(|byte| byte.is_ascii_digit());
    (is_number || is_uuid(stem) || is_digest(stem) || is_token).then(|| ID.to_owned())
}

fn is_digest(text: &str) -> bool {
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A word such as `deadbeef` has letters only; a digest nearly never.
    hex && text.len() >= DIGEST && text.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::replay::traffic::{LeftOut, RecordedRequest};
    use carat_model::load::ReplayFormat;

    #[test]
    fn ids_are_placeholders_and_queries_are_left_out() {
        for (path, expected) in [
            ("/", "/"),
            ("/issues", "/issues"),
            ("/issues/7?token=s3cret", "/issues/:id"),
            ("/issues/7.json", "/issues/:id.json"),
            ("/posts/12-a-title/edit", "/posts/:id/edit"),
            ("/files/3F2504E0-4f89-41d3-9A0C-0305E82C3301", "/files/:id"),
            ("/blobs/d41d8cd98f00b204e9800998ecf8427e", "/blobs/:id"),
            (
                "/assets/application-d41d8cd98f00b204e9800998ecf8427e.css",
                "/assets/application-:id.css",
            ),
            ("/reset/eyJfcmFpbHMiOnsibWVzc2FnZSI6IkJBaHBCZz09--5f1c", "/reset/:id"),
            (
                "/api/v2/deadbeef/a-long-name-without-digits-in-it",
                "/api/v2/deadbeef/a-long-name-without-digits-in-it",
            ),
            ("/2026/11/22/", "/:id/:id/:id/"),
            ("/-/-1/a-1", "/-/-1/a-1"),
        ] {
            assert_eq!(pattern(path), expected);
        }
    }

    fn traffic(paths: impl Iterator<Item = String>) -> RecordedTraffic {
        let requests: Vec<RecordedRequest> = paths
            .map(|path| RecordedRequest {
                method: "GET".into(),
                path,
                headers: Vec::new(),
                body: String::new(),
                refused: None,
                route: None,
            })
            .collect();
        RecordedTraffic {
            format: ReplayFormat::Urls,
            order: (0..requests.len() as u32).collect(),
            requests,
            weights: Vec::new(),
            times: Vec::new(),
            untimed: 0,
            unanswered: 0,
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn the_most_frequent_routes_come_first() {
        let paths = ["/b", "/a/1", "/a/2", "/b?x", "/a/3"].map(str::to_owned);
        let groups = group(&traffic(paths.into_iter()));
        assert_eq!(groups.names, ["GET /a/:id", "GET /b"]);
        assert_eq!((groups.shares, groups.of), (vec![3, 2], vec![1, 0, 0, 1, 0]));
    }

    #[test]
    fn rare_routes_of_many_are_counted_together() {
        let many = (0..200).flat_map(|n| {
            let path = format!("/page-{}{}", (b'a' + n / 26) as char, (b'a' + n % 26) as char);
            std::iter::repeat_n(path, if n == 7 { 3 } else { 1 })
        });
        let groups = group(&traffic(many));
        assert_eq!(groups.names.len(), ROUTES_MAX);
        assert_eq!(groups.names[0], "GET /page-ah");
        assert_eq!(groups.names.last().map(String::as_str), Some("other routes"));
        assert_eq!(groups.shares.iter().sum::<u64>(), 202);
        assert_eq!(groups.shares.last(), Some(&151));
        assert!(groups.of.iter().all(|number| usize::from(*number) < ROUTES_MAX));
    }
}
