//! A heap dump that somebody made: by `carat heap-dump` or by `ObjectSpace.dump_all`. It is read twice, line by line: first the objects,
//! then their references, so that it may be larger than memory.
//!
//! A dump is a file from anywhere: lines that make no sense are counted and left out, and every table is announced before it grows.

mod graph;
mod line;
mod objects;
mod read;
#[cfg(test)]
mod tests;

pub use read::{DumpFileError, DumpOpener, DumpedClass, HeapDump, is_dump_line, read_dump};
