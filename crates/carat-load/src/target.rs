//! The server of a load: a URL, parsed and resolved.

use crate::net::Address;
use carat_model::mask_secrets;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use thiserror::Error;

/// A server and how to address it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where it listens.
    pub address: Address,
    /// Value of the `Host` header.
    pub host: String,
    /// Name to verify a certificate against, without the port; `None` without TLS.
    pub tls_name: Option<String>,
    /// Path with its query, beginning with `/`.
    pub path: String,
}

/// A URL that a load cannot use.
#[derive(Debug, Error)]
pub enum TargetError {
    /// An unknown scheme.
    #[error(
        "`{0}` is not a URL of a server: write http://, https://, ws://, wss://, redis://, rediss:// or unix:/path"
    )]
    Scheme(String),
    /// A user or a password, which no request would carry.
    #[error(
        "`{0}` has a user or a password, which requests would not carry; leave them out, and give `Authorization` as a header"
    )]
    Credentials(String),
    /// A name without an address.
    #[error("cannot resolve `{host}`: {source}; use a numeric address instead")]
    Resolve {
        /// The name with its port.
        host: String,
        /// The resolver's error.
        source: std::io::Error,
    },
    /// A name that resolves to no address.
    #[error("`{0}` has no address; use a numeric address instead")]
    NoAddress(String),
}

/// Parses a URL and resolves its host; IPv4 addresses are preferred.
///
/// # Errors
/// If the scheme is unknown or the host has no address.
pub fn resolve(url: &str) -> Result<Target, TargetError> {
    if let Some(path) = url.strip_prefix("unix:") {
        let address = Address::Unix(PathBuf::from(path));
        let host = "localhost".to_owned();
        return Ok(Target { address, host, tls_name: None, path: "/".to_owned() });
    }
    let unknown = || TargetError::Scheme(mask_secrets(url));
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let (port, tls) = match scheme {
        "http" | "ws" => (80, false),
        "https" | "wss" => (443, true),
        "redis" => (6379, false),
        "rediss" => (6379, true),
        _ => return Err(unknown()),
    };
    let start = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(start);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let host = match without_user(host) {
        // Only Redis is told who asks; see `redis_parts`.
        server if port == 6379 || server.len() == host.len() => server,
        _ => return Err(TargetError::Credentials(mask_secrets(url))),
    };
    let name = name_of(host);
    let with_port =
        if name.len() == host.len() { format!("{host}:{port}") } else { host.to_owned() };
    // A certificate names an IPv6 address without its brackets.
    let tls_name = tls.then(|| name.trim_matches(['[', ']']).to_owned());
    let address = Address::Inet(address_of(&with_port)?);
    Ok(Target { address, host: host.to_owned(), tls_name, path })
}

fn without_user(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// What a URL of Redis says beside the address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedisParts {
    /// For `AUTH`.
    pub user: Option<String>,
    /// For `AUTH`; never printed.
    pub password: Option<String>,
    /// For `SELECT`; 0 where the URL names none.
    pub database: u32,
    /// Host and port, or the socket.
    pub server: String,
}

/// User, password and database of `redis://user:password@host:port/database`.
///
/// # Errors
/// If the database is not a number; no message has the password.
pub fn redis_parts(url: &str) -> Result<RedisParts, String> {
    let (base, path) = split_url(url);
    let (_, authority) = base.split_once("://").unwrap_or(("", base));
    let server = without_user(authority).to_owned();
    let database = match path.trim_matches('/') {
        "" => 0,
        number => number.parse().map_err(|_| {
            format!("`{number}` at the end of the URL of Redis is not the number of a database")
        })?,
    };
    let [user, password] = credentials(url);
    Ok(RedisParts { user, password, database, server })
}

/// User and password of a URL.
pub fn credentials(url: &str) -> [Option<String>; 2] {
    let (base, _) = split_url(url);
    let (_, authority) = base.split_once("://").unwrap_or(("", base));
    let Some((secret, _)) = authority.rsplit_once('@') else { return [None, None] };
    // A secret without a colon is a user, as in every URL (RFC 3986, 3.2.1).
    let (user, password) = secret.split_once(':').unwrap_or((secret, ""));
    [user, password].map(|part| Some(percent_decoded(part)).filter(|part| !part.is_empty()))
}

