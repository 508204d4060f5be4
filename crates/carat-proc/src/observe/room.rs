//! How much memory Carat may take beside a server without endangering it.
//!
//! Carat's memory is charged to its own control group and to every group above. In a container that is often the server's
//! group too, and if its limit is reached the kernel kills one of them. Which groups the server itself is in does not
//! matter where they are others: reading its memory charges them nothing.

use crate::observe::group_memory::{GroupMemory, group_memory};
use crate::observe::machine::available;
use crate::process::ProcRoot;
use carat_model::Bytes;
use carat_outside::need::{MemoryGate, MemoryNeed, NeedPart};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use std::fs;

/// The part of a group's limit that is left to the server, which may grow while it is read: one of so many.
const LEFT_TO_SERVER: u64 = 20;
/// The same where the kernel would kill the server together with Carat, so that nothing but the reserve protects it.
const LEFT_TO_SERVER_TOGETHER: u64 = 4;
/// The part of the machine's available memory that Carat takes at most, so that it pushes nothing into swap: one of so many.
const OF_MACHINE: u64 = 2;
/// Less is taken without a word.
const WORTH_SAYING: Bytes = Bytes(64 << 20);

/// Lets the kernel kill this process first if memory runs out, and so never the server on its account. Every process may
/// raise its own value (proc_pid_oom_score_adj(5)); its children inherit it, so this is not for a process that starts a server.
pub fn be_killed_first(root: &ProcRoot) {
    // If it cannot be written, the check of the room remains.
    let _ = fs::write(root.path().join("self/oom_score_adj"), "1000");
}

/// A gate for what the machine and the control groups of this process have room for. `say` is handed a line about each
/// large need that is met.
pub fn memory_gate(root: &ProcRoot, say: fn(&str)) -> MemoryGate {
    let root = root.clone();
    MemoryGate::new(move |need| {
        // Read again for each need: the server grows meanwhile.
        room_for(need, &group_memory(&root), available(&root))?;
        within_addresses(need, addresses_left(&root))?;
        if Bytes(need.bytes) >= WORTH_SAYING {
            say(&announcement(need));
        }
        Ok(())
    })
}

fn announcement(need: MemoryNeed) -> String {
    let (bytes, process) = (Bytes(need.bytes), need.process);
    match need.part {
        NeedPart::Census => {
            format!("reading process {process} takes up to {bytes} of carat's own memory")
        }
        NeedPart::Chunks => format!(
            "the table of the chunks of process {process} takes up to {bytes} of carat's own memory"
        ),
        NeedPart::Copy => {
            format!("a copy of the memory of process {process} takes {bytes} of carat's own memory")
        }
        NeedPart::Dump => {
            format!(
                "the objects and references of the dump take up to {bytes} of carat's own memory"
            )
        }
        NeedPart::Graph => {
            format!("the references of process {process} take up to {bytes} of carat's own memory")
        }
    }
}

/// Whether there is room for a need; the nearest limit is named where there is not.
fn room_for(
    need: MemoryNeed,
    groups: &[GroupMemory],
    available: Option<Bytes>,
) -> Result<(), String> {
    let bytes = Bytes(need.bytes);
    // By what is left over, not by the limit: a large group can be nearly full.
    let nearest = groups.iter().min_by_key(|group| group.spare());
    if let Some(group) = nearest.filter(|group| group.spare() < bytes) {
        return Err(format!(
            "needs about {bytes} of carat's own memory, and control group {} has {} left of its limit of {}, of which \
             {} stay for the server{}; run carat outside of this group, or raise the limit",
            group.name,
            group.left(),
            group.limit,
            group.kept(),
            if group.kills_all {
                ", which would be killed together with carat (memory.oom.group)"
            } else {
                ""
            },
        ));
    }
    // Where the machine does not say, only the limits of the groups count.
    match available {
        Some(available) if available.0 / OF_MACHINE < need.bytes => Err(format!(
            "needs about {bytes} of carat's own memory, and this machine has {available} available, of which half stays \
             for the server; read it in a quieter moment, or with more memory"
        )),
        _ => Ok(()),
    }
}

