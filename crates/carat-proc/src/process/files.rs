//! Which processes listen on a port, and how many files a process has open.

use crate::process::ProcRoot;
use std::fs;
use std::path::Path;

/// State of a listening socket in `/proc/net/tcp` (include/net/tcp_states.h).
const LISTENING: &str = "0A";

/// The files of a process and their limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// The process.
    pub pid: u32,
    /// Files that it has open.
    pub open: u64,
    /// The most that it may have open.
    pub limit: u64,
}

impl OpenFiles {
    /// The open files of a process; `None` if the kernel does not show them to this user.
    pub fn read(root: &ProcRoot, pid: u32) -> Option<Self> {
        let limits = String::from_utf8(root.read(pid, "limits").ok()?).ok()?;
        let limit = parse_limit(&limits)?;
        let open = fs::read_dir(root.file(pid, "fd")).ok()?.count() as u64;
        Some(Self { pid, open, limit })
    }
}

/// The soft limit of `Max open files`.
fn parse_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Processes that have a socket that listens on a port of this network namespace, as far as their files can be read.
pub fn listeners(root: &ProcRoot, port: u16) -> Vec<u32> {
    let sockets: Vec<String> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(root.path().join(table)).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    // Without a socket, no process's descriptors need to be read: they are the expensive part.
    if sockets.is_empty() {
        return Vec::new();
    }
    // The inode is found in every process that inherited the socket, so a forked worker counts too.
    let mut pids = root.pids().unwrap_or_default();
    pids.retain(|pid| has_one_of(&root.file(*pid, "fd"), &sockets));
    pids
}

/// Inodes of the sockets of a table of `/proc/net` that listen on a port.
fn listening(table: &str, port: u16) -> Vec<u64> {
    let ending = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(3) == Some(&LISTENING) && row[1].ends_with(&ending))
        .filter_map(|row| row.get(9)?.parse().ok())
        .collect()
}

fn has_one_of(folder: &Path, sockets: &[String]) -> bool {
    // It has ended, or belongs to another user.
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).any(|link| {
        link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket.as_str() == link))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_process_that_listens_on_a_port_is_found_with_its_files() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let root = ProcRoot::default();
        let own = std::process::id();
        assert!(listeners(&root, port).contains(&own));
        let files = OpenFiles::read(&root, own).unwrap();
        assert!(files.open > 3 && files.open <= files.limit, "{files:?}");
        drop(listener);
        assert!(!listeners(&root, port).contains(&own));
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:24E1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5123 1\n\
            1: 0100007F:24E1 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 5124 1\n\
            2: 00000000:24E2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5125 1\n";
        assert_eq!(listening(table, 0x24e1), [5123]);
        assert!(listening("nonsense\n", 1).is_empty());
    }

    #[test]
    fn the_soft_limit_is_read_and_an_unlimited_one_is_unknown() {
        for (soft, expected) in [("300", Some(300)), ("unlimited", None)] {
            let text = format!("Limit\nMax open files            {soft}  4096  files\n");
            assert_eq!(parse_limit(&text), expected);
        }
    }
}
