//! Why pages of a forked process are no longer shared with its parent.
//!
//! A fork shares every page; the first write by either process gives the writer a copy. Nothing records who wrote what. But
//! the parent still has the page as it was, or nearly so, and comparing both copies word by word tells what changed: a bit
//! of age, a slot, a bitmap, a link of malloc's. Page frame numbers say whether a page is still the same one; without them
//! (they require `CAP_SYS_ADMIN`) the kernel says at least whether only the child maps it.

mod cause;
mod chunks;
mod ground;
mod moves;
mod pair;
mod slots;
mod table;

pub use cause::{Cause, Remedy};
pub use pair::{PairError, PairRequest, compare};
pub use table::{Area, AreaShare, CauseShare, UnsharedTable};
