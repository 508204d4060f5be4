//! A heap dump from outside, in the form of `ObjectSpace.dump_all`: one line of JSON for each root and each object.
//!
//! The contents of strings are left out unless they are requested. What only the process itself can tell is left out too: the place of an
//! allocation, the encoding of a string, the flags of the collector that are not in the object.

mod edges;
mod line;
mod process;
mod roots;

pub use process::{DumpError, DumpSums, dump_heap};
