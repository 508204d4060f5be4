//! Where a redirect leads.

use crate::http::scenario::encoding::{Encoding, encode};

/// The server of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Its name, with the port unless it is the usual one.
    pub host: String,
}

impl Origin {
    /// The path on this server that a `Location` header means in a response to `current`; `None` on another server.
    pub fn path_of(&self, location: &str, current: &str) -> Option<String> {
        // A fragment is for the browser and is not sent.
        let location = location.split('#').next().unwrap_or_default().trim();
        let scheme = if self.tls { "https:" } else { "http:" };
        // `//host/path` keeps the scheme (RFC 3986, 4.2), so it is treated like a whole URL.
        let path = if let Some(rest) =
            strip_scheme(location, scheme).unwrap_or(location).strip_prefix("//")
        {
            let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            // Another server is not under test, whatever it answers.
            if !self.is_host(host) {
                return None;
            }
            if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
        } else if has_scheme(location) {
            return None;
        } else {
            relative(location, current)
        };
        let mut encoded = Vec::with_capacity(path.len());
        encode(&path, Encoding::Path, &mut encoded);
        String::from_utf8(encoded).ok()
    }

    fn is_host(&self, host: &str) -> bool {
        // `host` and `host:80` are one server.
        let usual = if self.tls { ":443" } else { ":80" };
        let (own, other) = (self.host.as_str(), host);
        let own = own.strip_suffix(usual).unwrap_or(own);
        own.eq_ignore_ascii_case(other.strip_suffix(usual).unwrap_or(other))
    }
}

fn strip_scheme<'a>(location: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = location.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Whether a text begins with a scheme (RFC 3986, 3.1).
fn has_scheme(location: &str) -> bool {
    let name = location.split_once(':').map(|(name, _)| name);
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// A reference without a server, relative to the current path (RFC 3986, 5.2).
fn relative(location: &str, current: &str) -> String {
    let base = current.split('?').next().unwrap_or("/");
    // An empty reference is the current page with its query (RFC 3986, 5.2.2).
    if location.is_empty() {
        return current.to_owned();
    }
    // A query alone replaces the query of the current path.
    if location.starts_with('?') {
        return format!("{base}{location}");
    }
    let joined = if location.starts_with('/') {
        location.to_owned()
    } else {
        let folder = base.rfind('/').map_or("/", |slash| &base[..=slash]);
        format!("{folder}{location}")
    };
    let (path, query) = joined.split_at(joined.find('?').unwrap_or(joined.len()));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            // `..` above the root stays at the root (RFC 3986, 5.2.4).
            ".." => drop(segments.pop()),
            "." => {}
            segment => segments.push(segment),
        }
    }
    // `/a/..` is a folder, and keeps its last slash.
    if path.ends_with("/.") || path.ends_with("/..") {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_path_on_this_server_or_nothing() {
        let plain = Origin { tls: false, host: "127.0.0.1:3000".to_owned() };
        let named = Origin { tls: true, host: "App.test".to_owned() };
        for (origin, location, expected) in [
            (&plain, "http://127.0.0.1:3000/my/page?a=b#top", Some("/my/page?a=b")),
            (&plain, "HTTP://127.0.0.1:3000", Some("/")),
            (&plain, "//127.0.0.1:3000?x", Some("/?x")),
            (&plain, "/login", Some("/login")),
            (&plain, "edit", Some("/a/edit")),
            (&plain, "./../x/./y", Some("/x/y")),
            (&plain, "../../..", Some("/")),
            (&plain, "?page=2", Some("/a/b?page=2")),
            (&plain, "", Some("/a/b?c=d")),
            (&plain, "/a b\r\nX: y", Some("/a%20b%0D%0AX:%20y")),
            (&plain, "https://127.0.0.1:3000/", None),
            (&plain, "http://127.0.0.1:3001/", None),
            (&plain, "mailto:a@b", None),
            (&named, "https://app.test:443/x", Some("/x")),
            (&named, "http://app.test/x", None),
            (&named, "//evil.test/x", None),
        ] {
            assert_eq!(origin.path_of(location, "/a/b?c=d").as_deref(), expected, "{location:?}");
        }
    }
}
