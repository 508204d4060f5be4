//! `/proc/PID/stat`, as proc_pid_stat(5) describes it.

use crate::process::Identity;

/// A thread of the kernel, among `flags` (`PF_KTHREAD`, include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// A process that was forked and has executed no program since (`PF_FORKNOEXEC`, include/linux/sched.h).
const NOT_EXECUTED: u64 = 0x0000_0040;

/// The fields of `/proc/PID/stat` that carat uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: u32,
    /// Name of the executable, at most 15 bytes.
    pub comm: String,
    /// State letter, such as `R`, `S` or `Z`.
    pub state: char,
    /// Parent's pid.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    pub session: u32,
    /// Whether it is a thread of the kernel, which has no memory of its own.
    pub is_kernel_thread: bool,
    /// Whether it was forked and has executed no program since.
    pub has_not_executed: bool,
    /// Processor time of the process in clock ticks, user and system.
    pub own_ticks: u64,
    /// Processor time of children that were waited for, in clock ticks.
    pub children_ticks: u64,
    pub threads: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Bytes of addresses and resident pages; `None` in a shortened text.
    pub memory: Option<(u64, u64)>,
}

impl Stat {
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Whether it is a zombie or dead.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Processor time of a tree in clock ticks, its dead children included. `members` are those that live.
pub fn tree_ticks(members: &[Stat]) -> u64 {
    // A parent has the ticks of children for which it waited, so none is counted twice.
    members.iter().map(|stat| stat.own_ticks.saturating_add(stat.children_ticks)).sum()
}

/// Parses one line of `/proc/PID/stat`; `None` if the format is wrong.
pub fn parse_stat(text: &str) -> Option<Stat> {
    // The name may contain spaces and parentheses, so the last parenthesis ends it.
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let pid = text.get(..open)?.trim().parse().ok()?;
    let comm = text.get(open + 1..close)?.to_owned();
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        comm,
        state: fields.first()?.chars().next()?,
        parent: small(&fields, 4)?,
        group: small(&fields, 5)?,
        session: small(&fields, 6)?,
        is_kernel_thread: number(&fields, 9)? & KERNEL_THREAD != 0,
        has_not_executed: number(&fields, 9)? & NOT_EXECUTED != 0,
        own_ticks: number(&fields, 14)?.saturating_add(number(&fields, 15)?),
        children_ticks: number(&fields, 16)?.saturating_add(number(&fields, 17)?),
        threads: small(&fields, 20)?,
        start_ticks: number(&fields, 22)?,
        memory: number(&fields, 23).zip(number(&fields, 24)),
    })
}

/// The value of a field by its number in proc_pid_stat(5); `fields` starts after the name, with field 3.
fn number(fields: &[&str], field: usize) -> Option<u64> {
    fields.get(field - 3)?.parse().ok()
}

fn small(fields: &[&str], field: usize) -> Option<u32> {
    u32::try_from(number(fields, field)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUMA: &str = "4312 (puma 5.6 (tcp)) S 4310 4312 4312 0 -1 4194560 9 8 0 0 120 30 7 5 20 0 6 0 88231 1 2 3";

    #[test]
    fn a_name_with_spaces_and_parentheses_is_one_field() {
        let stat = parse_stat(PUMA).unwrap();
        assert_eq!(stat.comm, "puma 5.6 (tcp)");
        assert_eq!((stat.parent, stat.group, stat.session), (4310, 4312, 4312));
        assert_eq!((stat.own_ticks, stat.children_ticks), (150, 12));
        assert_eq!((stat.threads, stat.start_ticks), (6, 88_231));
    }

    #[test]
    fn a_tree_has_the_time_of_who_lives_and_of_dead_children_each_once() {
        let parent = parse_stat(PUMA).unwrap();
        let worker = Stat { pid: 4313, own_ticks: 40, children_ticks: 3, ..parent.clone() };
        // 12 ticks are of workers that ended, for which the parent waited.
        assert_eq!(tree_ticks(&[parent, worker]), 150 + 12 + 40 + 3);
        assert_eq!(tree_ticks(&[]), 0);
    }

    #[test]
    fn a_thread_of_the_kernel_is_told_from_a_process() {
        let kthreadd = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0";
        let found = [kthreadd, PUMA].map(|line| parse_stat(line).unwrap().is_kernel_thread);
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn a_line_truncated_at_any_byte_is_rejected() {
        let whole = parse_stat(PUMA);
        for end in 0..PUMA.len() - " 1 2 3".len() - 5 {
            assert_eq!(parse_stat(&PUMA[..end]), None, "{}", &PUMA[..end]);
        }
        assert!(whole.is_some());
    }
}
