//! What the kernel charges to the control group of a server, and its limits: all of the group, whoever uses it.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The memory of one control group, and the limits of it and of those above.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupUse {
    /// Its path, as far as it is visible here.
    pub name: String,
    /// All that is charged, the page cache too; `None` for the group of the whole machine.
    pub current: Option<Bytes>,
    /// What is charged without inactive pages of files: platforms judge by this figure.
    pub working_set: Option<Bytes>,
    /// Anonymous memory.
    pub anonymous: Option<Bytes>,
    /// Pages of files, those in tmpfs included.
    pub files: Option<Bytes>,
    /// The share of `files` that the kernel can drop at once.
    pub inactive_files: Option<Bytes>,
    /// The share of `files` that lies in tmpfs, memfd and shared memory, which cannot be dropped.
    pub in_memory_files: Option<Bytes>,
    /// Memory of the kernel on behalf of the group: page tables, stacks, slab, sockets.
    pub kernel: Option<Bytes>,
    /// Charged to swap.
    pub swap: Option<Bytes>,
    /// Processes that the kernel killed because the group was at its limit.
    pub oom_kills: Option<u64>,
    /// Processes of the group that are not of the tree; `None` where they cannot be listed.
    pub other_processes: Option<u64>,
    /// The limits that hold for it, the nearest first.
    pub limits: Vec<GroupLimit>,
}

/// What happens at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The kernel kills.
    Max,
    /// The kernel slows the processes down.
    High,
    /// The kernel kills; swap counts too.
    WithSwap,
    /// A recording of an earlier version does not say it.
    #[default]
    Unknown,
}

impl LimitKind {
    /// What is said behind the amount, with a space before it; empty where processes are killed at the limit.
    pub const fn remark(self) -> &'static str {
        match self {
            Self::Max | Self::Unknown => "",
            Self::High => " (memory.high, from which on it is slowed down)",
            Self::WithSwap => " (swap included)",
        }
    }
}

/// One limit of a group or of one above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimit {
    /// The path of the group that has it.
    pub group: String,
    #[serde(default)]
    pub kind: LimitKind,
    pub limit: Bytes,
    /// What counts against it, without pages of files that the kernel can drop at once.
    pub used: Bytes,
}

impl GroupLimit {
    /// What is left of it.
    pub fn left(&self) -> Bytes {
        // Usage may exceed a limit for a moment, or one that was lowered later.
        self.limit.saturating_sub(self.used)
    }

    /// The share that is used, as a fraction.
    pub fn share(&self) -> f64 {
        // A limit of 0 bytes is one that nothing may use, and its share must stay finite.
        self.used.0 as f64 / self.limit.0.max(1) as f64
    }
}

impl GroupUse {
    /// The limit with the least left.
    pub fn nearest_limit(&self) -> Option<&GroupLimit> {
        // By what is left, not by the share: a small group can be nearly full and far from its end.
        self.limits.iter().min_by_key(|limit| limit.left())
    }
}
