//! The load generator. It runs in a separate process and reports whether its own measurements are valid.
//!
//! One epoll loop per thread ([`reactor`]) serves every protocol. Arrival times come from the kernel, and latency counts
//! from the moment at which a request was meant to be sent. A protocol is an implementation of `reactor::Protocol` in a
//! folder of its own, with its options in `core::load`; [`driven`] has the few that are not about sockets too.

mod budget;
pub mod cable;
pub mod clock;
mod connections;
mod descriptors;
pub(crate) mod driven;
mod error;
mod fault;
mod generator;
mod health;
pub(crate) mod histogram;
pub mod http;
pub(crate) mod jobs;
pub(crate) mod meter;
pub(crate) mod net;
pub mod null;
mod ports;
pub(crate) mod progress;
pub(crate) mod reactor;
mod run;
mod schedule;
pub(crate) mod self_test;
mod server_files;
mod shard;
pub mod sidekiq;
pub(crate) mod sql_queue;
mod stream;
pub mod target;
pub(crate) mod text;
mod tls;
mod worker;

pub use error::GeneratorError;
pub use generator::Generator;
pub use progress::LoadProgress;
pub use run::{check, drive};
pub use worker::worker_main;
