//! Slots of workers over time: worker 0 stays slot 0 when its pid changes.

use crate::process::Identity;
use std::collections::HashMap;

/// One slot and its latest process.
#[derive(Debug, Clone, Copy)]
struct SlotEntry {
    holder: Identity,
    parent: Option<u32>,
    vacant: bool,
}

/// The slot of each process, from the first sample on.
///
/// A new process takes the lowest slot that a sibling (a child of the same slot) left, or else a new one. So a restarted
/// worker continues its predecessor's series, and a short-lived `git` or `sh` of another parent does not take its slot.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    slots: Vec<SlotEntry>,
    held: HashMap<Identity, u32>,
}

impl Slots {
    /// The slots of `members`, in their order. `parent` returns the parent's pid of a new process.
    pub fn assign(
        &mut self,
        members: &[Identity],
        parent: impl Fn(Identity) -> Option<u32>,
    ) -> Vec<u32> {
        // First, so that a worker finds the slot of the one that it replaces in the same sample.
        self.vacate(members);
        members
            .iter()
            .map(|&member| match self.held.get(&member) {
                Some(&slot) => slot,
                None => self.admit(member, parent(member)),
            })
            .collect()
    }

    fn vacate(&mut self, members: &[Identity]) {
        for slot in &mut self.slots {
            if !members.contains(&slot.holder) {
                slot.vacant = true;
                self.held.remove(&slot.holder);
            }
        }
    }

    fn admit(&mut self, member: Identity, parent_pid: Option<u32>) -> u32 {
        let parent = parent_pid.and_then(|pid| self.slot_of_pid(pid));
        let left = self.slots.iter().position(|slot| slot.vacant && slot.parent == parent);
        let entry = SlotEntry { holder: member, parent, vacant: false };
        let index = match left {
            Some(index) => {
                self.slots[index] = entry;
                index
            }
            None => {
                self.slots.push(entry);
                self.slots.len() - 1
            }
        };
        let slot = u32::try_from(index).unwrap_or(u32::MAX);
        self.held.insert(member, slot);
        slot
    }

    fn slot_of_pid(&self, pid: u32) -> Option<u32> {
        self.held.iter().find(|(holder, _)| holder.pid == pid).map(|(_, &slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(pid: u32) -> Identity {
        Identity { pid, start_ticks: u64::from(pid) }
    }

    #[test]
    fn a_replaced_worker_keeps_its_predecessors_slot() {
        let mut slots = Slots::default();
        let parent = |member: Identity| Some(if member.pid == 10 { 1 } else { 10 });
        assert_eq!(slots.assign(&[who(10), who(11), who(12)], parent), [0, 1, 2]);
        assert_eq!(slots.assign(&[who(10), who(12), who(20)], parent), [0, 2, 1]);
        assert_eq!(slots.assign(&[who(10), who(12), who(20)], parent), [0, 2, 1]);
    }

    #[test]
    fn a_short_lived_grandchild_does_not_take_a_workers_slot() {
        let mut slots = Slots::default();
        let parent = |member: Identity| match member.pid {
            10 => Some(1),
            11..=13 => Some(10),
            _ => Some(12),
        };
        assert_eq!(slots.assign(&[who(10), who(11), who(12)], parent), [0, 1, 2]);
        assert_eq!(slots.assign(&[who(10), who(12), who(90)], parent), [0, 2, 3]);
        assert_eq!(slots.assign(&[who(10), who(12), who(13)], parent), [0, 2, 1]);
    }

    #[test]
    fn a_reused_pid_is_a_new_process() {
        let mut slots = Slots::default();
        let orphan = |_| None;
        assert_eq!(slots.assign(&[who(10), who(11)], orphan), [0, 1]);
        let again = Identity { pid: 10, start_ticks: 99 };
        assert_eq!(slots.assign(&[who(11), again], orphan), [1, 0]);
    }
}
