//! Structs of C that objects of Ruby's own classes have, told by the name of their type.

use super::fields::SlotView;
use super::struct_types::StructTypes;
use super::words::Words;
use crate::malloc::Chunk;

/// Bytes of a thread before the address of its context, at most, and of a fiber before its context.
pub(super) const BEFORE_CONTEXT: u64 = 96;
const FIBER: u64 = 480;
/// Bytes in which a context lies, and those that it has at least (`rb_execution_context_t`, vm_core.h).
const CONTEXT: u64 = 600;
const LEAST_CONTEXT: u64 = 304;
/// Bytes of a context in which it says whose it is.
const OWNERS: u64 = 96;

/// Names of types, and how many bytes of a struct are read: no more than it has from 2.7 to
/// 3.4.
const TYPES: [(&str, ToldStruct); 10] = [
    ("VM/thread", ToldStruct::Thread(352)),
    ("fiber", ToldStruct::Fiber),
    ("proc", ToldStruct::Bytes(24)),
    ("binding", ToldStruct::Bytes(40)),
    ("method", ToldStruct::Bytes(32)),
    ("enumerator", ToldStruct::Bytes(80)),
    ("generator", ToldStruct::Bytes(16)),
    ("yielder", ToldStruct::Bytes(8)),
    ("queue", ToldStruct::Bytes(32)),
    ("sized_queue", ToldStruct::Bytes(32)),
];

/// What a struct says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldStruct {
    /// So many bytes of it are there.
    Bytes(u64),
    /// A thread with so many bytes.
    Thread(u64),
    /// A fiber, whose bytes end with its context.
    Fiber,
}

/// The types of such structs.
pub(super) struct ToldStructs(StructTypes<ToldStruct>);

impl ToldStructs {
    pub(super) fn new() -> Self {
        Self(StructTypes::new(&TYPES))
    }

    /// What is known of the struct of an object that has one outside of its slot.
    pub(super) fn kind_of(&mut self, view: &SlotView<'_>) -> Option<ToldStruct> {
        // 1: the object has a type, and its struct is not in the slot (`typed_flag`, rtypeddata.h).
        view.memory.word_at(view.address, 24).filter(|flag| *flag == 1)?;
        self.0.find(view.memory, view.memory.word_at(view.address, 16)?)
    }
}

impl Words<'_> {
    /// The end of the context that is a part of a fiber's struct.
    pub(super) fn own_context(&self, fiber: u64) -> Option<u64> {
        (fiber..fiber.saturating_add(FIBER)).step_by(8).find_map(|at| self.context_of(at, fiber))
    }

    /// The end of the context at an address that belongs to a thread or fiber: it says so.
    pub(super) fn context_of(&self, at: u64, owner: u64) -> Option<u64> {
        let stack = self.memory.word(at).filter(|_| at.is_multiple_of(8))?;
        let context = self.context_in(&Chunk::told(at, CONTEXT))?;
        let mut owners = (24..OWNERS).step_by(8);
        let is_of = owners.any(|offset| self.memory.word_at(at, offset) == Some(owner));
        // What looks like bounds of a stack farther behind is another's, as is another context.
        let registers = context.registers.filter(|registers| registers.0 - at < LEAST_CONTEXT);
        let end = registers.map_or(at + LEAST_CONTEXT, |registers| registers.1);
        (is_of && context.vm_stack.0 == stack).then_some(end)
    }
}
