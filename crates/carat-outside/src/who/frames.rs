//! Frames on the stacks of threads and fibers: their size, the code that runs in each, and its local variables.

use super::code::CodeLayout;
use super::data::CodePlace;
use super::links::{Names, Passage};
use super::nodes::Nodes;
use crate::heap::SlotType;
use crate::memory::Memory;
use std::collections::BTreeSet;

/// Bytes that a control frame can have: program counter, stack pointer, code, self, `ep`, and some more (`rb_control_frame_t`,
/// vm_core.h).
const FRAMES: [u64; 5] = [48, 56, 64, 72, 80];
/// Frames of one stack, at most.
const MOST_FRAMES: usize = 100_000;

/// The main object: the only object of class `Object` with a class of its own in which the oldest code on a stack runs.
pub(super) fn main_object(names: &Names<'_>, object: Option<u32>) -> Option<u32> {
    let nodes = &names.nodes;
    let bytes = names.frame?;
    let stacks = nodes.reach.contexts().filter_map(|context| context.live.get(1));
    let first = stacks.filter_map(|(newest, end)| {
        // The oldest first: control frames grow downwards from the end of a VM stack (vm_core.h).
        let frames = (1..).map(|number| end.saturating_sub(number * bytes));
        let mut frames = frames.take_while(|frame| frame >= newest).take(MOST_FRAMES);
        // Frames of C functions have no code; the oldest that has is the one of the main program.
        let code = |frame: &u64| nodes.memory().word_at(*frame, 16).is_some_and(|code| code != 0);
        nodes.reach.slot_number(nodes.memory().word_at(frames.find(code)?, 24)?)
    });
    let found: BTreeSet<u32> = first.filter(|node| has_own_class(names, *node, object)).collect();
    // Stacks that disagree name no main object: a wrong one would be told as the keeper of what another keeps.
    found.first().copied().filter(|_| found.len() == 1)
}

/// Whether a node is an object with a singleton class directly below a class.
fn has_own_class(names: &Names<'_>, node: u32, above: Option<u32>) -> bool {
    let nodes = &names.nodes;
    let Some(head) = nodes.head(node).filter(|head| head.slot_type() == SlotType::OBJECT) else {
        return false;
    };
    let classes = names.classes.borrow();
    let is_own = nodes.words().object(head.class).is_some_and(|flags| classes.is_singleton(flags));
    let superclass = classes.superclass(nodes.memory(), head.class);
    is_own
        && above.is_some()
        && superclass.and_then(|class| nodes.reach.slot_number(class)) == above
}

/// The bytes of a control frame: those that divide most stacks of frames so that each frame runs bytecode, a block in C, or none.
pub(super) fn frame_bytes(nodes: &Nodes<'_>, code: &CodeLayout<'_>) -> Option<u64> {
    let stacks: Vec<(u64, u64)> =
        nodes.reach.contexts().filter_map(|one| one.live.get(1).copied()).collect();
    size_of_most(&stacks, &|frame| runs_code(nodes.memory(), code, frame))
}

/// Whether code runs in a frame; `None` of what is no frame.
fn runs_code(memory: &dyn Memory, code: &CodeLayout<'_>, frame: u64) -> Option<bool> {
    match memory.word_at(frame, 16)? {
        0 => Some(false),
        found => code.can_run(found).then_some(true),
    }
}

/// The size of frames that fits more stacks than it does not.
fn size_of_most(stacks: &[(u64, u64)], runs: &dyn Fn(u64) -> Option<bool>) -> Option<u64> {
    // By trial, because the size differs between versions and builds, and nothing in the process tells it. Not by all stacks: some
    // chunk may still hold the context of a thread that has ended, whose stack is another's by now.
    let votes = FRAMES.map(|bytes| {
        let votes: i64 = stacks.iter().map(|stack| vote(*stack, bytes, runs)).sum();
        (votes, bytes)
    });
    // Of equals the smallest, which is the last.
    let most = votes.into_iter().rev().max_by_key(|(votes, _)| *votes);
    most.filter(|(votes, _)| *votes > 0).map(|(_, bytes)| bytes)
}

