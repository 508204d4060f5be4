//! Which processes listen on a socket, from `/proc/PID/fd` and the tables of sockets in `/proc/PID/net`.

use crate::process::ProcRoot;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// `TCP_LISTEN` of include/net/tcp_states.h.
const TCP_LISTEN: &str = "0A";
/// `__SO_ACCEPTCON` of include/uapi/linux/net.h, which `/proc/net/unix` shows among the flags.
const ACCEPTS: u32 = 1 << 16;

/// The listening sockets of each network namespace, read at most once each.
#[derive(Debug)]
pub struct ListeningSockets {
    root: ProcRoot,
    by_namespace: HashMap<Option<PathBuf>, HashSet<u64>>,
}

impl ListeningSockets {
    /// Reads the sockets of a network namespace when the first process in it is asked about.
    pub fn new(root: ProcRoot) -> Self {
        Self { root, by_namespace: HashMap::new() }
    }

    /// Whether a process has a listening socket; `None` if its descriptors cannot be read.
    pub fn of(&mut self, pid: u32) -> Option<bool> {
        let entries = fs::read_dir(self.root.file(pid, "fd")).ok()?;
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let sockets: Vec<u64> = links.filter_map(|link| socket_inode(&link)).collect();
        if sockets.is_empty() {
            return Some(false);
        }
        // `/proc/PID/net` shows the namespace of that process, and each container has its own.
        let namespace = fs::read_link(self.root.file(pid, "ns/net")).ok();
        let root = &self.root;
        let listening =
            self.by_namespace.entry(namespace).or_insert_with(|| listening_inodes(root, pid));
        Some(sockets.iter().any(|inode| listening.contains(inode)))
    }
}

/// The inode that a link of `/proc/PID/fd` names, such as `socket:[4711]`.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn listening_inodes(root: &ProcRoot, pid: u32) -> HashSet<u64> {
    let mut inodes = HashSet::new();
    for name in ["net/tcp", "net/tcp6"] {
        inodes.extend(table(root, pid, name).lines().filter_map(listening_tcp));
    }
    // A server behind a proxy often listens on a Unix socket only.
    inodes.extend(table(root, pid, "net/unix").lines().filter_map(listening_unix));
    inodes
}

/// One table of the process's network namespace; empty where it cannot be read.
fn table(root: &ProcRoot, pid: u32, name: &str) -> String {
    String::from_utf8_lossy(&root.read(pid, name).unwrap_or_default()).into_owned()
}

/// `sl local_address rem_address st … uid timeout inode` of proc_pid_net_tcp(5).
fn listening_tcp(line: &str) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    // The heading has `st` in the column of the state, so it is no case of its own.
    (*fields.get(3)? == TCP_LISTEN).then_some(())?;
    fields.get(9)?.parse().ok()
}

/// `Num RefCount Protocol Flags Type St Inode Path` of proc_pid_net_unix(5).
fn listening_unix(line: &str) -> Option<u64> {
    // The state of a listening socket is that of an unconnected one, so only the flag tells.
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
    (flags & ACCEPTS != 0).then_some(())?;
    fields.get(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    const TCP: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0 20 4 30 10 -1\n";
    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 43 /run/x.sock
0000000000000000: 00000003 00000000 00000000 0001 03 44\n";

    #[test]
    fn only_sockets_that_accept_connections_listen() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, inode) in [(1, 41), (2, 42), (3, 43), (4, 44)] {
            let process = folder.path().join(pid.to_string());
            fs::create_dir_all(process.join("net")).unwrap();
            fs::create_dir(process.join("fd")).unwrap();
            fs::write(process.join("net/tcp"), TCP).unwrap();
            fs::write(process.join("net/unix"), UNIX).unwrap();
            symlink("/dev/null", process.join("fd/0")).unwrap();
            symlink(format!("socket:[{inode}]"), process.join("fd/3")).unwrap();
        }
        let mut sockets = ListeningSockets::new(ProcRoot::new(folder.path()));
        let found = [1, 2, 3, 4, 5].map(|pid| sockets.of(pid));
        assert_eq!(found, [Some(true), Some(false), Some(true), Some(false), None]);
    }

    fn is_listening(socket: &impl AsRawFd) -> bool {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let listening = listening_inodes(&ProcRoot::default(), std::process::id());
        listening.contains(&socket_inode(&link).unwrap())
    }

    #[test]
    fn the_kernels_own_tables_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(is_listening(&tcp) && is_listening(&unix));
        assert!(!is_listening(&client));
    }
}
