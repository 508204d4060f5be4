//! What the kernel tells of an end: the status of a process that is not our child, and its log of kills.

use crate::ending::ExitStatus;
use carat_proc::process::{Identity, ProcRoot};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::mem::size_of;
use std::time::Duration;

/// `struct pidfd_info` as of Linux 6.13, and what asks for the status of an end (include/uapi/linux/pidfd.h, Linux 6.15).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, struct pidfd_info)`.
const GET_INFO: u32 = (3 << 30) | ((size_of::<PidfdInfo>() as u32) << 16) | (0xff << 8) | 11;
/// The first pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h): the pids in the kernel's log are its.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// A line of the kernel's log that names a process it killed (mm/oom_kill.c).
const KILLED: &str = "Killed process ";
/// Kills of the log that are remembered, and records that are read at once.
const KILLS: u64 = 4096;
const RECORDS: usize = 100_000;
/// Bytes of one record (`PRINTKRB_RECORD_MAX` is less).
const RECORD: usize = 8192;

/// Handles of processes, and the kernel's log.
#[derive(Debug)]
pub(crate) struct EndReader {
    handles: HashMap<Identity, OwnedFd>,
    log: Option<OwnedFd>,
    /// Kills in the order of the log by pid, of those that had it last.
    kills: HashMap<u32, u64>,
    /// Kills that were read.
    read: u64,
}

impl EndReader {
    pub(crate) fn new(root: &ProcRoot) -> Self {
        let namespace = std::fs::read_link(root.path().join("self/ns/pid"));
        // The log has the numbers of the first namespace, which mean other processes in any other one.
        let is_first = namespace.is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Readable for root, and for all where `kernel.dmesg_restrict` is 0 and the file's mode allows it.
        let log = openat(CWD, "/dev/kmsg", flags, Mode::empty()).ok().filter(|_| is_first);
        Self { handles: HashMap::new(), log, kills: HashMap::new(), read: 0 }
    }

    /// Takes a handle of a process, by which its status can be read after its end. A kill of its number that the log has by now is that
    /// of an earlier process: times cannot tell, as the log's clock stands still where the machine sleeps.
    pub(crate) fn attend(&mut self, root: &ProcRoot, process: Identity) {
        self.read_log();
        self.kills.remove(&process.pid);
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // Checked afterwards: the handle may be that of a later process with this pid.
        if root.alive(process) {
            self.handles.insert(process, handle);
        }
    }

    /// Waits until one of the processes ends, at most so long.
    pub(crate) fn wait(&self, time: Duration) {
        let mut handles: Vec<PollFd<'_>> =
            self.handles.values().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        let timeout = time.try_into().ok();
        // Interrupted by a signal, the caller looks sooner, which is harmless.
        let _ = poll(&mut handles, timeout.as_ref());
    }

    /// How a process ended; `None` where the kernel does not say. Its handle is given back.
    pub(crate) fn status(&mut self, process: Identity) -> Option<ExitStatus> {
        status_of(&self.handles.remove(&process)?)
    }

    /// Whether the log names a process as killed since it was attended; `None` where the log cannot be read.
    pub(crate) fn in_log(&mut self, process: Identity) -> Option<bool> {
        self.log.as_ref()?;
        self.read_log();
        Some(self.kills.contains_key(&process.pid))
    }

    fn read_log(&mut self) {
        let Some(log) = &self.log else { return };
        let mut record = vec![0; RECORD];
        for _ in 0..RECORDS {
            match rustix::io::read(log, &mut record) {
                Ok(length) => {
                    if let Some(pid) = killed(&String::from_utf8_lossy(&record[..length])) {
                        self.read += 1;
                        self.kills.insert(pid, self.read);
                        // The oldest are of processes that ended long ago.
                        let read = self.read;
                        self.kills.retain(|_, number| read - *number < KILLS);
                    }
                }
                // Records were overwritten before they were read; the next read continues after them (dev-kmsg in ABI/testing).
                Err(Errno::PIPE | Errno::INTR | Errno::INVAL) => {}
                Err(_) => return,
            }
        }
    }
}

