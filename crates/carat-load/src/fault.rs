//! Why a connection cannot be opened, or breaks: one table from the kernel's errors to a name, words and what to do.

use crate::ports::PortRange;
use std::borrow::Cow;
use std::io;

/// What is wrong with a connection. Errors with the same remedy are one fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SocketFault {
    Refused,
    NoPort,
    NoSource,
    OwnFiles,
    SystemFiles,
    Watches,
    Memory,
    Unreachable,
    NoAnswer,
    Denied,
    NoSocket,
    QueueFull,
    Reset,
    /// TLS ended without `close_notify`, so what was received may have been cut off.
    Truncated,
    InvalidTls,
    /// The server does not read what is sent to it.
    Unread,
    /// An error of the kernel that no row has.
    Other(i32),
}

/// A row of the table.
#[derive(Debug)]
struct FaultRow {
    fault: SocketFault,
    /// The errors of connect(2), send(2) and recv(2), as `ip(7)`, `tcp(7)` and `unix(7)` describe them.
    errors: &'static [i32],
    name: &'static str,
    words: &'static str,
    advice: &'static str,
}

const ROWS: [FaultRow; 16] = [
    FaultRow {
        fault: SocketFault::Refused,
        errors: &[libc::ECONNREFUSED],
        name: "refused",
        words: "connection refused",
        advice: "nothing listens there: start the server, or correct host and port",
    },
    FaultRow {
        fault: SocketFault::NoPort,
        errors: &[libc::EADDRNOTAVAIL, libc::EADDRINUSE],
        name: "no-port",
        words: "no free local port",
        advice: "use fewer connections, or widen the range of local ports (net.ipv4.ip_local_port_range)",
    },
    FaultRow {
        fault: SocketFault::NoSource,
        errors: &[libc::EAFNOSUPPORT],
        name: "no-source",
        words: "no address of this machine leads to the server",
        advice: "check the machine's addresses and routes, or use an address of the server of the other kind (IPv4, IPv6)",
    },
    FaultRow {
        fault: SocketFault::OwnFiles,
        errors: &[libc::EMFILE],
        name: "own-files",
        words: "the generator may open no more files",
        advice: "raise the limit of carat (`ulimit -n`), or use fewer connections",
    },
    FaultRow {
        fault: SocketFault::SystemFiles,
        errors: &[libc::ENFILE],
        name: "system-files",
        words: "this machine may open no more files",
        advice: "raise fs.file-max",
    },
    FaultRow {
        fault: SocketFault::Watches,
        errors: &[libc::ENOSPC],
        name: "watches",
        words: "this user may watch no more sockets",
        advice: "raise fs.epoll.max_user_watches",
    },
    FaultRow {
        fault: SocketFault::Memory,
        errors: &[libc::ENOBUFS, libc::ENOMEM],
        name: "no-memory",
        words: "the kernel has no memory for the connection",
        advice: "free memory, or raise net.ipv4.tcp_mem",
    },
    FaultRow {
        fault: SocketFault::Unreachable,
        errors: &[libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ENETDOWN, libc::EHOSTDOWN],
        name: "unreachable",
        words: "the host cannot be reached",
        advice: "check the address, the routes and the firewalls",
    },
    FaultRow {
        fault: SocketFault::NoAnswer,
        errors: &[libc::ETIMEDOUT],
        name: "no-answer",
        words: "the host does not answer",
        advice: "check whether a firewall drops packets or the server's accept queue is full",
    },
    FaultRow {
        fault: SocketFault::Denied,
        errors: &[libc::EACCES, libc::EPERM],
        name: "denied",
        words: "the connection is not permitted",
        advice: "check the firewall, or the permissions of the socket in the file system",
    },
    FaultRow {
        fault: SocketFault::NoSocket,
        errors: &[libc::ENOENT, libc::ENOTDIR],
        name: "no-socket",
        words: "the socket does not exist",
        advice: "start the server, or correct the path",
    },
    FaultRow {
        fault: SocketFault::QueueFull,
        errors: &[libc::EAGAIN],
        name: "queue-full",
        words: "the server's accept queue is full",
        advice: "raise the server's backlog, or use fewer connections",
    },
    FaultRow {
        fault: SocketFault::Reset,
        errors: &[libc::ECONNRESET, libc::ECONNABORTED, libc::ENETRESET, libc::EPIPE],
        name: "reset",
        words: "connection reset",
        advice: "read the server's log: it dropped the connection",
    },
    FaultRow {
        fault: SocketFault::Truncated,
        errors: &[],
        name: "truncated",
        words: "TLS ended without close_notify",
        advice: "read the server's log: it dropped the connection",
    },
    FaultRow {
        fault: SocketFault::InvalidTls,
        errors: &[],
        name: "invalid-tls",
        words: "the server sent invalid TLS",
        advice: "read the server's log, and that of a proxy before it",
    },
    FaultRow {
        fault: SocketFault::Unread,
        errors: &[],
        name: "unread",
        words: "the server does not read what is sent to it",
        advice: "read the server's log: its reader is stuck",
    },
];