/// The most bytes of addresses that this process may still map; `None` without a limit (`RLIMIT_AS`, getrlimit(2)).
fn addresses_left(root: &ProcRoot) -> Option<Bytes> {
    let limit = getrlimit(Resource::As).current?;
    // The first figure is the size of everything mapped, in pages (`/proc/PID/statm`, proc_pid_statm(5)).
    let sizes = fs::read_to_string(root.path().join("self/statm")).unwrap_or_default();
    let mapped: Option<u64> = sizes.split(' ').next().and_then(|pages| pages.parse().ok());
    // Where that is unknown, there cannot be more than the limit itself.
    let left = mapped.map(|pages| limit.saturating_sub(pages.saturating_mul(page_size() as u64)));
    Some(Bytes(left.unwrap_or(limit)))
}

/// Whether a need is within the limit of addresses, beyond which an allocation fails and ends the process without an answer.
fn within_addresses(need: MemoryNeed, left: Option<Bytes>) -> Result<(), String> {
    match left.filter(|left| left.0 < need.bytes) {
        Some(left) => Err(format!(
            "needs about {} of carat's own memory, and its limit of addresses (`ulimit -v`) leaves {left}; raise that limit",
            Bytes(need.bytes)
        )),
        None => Ok(()),
    }
}

impl GroupMemory {
    /// What stays for the server.
    fn kept(&self) -> Bytes {
        let share = if self.kills_all { LEFT_TO_SERVER_TOGETHER } else { LEFT_TO_SERVER };
        Bytes(self.limit.0 / share)
    }

    /// What Carat may take.
    fn spare(&self) -> Bytes {
        self.left().saturating_sub(self.kept())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn group(name: &str, limit: u64, used: u64) -> GroupMemory {
        let (limit, used) = (Bytes(limit * MB), Bytes(used * MB));
        GroupMemory { name: name.into(), limit, used, kills_all: false }
    }

    fn need(megabytes: u64) -> MemoryNeed {
        MemoryNeed { process: 7, part: NeedPart::Chunks, bytes: megabytes * MB }
    }

    #[test]
    fn the_nearest_limit_decides_and_a_twentieth_of_it_stays_for_the_server() {
        let groups = [group("/pod/app", 200, 100), group("/pod", 1000, 960)];
        assert_eq!(room_for(need(90), &groups[..1], None), Ok(()));
        assert!(room_for(need(91), &groups[..1], None).is_err());
        let refused = room_for(need(30), &groups, None).unwrap_err();
        assert!(
            refused.starts_with(
                "needs about 30.00 MB of carat's own memory, and control group /pod has 40.00 MB left of its limit of \
                 1000.0 MB, of which 50.00 MB stay for the server"
            ),
            "{refused}"
        );
    }

    #[test]
    fn a_quarter_of_a_limit_stays_where_the_server_would_be_killed_together_with_carat() {
        let together = GroupMemory { kills_all: true, ..group("/pod", 200, 100) };
        assert_eq!(room_for(need(50), std::slice::from_ref(&together), None), Ok(()));
        let refused = room_for(need(51), &[together], None).unwrap_err();
        assert!(
            refused.contains("50.00 MB stay for the server, which would be killed"),
            "{refused}"
        );
        assert!(refused.contains("(memory.oom.group); run carat outside"), "{refused}");
    }

    #[test]
    fn half_of_what_the_machine_has_available_may_be_taken() {
        assert_eq!(room_for(need(50), &[], Some(Bytes(100 * MB))), Ok(()));
        let refused = room_for(need(51), &[], Some(Bytes(100 * MB))).unwrap_err();
        assert!(refused.contains("this machine has 100.0 MB available"), "{refused}");
        assert_eq!(room_for(need(51), &[], None), Ok(()), "what is unknown refuses nothing");
    }

    #[test]
    fn what_is_beyond_the_limit_of_addresses_is_refused() {
        assert_eq!(within_addresses(need(50), Some(Bytes(50 * MB))), Ok(()));
        assert_eq!(within_addresses(need(50), None), Ok(()));
        let refused = within_addresses(need(51), Some(Bytes(50 * MB))).unwrap_err();
        assert!(refused.contains("(`ulimit -v`) leaves 50.00 MB"), "{refused}");
    }

    #[test]
    fn a_group_over_its_limit_has_no_room() {
        assert!(room_for(need(1), &[group("/", 10, 11)], None).is_err());
    }
}
