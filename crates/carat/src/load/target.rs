//! The server of a load: a URL, parsed and resolved.

use crate::load::net::Address;
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
    #[error("`{0}` is not a URL of a server: write http://, https://, ws://, wss:// or unix:/path")]
    Scheme(String),
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
    let unknown = || TargetError::Scheme(url.to_owned());
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let (port, tls) = match scheme {
        "http" | "ws" => (80, false),
        "https" | "wss" => (443, true),
        _ => return Err(unknown()),
    };
    let start = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(start);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let name = name_of(host);
    let with_port =
        if name.len() == host.len() { format!("{host}:{port}") } else { host.to_owned() };
    let tls_name = tls.then(|| name.trim_matches(['[', ']']).to_owned());
    let address = Address::Inet(address_of(&with_port)?);
    Ok(Target { address, host: host.to_owned(), tls_name, path })
}

/// Splits a URL into its server and its path; a socket in the file system has no path.
pub(crate) fn split_url(url: &str) -> (&str, &str) {
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
    fn a_url_is_parsed_and_resolved() {
        for (url, address, host, tls, path) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "127.0.0.1:3000", None, "/"),
            ("http://127.0.0.1/a?b=c", "127.0.0.1:80", "127.0.0.1", None, "/a?b=c"),
            ("https://127.0.0.1?q", "127.0.0.1:443", "127.0.0.1", Some("127.0.0.1"), "/?q"),
            ("ws://[::1]:9/cable", "[::1]:9", "[::1]:9", None, "/cable"),
            ("wss://[::1]/cable", "[::1]:443", "[::1]", Some("::1"), "/cable"),
        ] {
            let target = resolve(url).unwrap();
            assert_eq!(target.address, Address::Inet(address.parse().unwrap()), "{url}");
            assert_eq!((target.host.as_str(), target.path.as_str()), (host, path), "{url}");
            assert_eq!(target.tls_name.as_deref(), tls, "{url}");
        }
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
