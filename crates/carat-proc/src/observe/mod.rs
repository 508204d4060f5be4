//! The memory of a process tree at one moment, and its parts.
//!
//! It reads through [`ProcRoot`](crate::process::ProcRoot). `process` decides which processes belong to the tree.
//! Proportional memory is expensive to read and makes the observed process wait, so its cost is measured and limited to a
//! share of one core.

mod allocator;
mod amount;
mod cgroup;
mod collector;
mod directory;
mod fields;
mod files;
mod group_memory;
mod group_use;
mod host;
mod ledger;
mod machine;
mod mappings;
mod outside;
mod page;
mod pagemap;
mod parts;
mod probe_figures;
mod probes;
mod regions;
mod rollup;
mod room;
mod ruby_signs;
mod sampler;
mod sampling_budget;
mod slots;
mod stacks;
mod status;

pub use collector::{Collections, collections_of};
pub use group_memory::{
    GroupFolder, group_folder, group_kills, group_limits, memory_pressure, nearest_limit,
};
pub use group_use::group_use;
pub use host::{HostLook, is_ruby, ruby_trees};
pub use ledger::{huge_page_policy, ledger, ruby_library};
pub use machine::{available, merging_ticks, oom_kills, total_memory};
pub use mappings::MappingParser;
pub use mappings::{Access, Mapping, parse_mappings};
pub use outside::{compare_with_parents, known_figures, outside_figures, read_outside};
pub use page::{ProbePage, pages_left, probe_figures, read_probe_figures, ruby_description};
pub use pagemap::{Pages, count_pages};
pub use probe_figures::{MallocFigures, ProbeFigures};
pub use probes::{Probes, SampledAllocations};
pub use regions::{Region, RegionHints, classify};
pub use rollup::{Rollup, parse_rollup};
pub use room::{be_killed_first, memory_gate};
pub use ruby_signs::image_of;
pub use sampler::{SampleOptions, Sampler};
pub use sampling_budget::SamplingBudget;
pub use slots::Slots;
pub use status::{Status, parse_status};