impl SocketFault {
    /// The fault that an error of a socket is. What a TLS session reports has no number of the kernel.
    pub fn of(error: &io::Error) -> Self {
        match (error.raw_os_error(), error.kind()) {
            (Some(number), _) => ROWS
                .iter()
                .find(|row| row.errors.contains(&number))
                .map_or(Self::Other(number), |row| row.fault),
            // rustls reports a stream that ends without `close_notify` this way.
            (None, io::ErrorKind::UnexpectedEof) => Self::Truncated,
            (None, _) => Self::InvalidTls,
        }
    }

    fn row(self) -> Option<&'static FaultRow> {
        ROWS.iter().find(|row| row.fault == self)
    }

    /// The stable name under which it is counted.
    pub fn name(self) -> Cow<'static, str> {
        match (self.row(), self) {
            (Some(row), _) => row.name.into(),
            (None, Self::Other(number)) => format!("errno-{number}").into(),
            (None, _) => "unknown".into(),
        }
    }

    /// What happened.
    pub fn words(self) -> Cow<'static, str> {
        match (self.row(), self) {
            (Some(row), _) => row.words.into(),
            (None, Self::Other(number)) => io::Error::from_raw_os_error(number).to_string().into(),
            (None, _) => "an unknown failure".into(),
        }
    }

    /// What to do. `ports` is the machine's range of local ports, as far as it is known.
    pub fn advice(self, ports: Option<PortRange>) -> Cow<'static, str> {
        match (self, ports) {
            (Self::NoPort, Some(ports)) => format!(
                "all local ports toward this server are in use ({ports}, {} ports): use fewer connections, or widen net.ipv4.ip_local_port_range",
                ports.count()
            )
            .into(),
            _ => self.row().map_or("check the address, and the kernel's log (`dmesg`)", |row| row.advice).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_error_has_its_own_fault_and_every_fault_its_own_name() {
        for row in &ROWS {
            for number in row.errors {
                assert_eq!(SocketFault::of(&io::Error::from_raw_os_error(*number)), row.fault);
            }
            assert_eq!(row.fault.name(), row.name);
        }
        let numbers: Vec<i32> = ROWS.iter().flat_map(|row| row.errors).copied().collect();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        for of in [|row: &FaultRow| row.name, |row: &FaultRow| row.words] {
            assert_eq!(ROWS.iter().map(of).collect::<BTreeSet<_>>().len(), ROWS.len());
        }
    }

    #[test]
    fn only_a_refused_connection_is_called_refused() {
        for number in 1..134 {
            let fault = SocketFault::of(&io::Error::from_raw_os_error(number));
            let refused = fault.words().to_lowercase().contains("refused");
            assert_eq!(refused, number == libc::ECONNREFUSED, "{number}: {fault:?}");
        }
    }

    #[test]
    fn an_unknown_error_has_its_number_and_the_words_of_the_c_library() {
        let fault = SocketFault::of(&io::Error::from_raw_os_error(libc::EPROTOTYPE));
        assert_eq!(fault.name(), format!("errno-{}", libc::EPROTOTYPE));
        assert!(fault.words().contains("wrong type"), "{}", fault.words());
    }

    #[test]
    fn exhausted_ports_are_explained_with_their_range() {
        let ports = PortRange::parse("40000\t40199\n");
        let advice = SocketFault::NoPort.advice(ports);
        assert!(advice.contains("40000 to 40199, 200 ports"), "{advice}");
        assert!(SocketFault::NoPort.advice(None).contains("ip_local_port_range"));
    }
}
