//! Processes as `/proc` shows them: who they are, whose children they are, which belong to a tree.
//!
//! Reads through a [`ProcRoot`], so that a captured tree serves as well as the kernel. What a process
//! weighs is the business of `sample`; starting and stopping is the business of `launch`.

mod identity;
mod stat;
mod tree;

pub use identity::{Identity, ProcRoot, ReadError};
pub use stat::{Stat, parse_stat};
pub use tree::Tree;