/// 1 if a stack consists of frames of this size, otherwise -1; 0 where no code runs, because nothing but zeros would fit every size.
fn vote((newest, end): (u64, u64), bytes: u64, runs: &dyn Fn(u64) -> Option<bool>) -> i64 {
    if !(end - newest).is_multiple_of(bytes) {
        return -1;
    }
    let frames = (newest..end).step_by(bytes as usize).take(MOST_FRAMES);
    let runs: Option<Vec<bool>> = frames.map(runs).collect();
    runs.map_or(-1, |runs| i64::from(runs.contains(&true)))
}

impl Names<'_> {
    /// The variable through which a passage leads over the stack of a thread or fiber, if it has a name, and the code that runs.
    pub(super) fn frame_variable(
        &self,
        passage: &Passage,
    ) -> Option<(Option<String>, Option<CodePlace>)> {
        passage.between.iter().enumerate().find_map(|(place, node)| {
            let (number, _) = self.nodes.chunk(*node)?;
            let context = self.nodes.reach.context(number)?;
            let at = passage.spots.get(place + 1)?.address()?;
            context.live.iter().any(|(start, end)| (*start..*end).contains(&at)).then_some(())?;
            let (newest, end) = context.live.get(1).copied()?;
            Some(self.frame_at((context.vm_stack.0, newest, end), at))
        })
    }

    /// The variable at an address of a VM stack, and the code of its frame.
    fn frame_at(
        &self,
        (stack, newest, end): (u64, u64, u64),
        at: u64,
    ) -> (Option<String>, Option<CodePlace>) {
        let mut above: Option<(u64, u64)> = None;
        let Some(bytes) = self.frame else { return (None, None) };
        // What is no stack of frames any more, or not while it is read, has no names.
        let runs = |frame| runs_code(self.memory(), &self.code, frame);
        if vote((newest, end), bytes, &runs) < 1 {
            return (None, None);
        }
        for frame in (newest..end).step_by(bytes as usize).take(MOST_FRAMES) {
            let word = |offset| self.memory().word_at(frame, offset).unwrap_or(0);
            let (code, ep) = (word(16), word(32));
            // A word of the frame itself, such as `self`, is no variable.
            if (frame..frame + bytes).contains(&at) {
                return (None, self.code.place(code));
            }
            // Frames of C functions have no variables, and an `ep` outside the stack is that of captured ones.
            if !self.code.is_code(code) || !(stack..newest).contains(&ep) {
                continue;
            }
            // Frames come from the newest to the oldest, whose variables lie lowest, each below its `ep`.
            if at < ep {
                above = Some((code, ep));
                continue;
            }
            return match above.filter(|(above, ep)| self.code.is_local(*above, *ep, at)) {
                Some((code, ep)) => (self.code.local(code, ep, at), self.code.place(code)),
                // A value that this frame has put behind its own variables.
                None => (None, self.code.place(code)),
            };
        }
        let (Some((code, ep)), true) = (above, self.code.knows().1) else { return (None, None) };
        match self.code.is_local(code, ep, at) {
            true => (self.code.local(code, ep, at), self.code.place(code)),
            false => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks, each with its end and the addresses of frames at which code runs, and of those at which none does.
    fn size(stacks: &[(u64, u64)], running: &[u64], silent: &[u64]) -> Option<u64> {
        size_of_most(stacks, &|frame| {
            let is_silent = silent.contains(&frame).then_some(false);
            running.contains(&frame).then_some(true).or(is_silent)
        })
    }

    #[test]
    fn frames_have_the_size_that_fits_more_stacks_than_it_does_not() {
        let (one, two, old) = ((1000, 1128), (2000, 2064), (3000, 3064));
        let (running, silent) = ([1000, 2000], [1064]);
        assert_eq!(size(&[one, two], &running, &silent), Some(64));
        // What is left of the stack of a thread that has ended.
        assert_eq!(size(&[one, old, two], &running, &silent), Some(64));
        assert_eq!(size(&[one, old], &running, &silent), None);
        // Stacks on which nothing runs, or nothing is, say nothing.
        let (silent, none) = ([1064, 3000], (3000, 3000));
        assert_eq!(size(&[one, old, none], &running, &silent), Some(64));
        assert_eq!(size(&[old, none], &running, &silent), None);
        assert_eq!(size(&[], &running, &silent), None);
    }
}
