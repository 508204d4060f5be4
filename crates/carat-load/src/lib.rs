//! The load generator. It runs in a separate process and reports whether its own measurements are valid.
//!
//! One epoll loop per thread ([`reactor`]) serves every protocol. Arrival times come from the kernel, and latency counts
//! from the moment at which a request was meant to be sent. A protocol is an implementation of `reactor::Protocol` in a
//! folder of its own, with its options in `carat_model::load`; [`driven`] has the few that are not about sockets too.
//!
//! It imports `carat-model`, `carat-proc` (the open files and the processor time of the server) and `carat-files`. Public are
//! the load of a spec ([`drive`], [`Generator`]), the entry of the generator's process ([`worker_main`]), one type for each
//! protocol, and the parsers of what a server sends, which are fuzzed.

pub mod cable;
pub mod clock;
mod connections;
mod content;
mod descriptors;
mod driven;
mod error;
mod fault;
mod generator;
mod health;
mod histogram;
pub mod http;
mod jobs;
mod meter;
mod net;
pub mod null;
mod ports;
mod progress;
mod reactor;
mod remaining;
mod run;
mod schedule;
pub mod self_test;
mod server_files;
mod shard;
pub mod sidekiq;
mod sql_queue;
mod stream;
pub mod target;
pub mod text;
mod tls;
mod worker;

pub use cable::CableProtocol;
pub use content::LoadContent;
pub use driven::DrivenLoad;
pub use error::GeneratorError;
pub use generator::Generator;
pub use http::HttpProtocol;
pub use net::Address;
pub use progress::LoadProgress;
pub use run::{check, drive, drive_until};
pub use sidekiq::SidekiqProtocol;
pub use sql_queue::SqlQueueProtocol;
pub use worker::worker_main;
