//! Places for workers over time: worker 0 stays slot 0 when its pid changes.

use crate::process::Identity;
use std::collections::HashMap;

/// One place and who holds it.
#[derive(Debug, Clone, Copy)]
struct Place {
    holder: Identity,
    parent: Option<u32>,
    vacant: bool,
}

/// Who has which slot, from the first sample on.
///
/// A newcomer takes the lowest slot that a sibling (a child of the same slot) left, else a new one. So a
/// worker that a cluster restarts continues its predecessor's series, and a passing `git` or `sh` cannot
/// steal it from under another parent.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    places: Vec<Place>,
    held: HashMap<Identity, u32>,
}

impl Slots {
    /// The slots of `members`, in their order. `parent` tells the parent's pid of a newcomer.
    pub fn assign(
        &mut self,
        members: &[Identity],
        parent: impl Fn(Identity) -> Option<u32>,
    ) -> Vec<u32> {
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
        for place in &mut self.places {
            if !members.contains(&place.holder) {
                place.vacant = true;
                self.held.remove(&place.holder);
            }
        }
    }

    fn admit(&mut self, member: Identity, parent_pid: Option<u32>) -> u32 {
        let parent = parent_pid.and_then(|pid| self.slot_of_pid(pid));
        let left = self.places.iter().position(|place| place.vacant && place.parent == parent);
        let place = Place { holder: member, parent, vacant: false };
        let index = match left {
            Some(index) => {
                self.places[index] = place;
                index
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
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
    fn a_passing_grandchild_does_not_take_a_workers_slot() {
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
    fn a_pid_used_again_is_a_newcomer() {
        let mut slots = Slots::default();
        let orphan = |_| None;
        assert_eq!(slots.assign(&[who(10), who(11)], orphan), [0, 1]);
        let again = Identity { pid: 10, start_ticks: 99 };
        assert_eq!(slots.assign(&[who(11), again], orphan), [1, 0]);
    }
}