/// The text with `%40` read as `@`, and so on; a `%` without two digits stays.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Splits a URL into its server and its path; a socket in the file system has no path.
pub fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = if url.starts_with("unix:") { None } else { url[host..].find('/') };
    path.map_or((url, "/"), |at| url.split_at(host + at))
}

/// The host without its port; an IPv6 address keeps its brackets.
fn name_of(host: &str) -> &str {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    host[end..].find(':').map_or(host, |colon| &host[..end + colon])
}

fn address_of(host: &str) -> Result<SocketAddr, TargetError> {
    let found = host
        .to_socket_addrs()
        .map_err(|source| TargetError::Resolve { host: host.to_owned(), source })?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_by_key(|address| !address.is_ipv4());
    addresses.first().copied().ok_or_else(|| TargetError::NoAddress(host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_about_a_url_has_its_password_and_only_redis_is_told_one() {
        for url in [
            "http://me:s3cret@127.0.0.1:9/",
            "https://s3cret@127.0.0.1/",
            "ws://me:s3cret@nowhere.invalid/cable",
            "htp://me:s3cret@127.0.0.1/",
            "redis://me:s3cret@nowhere.invalid:1/0",
        ] {
            let error = resolve(url).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert_eq!(resolve("redis://me:s3cret@127.0.0.1:1").unwrap().host, "127.0.0.1:1");
    }

    #[test]
    fn a_url_is_parsed_and_resolved() {
        for (url, address, host, tls, path) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "127.0.0.1:3000", None, "/"),
            ("http://127.0.0.1/a?b=c", "127.0.0.1:80", "127.0.0.1", None, "/a?b=c"),
            ("https://127.0.0.1?q", "127.0.0.1:443", "127.0.0.1", Some("127.0.0.1"), "/?q"),
            ("ws://[::1]:9/cable", "[::1]:9", "[::1]:9", None, "/cable"),
            ("wss://[::1]/cable", "[::1]:443", "[::1]", Some("::1"), "/cable"),
            ("redis://127.0.0.1", "127.0.0.1:6379", "127.0.0.1", None, "/"),
            ("rediss://u:p@[::1]:7/2", "[::1]:7", "[::1]:7", Some("::1"), "/2"),
        ] {
            let target = resolve(url).unwrap();
            assert_eq!(target.address, Address::Inet(address.parse().unwrap()), "{url}");
            assert_eq!((target.host.as_str(), target.path.as_str()), (host, path), "{url}");
            assert_eq!(target.tls_name.as_deref(), tls, "{url}");
        }
    }

    #[test]
    fn a_url_of_redis_has_user_password_and_database() {
        let parts = |user: &str, password: &str, database, server: &str| RedisParts {
            user: Some(user.to_owned()).filter(|user| !user.is_empty()),
            password: Some(password.to_owned()).filter(|password| !password.is_empty()),
            database,
            server: server.to_owned(),
        };
        for (url, expected) in [
            ("redis://h:1", parts("", "", 0, "h:1")),
            ("redis://h:1/12", parts("", "", 12, "h:1")),
            ("rediss://:p%40%2fx%@h/", parts("", "p@/x%", 0, "h")),
            (
                "redis://u:{env.A}@h:{services.redis.port}",
                parts("u", "{env.A}", 0, "h:{services.redis.port}"),
            ),
            ("unix:/run/r.sock", parts("", "", 0, "unix:/run/r.sock")),
        ] {
            assert_eq!(redis_parts(url).unwrap(), expected, "{url}");
        }
        let error = redis_parts("redis://:secret@h/name").unwrap_err();
        assert!(error.contains("`name`") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_url_is_split_into_server_and_path() {
        for (url, base, path) in [
            ("http://h:1/a/b?c", "http://h:1", "/a/b?c"),
            ("http://h", "http://h", "/"),
            ("unix:/run/x.sock", "unix:/run/x.sock", "/"),
        ] {
            assert_eq!(split_url(url), (base, path));
        }
    }

    #[test]
    fn a_unix_socket_is_a_server_too() {
        assert_eq!(
            resolve("unix:/run/a.sock").unwrap().address,
            Address::Unix("/run/a.sock".into())
        );
    }

    #[test]
    fn text_that_is_not_a_url_is_refused() {
        for url in ["", "localhost:3000", "ftp://127.0.0.1/"] {
            assert!(matches!(resolve(url), Err(TargetError::Scheme(_))), "{url}");
        }
    }
}
