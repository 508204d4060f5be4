//! A plain first generator: one thread per connection, each sending its next request when it has the
//! response. In a process of its own, so that its memory and its time are never the server's.

mod generator;
mod plain;

pub use generator::{Generator, LoadError, Progress};
pub use plain::worker_main;
