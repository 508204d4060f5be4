//! Whether a server is ready to answer.

use crate::config::ReadyCheck;
use crate::target::LogSearch;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// What was observed instead, as a predicate that follows "the server".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotReady(pub(crate) String);

/// Checks once, with `timeout` for each network operation.
pub(crate) fn check_ready(
    check: &ReadyCheck,
    address: SocketAddr,
    log: &mut LogSearch,
    timeout: Duration,
) -> Result<(), NotReady> {
    match check {
        ReadyCheck::Tcp => connect(&address, timeout).map(|_| ()),
        ReadyCheck::Http(path) => {
            let mut stream = connect(&address, timeout)?;
            http_status(&mut stream, path, timeout).and_then(|status| match status {
                // A redirect is an answer too: the application works.
                100..400 => Ok(()),
                _ => Err(NotReady(format!("answers {path} with status {status}"))),
            })
        }
        ReadyCheck::Log(text) if log.finds(text) => Ok(()),
        ReadyCheck::Log(text) => Err(NotReady(format!("has not printed `{text}`"))),
    }
}

/// The address of a server on this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn connect(address: &SocketAddr, timeout: Duration) -> Result<TcpStream, NotReady> {
    TcpStream::connect_timeout(address, timeout)
        .map_err(|_| NotReady(format!("does not listen on {address}")))
}

fn http_status(stream: &mut TcpStream, path: &str, timeout: Duration) -> Result<u16, NotReady> {
    stream.set_read_timeout(Some(timeout)).map_err(|_| silent(path))?;
    stream.set_write_timeout(Some(timeout)).map_err(|_| silent(path))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|_| silent(path))?;
    let mut head = [0; 32];
    let mut filled = 0;
    // `HTTP/1.1 200` has twelve bytes, which can come in pieces.
    while filled < 12 {
        match stream.read(&mut head[filled..]).map_err(|_| silent(path))? {
            0 => break,
            read => filled += read,
        }
    }
    let line = String::from_utf8_lossy(&head[..filled]);
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    status.ok_or_else(|| NotReady(format!("answers {path} with something that is not HTTP")))
}

fn silent(path: &str) -> NotReady {
    NotReady(format!("accepts connections but does not answer {path}"))
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

    fn check_answer(answer: &'static str) -> Result<(), NotReady> {
        let (check, address) = (ReadyCheck::Http("/".into()), local(answering(answer)));
        check_ready(&check, address, &mut LogSearch::new(""), Duration::from_secs(5))
    }

    #[test]
    fn a_server_is_ready_when_it_answers_with_a_status_below_400() {
        assert_eq!(check_answer("HTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        let failed = NotReady("answers / with status 500".into());
        assert_eq!(check_answer("HTTP/1.1 500 Oops\r\n\r\n"), Err(failed));
        assert!(check_answer("SSH-2.0-OpenSSH_9.2\r\n").unwrap_err().0.contains("not HTTP"));
    }

    #[test]
    fn the_message_names_a_port_on_which_no_process_listens() {
        let port = crate::target::free_port().unwrap();
        let (log, second) = (&mut LogSearch::new(""), Duration::from_secs(1));
        let checked = check_ready(&ReadyCheck::Tcp, local(port), log, second);
        let NotReady(words) = checked.unwrap_err();
        assert!(words.contains(&port.to_string()), "{words}");
    }
}
