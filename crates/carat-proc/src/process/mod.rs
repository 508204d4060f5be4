//! Processes as `/proc` shows them: their identity, their parents, their files, and which of them form a tree.
//!
//! Reads go through a [`ProcRoot`], so that tests can use a captured copy of `/proc`. The memory of a process
//! is read by `observe`; processes are started and stopped by `target`.

mod files;
mod forest;
mod identity;
mod listening;
mod own_memory;
mod program;
mod root;
mod serving;
mod stat;
mod tree;
mod usage;

pub use files::{OpenFiles, listeners};
pub use forest::{ForestSigns, Grown, RubyGroup, groups};
pub use identity::Identity;
pub use listening::ListeningSockets;
pub(crate) use own_memory::shares_memory;
pub use own_memory::with_own_memory;
pub(crate) use program::is_rubys_name;
pub use program::{Program, program, words_of};
pub use root::{ProcError, ProcRoot};
pub use serving::{ServingBy, ServingSigns, serving};
pub use stat::{Stat, parse_stat, tree_ticks};
pub use tree::Tree;
pub use usage::children_cpu;
