//! Who keeps objects alive, by name.
//!
//! From the references of everything that the roots reach: the way to each object that says most, the objects without which others
//! would go, and the names of the references on these ways. What is printed is read again before, and left out where it no longer
//! holds. Names come from tables that were found by their form; where one was not found there are numbers.

mod code;
mod data;
mod describe;
mod dominators;
pub mod dump;
pub mod dumped;
mod frames;
mod holders;
mod kept;
mod libraries;
mod links;
mod nodes;
mod patterns;
mod search;
mod subject;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod traced;
mod ways;

pub use data::{
    ClassHolders, CodePlace, CountedWay, Holder, KeeperKind, KeptAmount, KeptBy, KeptClass,
    KeptNode, KeptTree, SoleHolder, Way, WayLink, WayRoot, WayStep, WhoCensus,
};
pub use search::{WhoFound, WhoRequest, WhoSources, WhoUnknown, find_who, who_need};