/// The pid of a kill in a record: `6,962,6358477318,-;Memory cgroup out of memory: Killed process 9509 (ruby) …`.
fn killed(record: &str) -> Option<u32> {
    let (head, text) = record.split_once(';')?;
    // Any process with the right to can write to the log, but as another facility than the kernel's, which is 0.
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let (before, rest) = text.split_once(KILLED)?;
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    (priority < 8 && before.to_ascii_lowercase().contains("out of memory")).then_some(pid)
}

fn status_of(handle: &OwnedFd) -> Option<ExitStatus> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    let number = handle.as_fd().as_raw_fd();
    // SAFETY: the buffer is as large as the request says, lives during the call, and any bytes are a valid value of it.
    let answer = unsafe { libc::ioctl(number, GET_INFO as _, &raw mut info) };
    (answer == 0 && info.mask & INFO_EXIT != 0).then(|| decode(info.exit_code))
}

/// A status of wait(2): the signal in the lower seven bits, the code above the eighth.
fn decode(status: i32) -> ExitStatus {
    // The encoding of wait(2): the signal in the low seven bits, above them whether there is a core.
    match status & 0x7f {
        0 => ExitStatus::Exited((status >> 8) & 0xff),
        signal => ExitStatus::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_kill_is_read_from_the_kernels_own_records_only() {
        let record = |priority: u32, text: &str| format!("{priority},962,6358477318,-;{text}\n");
        let memory = "Memory cgroup out of memory: Killed process 9509 (ruby) total-vm:1kB";
        assert_eq!(killed(&record(3, memory)), Some(9509));
        assert_eq!(killed(&record(3, "Out of memory: Killed process 7 (a)")), Some(7));
        assert_eq!(killed(&record(12, memory)), None, "written by a program");
        assert_eq!(killed(&record(3, "Killed process 9 (a) for fun")), None);
        assert_eq!(killed("nonsense"), None);
    }

    #[test]
    fn a_kill_is_that_of_the_process_that_has_the_pid_then_whatever_the_clock_of_the_log_says() {
        // As the kernel's log, one record for each read.
        let (log, kernel) = UnixDatagram::pair().unwrap();
        log.set_nonblocking(true).unwrap();
        let mut reader = EndReader {
            handles: HashMap::new(),
            log: Some(log.into()),
            kills: HashMap::new(),
            read: 0,
        };
        let record = "3,962,1000000,-;Memory cgroup out of memory: Killed process";
        let kill = |pid: u32| kernel.send(format!("{record} {pid} (ruby) total-vm:1kB").as_bytes());
        let process = Identity { pid: 7, start_ticks: u64::MAX };
        kill(7).unwrap();
        reader.attend(&ProcRoot::default(), process);
        assert_eq!(reader.in_log(process), Some(false), "of an earlier process");
        // More than are remembered.
        for pid in 1000..7000 {
            kill(pid).unwrap();
            reader.read_log();
        }
        kill(7).unwrap();
        assert_eq!(reader.in_log(process), Some(true));
        assert!(reader.kills.len() as u64 <= KILLS, "{}", reader.kills.len());
    }

    #[test]
    fn a_status_is_decoded_as_wait_does() {
        assert_eq!(decode(0x300), ExitStatus::Exited(3));
        assert_eq!(decode(9), ExitStatus::Signal(9));
        // With a core dump.
        assert_eq!(decode(0x8b), ExitStatus::Signal(11));
    }

    #[test]
    fn the_status_of_a_process_is_told_or_unknown_and_never_wrong() {
        let root = ProcRoot::default();
        let mut reader = EndReader::new(&root);
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read a; exit 3"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let identity = root.identify(child.id()).unwrap();
        reader.attend(&root, identity);
        drop(child.stdin.take());
        reader.wait(Duration::from_secs(60));
        child.wait().unwrap();
        let status = reader.status(identity);
        assert!(matches!(status, None | Some(ExitStatus::Exited(3))), "{status:?}");
        assert_eq!(reader.status(identity), None, "the handle is given back");
    }
}
