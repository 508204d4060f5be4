//! Whether a server answers yet.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// One way of seeing that a server is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// A GET of this path answers with a status below 400.
    Http {
        /// Where the server listens.
        address: SocketAddr,
        /// Path and query.
        path: String,
    },
    /// The port of 127.0.0.1 accepts a connection.
    Tcp {
        /// Port.
        port: u16,
    },
    /// The log contains this text.
    Log {
        /// The log file.
        log: PathBuf,
        /// The text.
        text: String,
    },
}

/// What was seen instead, in words that complete "the server …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady(pub String);

/// Asks once, for at most `patience`.
pub fn check(probe: &Probe, patience: Duration) -> Result<(), NotReady> {
    match probe {
        Probe::Tcp { port } => connect(&local(*port), patience).map(|_| ()),
        Probe::Http { address, path } => {
            let mut stream = connect(address, patience)?;
            http_status(&mut stream, path, patience).and_then(|status| match status {
                100..400 => Ok(()),
                _ => Err(NotReady(format!("answers {path} with status {status}"))),
            })
        }
        Probe::Log { log, text } => match fs::read(log) {
            Ok(bytes) if String::from_utf8_lossy(&bytes).contains(text) => Ok(()),
            _ => Err(NotReady(format!("has not printed `{text}`"))),
        },
    }
}

/// Where a server of this machine listens.
pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn connect(address: &SocketAddr, patience: Duration) -> Result<TcpStream, NotReady> {
    TcpStream::connect_timeout(address, patience)
        .map_err(|_| NotReady(format!("does not listen on {address}")))
}

fn http_status(stream: &mut TcpStream, path: &str, patience: Duration) -> Result<u16, NotReady> {
    let silent = |_| NotReady(format!("accepts connections and does not answer {path}"));
    stream.set_read_timeout(Some(patience)).map_err(silent)?;
    stream.set_write_timeout(Some(patience)).map_err(silent)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(silent)?;
    let mut head = [0; 32];
    let mut filled = 0;
    while filled < 12 {
        match stream.read(&mut head[filled..]).map_err(silent)? {
            0 => break,
            read => filled += read,
        }
    }
    let line = String::from_utf8_lossy(&head[..filled]);
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    status.ok_or_else(|| NotReady(format!("answers {path} with something that is not HTTP")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answering(answer: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer.as_bytes());
        });
        port
    }

    #[test]
    fn a_server_is_ready_when_it_answers_below_400() {
        let probe = |answer| {
            let probe = Probe::Http { address: local(answering(answer)), path: "/".into() };
            check(&probe, Duration::from_secs(5))
        };
        assert_eq!(probe("HTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        let failed = NotReady("answers / with status 500".into());
        assert_eq!(probe("HTTP/1.1 500 Oops\r\n\r\n"), Err(failed));
        assert!(probe("SSH-2.0-OpenSSH_9.2\r\n").unwrap_err().0.contains("not HTTP"));
    }

    #[test]
    fn a_port_on_which_nobody_listens_is_named() {
        let port = crate::target::free_port().unwrap();
        let NotReady(words) = check(&Probe::Tcp { port }, Duration::from_secs(1)).unwrap_err();
        assert!(words.contains(&port.to_string()), "{words}");
    }
}
