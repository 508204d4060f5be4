//! A way in words, with what must still be so for it to hold.

use super::data::{Holder, KeeperKind, Way, WayLink};
use crate::heap::SlotHead;
use crate::memory::Memory;

/// Objects of a way; longer ones are cut.
pub(super) const STEPS: usize = 20;

/// A way, and the words of the process on which it rests.
#[derive(Debug, Clone, Default)]
pub(super) struct TracedWay {
    pub(super) way: Way,
    pub(super) evidence: Vec<Evidence>,
}

/// Something that was read, and is to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A word that refers to something.
    Word {
        /// Its address.
        at: u64,
        /// What it was.
        word: u64,
    },
    /// A word in contents that may move.
    Content {
        /// The address of the word that leads to the contents.
        from: u64,
        /// Its place in them, in bytes.
        offset: u64,
        /// What it was.
        word: u64,
    },
    /// An object: its type and its class.
    Object {
        /// Its address.
        at: u64,
        /// Its flags, of which only the type counts.
        flags: u64,
        class: u64,
    },
}

impl Evidence {
    /// Whether it is still so. What was read before is forgotten first.
    pub(super) fn holds(self, memory: &mut dyn Memory) -> bool {
        match self {
            Self::Word { at, word } => read_again(memory, at) == Some(word),
            Self::Content { from, offset, word } => {
                let at = read_again(memory, from).and_then(|start| start.checked_add(offset));
                at.and_then(|at| read_again(memory, at)) == Some(word)
            }
            Self::Object { at, flags, class } => {
                memory.refresh(at, at.saturating_add(16));
                let now = memory.word(at).map(|flags| SlotHead { flags, class: 0 }.slot_type());
                now == Some(SlotHead { flags, class }.slot_type())
                    && memory.word_at(at, 8) == Some(class)
            }
        }
    }
}

fn read_again(memory: &mut dyn Memory, at: u64) -> Option<u64> {
    memory.refresh(at, at.saturating_add(8));
    memory.word(at)
}

impl TracedWay {
    /// The way, if all that it rests on still holds.
    pub(super) fn confirmed(self, holds: &mut dyn FnMut(Evidence) -> bool) -> Option<Way> {
        self.evidence.iter().all(|one| holds(*one)).then_some(self.way)
    }
}

/// Whether a reader knows what a holder is: a class or module by its name, a thread that runs by its number, code by its place.
pub(super) fn is_end(of: &Holder, link: &WayLink) -> bool {
    let is_class = matches!(of.kind, KeeperKind::Class | KeeperKind::Included);
    let is_place = of.kind == KeeperKind::Code && of.code.is_some();
    (is_class && *link != WayLink::Class)
        || is_place
        || of.thread.is_some()
        || of.kind == KeeperKind::Main
}

/// The object before one on its way, and the nodes between; `None` as the object for a root.
pub(super) struct Before {
    pub(super) object: Option<u32>,
    /// The root, if the way begins here.
    pub(super) root: Option<u32>,
    pub(super) between: Vec<u32>,
}
