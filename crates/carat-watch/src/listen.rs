//! Serves the metrics on the loopback or a unix socket, only when asked.
//!
//! One request at a time, of bounded size and time: whoever may connect can read the last round, and nothing else.

use crate::metrics::MEDIA_TYPE;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request, and the time for it and for its answer.
const REQUEST: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(2);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Loopback(SocketAddr),
    Unix(PathBuf),
}

impl ListenAddress {
    /// Parses `127.0.0.1:9394` or `unix:PATH`.
    ///
    /// # Errors
    /// Where it is neither, or an address that others can reach.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            format!(
                "`{text}` is no address; write for example 127.0.0.1:9394 or unix:/run/carat.sock"
            )
        })?;
        // There is no password, so being able to connect is the only right that is checked.
        match address.ip().is_loopback() {
            true => Ok(Self::Loopback(address)),
            false => Err(format!(
                "`{text}` can be reached by others, who could read the names of the apps; use 127.0.0.1 or a unix socket, \
                 and a proxy that asks who it is"
            )),
        }
    }
}

/// A listener; what it serves is replaced after each round.
#[derive(Debug)]
pub struct MetricsListener {
    text: Arc<Mutex<String>>,
    place: String,
    /// The socket's file, which is removed at the end.
    socket: Option<PathBuf>,
}

impl MetricsListener {
    /// Listens, in a thread that ends with the program.
    ///
    /// # Errors
    /// Where the address is in use or may not be used.
    pub fn start(address: &ListenAddress) -> io::Result<Self> {
        let text = Arc::new(Mutex::new("# EOF\n".to_owned()));
        let served = Arc::clone(&text);
        let (place, socket) = match address {
            ListenAddress::Loopback(address) => {
                let listener = TcpListener::bind(address)?;
                let place = format!("http://{}/metrics", listener.local_addr()?);
                thread::spawn(move || answer_all(listener.incoming(), &served));
                (place, None)
            }
            // The socket of a watch that was killed stays, and binding to its name would fail.
            ListenAddress::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                thread::spawn(move || answer_all(listener.incoming(), &served));
                (format!("unix:{}", path.display()), Some(path.clone()))
            }
        };
        Ok(Self { text, place, socket })
    }

    /// Where it listens, with the port that the kernel chose.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Replaces what is served.
    pub fn serve(&self, text: String) {
        // A thread that panicked left a whole text behind, because texts are only replaced.
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for MetricsListener {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// Removes a socket on which nobody listens, as a killed watch leaves it; nothing else is removed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Answers one request of each connection.
fn answer_all<S: Read + Write + AsFd>(
    connections: impl Iterator<Item = io::Result<S>>,
    text: &Mutex<String>,
) {
    for mut stream in connections.flatten() {
        let limited = [Timeout::Recv, Timeout::Send]
            .map(|which| set_socket_timeout(&stream, which, Some(PATIENCE)).is_ok());
        // Without a limit one client that sends nothing would keep out all the others.
        if limited == [true, true] {
            let _ = answer(&mut stream, text);
        }
    }
}

/// Answers one request.
fn answer(stream: &mut (impl Read + Write), text: &Mutex<String>) -> io::Result<()> {
    let request = read_head(stream)?;
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // Some collectors append parameters, which have no meaning here.
    let path = path.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let body = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            respond(stream, "200 OK", MEDIA_TYPE, &body, method == "GET")
        }
        ("GET" | "HEAD", _) => {
            respond(stream, "404 Not Found", "text/plain", "see /metrics\n", method == "GET")
        }
        _ => respond(stream, "405 Method Not Allowed", "text/plain", "GET only\n", true),
    }
}

/// The head of a request, without what follows it.
fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let started = Instant::now();
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    // The end of the head: an empty line (RFC 9112, 2.1).
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        // Each read may wait that long, so that a slow writer would hold it up for ever.
        if head.len() > REQUEST || started.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn respond(
    stream: &mut impl Write,
    status: impl Display,
    media: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(if with_body { body.as_bytes() } else { b"" })?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn ask(address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served_on_the_loopback_and_nothing_else_is() {
        let address = ListenAddress::parse("127.0.0.1:0").unwrap();
        let listener = MetricsListener::start(&address).unwrap();
        listener.serve("a 1\n# EOF\n".into());
        let place = listener.place().trim_start_matches("http://").trim_end_matches("/metrics");
        let found = ask(place, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK") && found.ends_with("a 1\n# EOF\n"), "{found}");
        assert!(found.contains("Content-Length: 10\r\n"), "{found}");
        assert!(ask(place, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(place, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(place, "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_what_to_use_instead() {
        let error = ListenAddress::parse("0.0.0.0:9394").unwrap_err();
        assert!(error.contains("use 127.0.0.1 or a unix socket"), "{error}");
        assert!(ListenAddress::parse("9394").unwrap_err().contains("127.0.0.1:9394"));
        assert!(ListenAddress::parse("unix:").is_err());
    }

    #[test]
    fn a_socket_that_a_killed_watch_left_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        let address = ListenAddress::Unix(path.clone());
        let listener = MetricsListener::start(&address).unwrap();
        listener.serve("b 2\n".into());
        assert!(MetricsListener::start(&address).is_err(), "somebody listens");
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("b 2\n"), "{answer}");
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(MetricsListener::start(&address).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
