//! The load generator: a process of its own that drives HTTP or Action Cable and suspects itself.
//!
//! One epoll loop per thread, one shared buffer, no runtime. Arrival times come from the kernel, latency counts from the
//! moment at which a request was meant to be sent, and every report says what speaks against it.

mod budget;
pub mod cable;
pub mod clock;
mod descriptors;
mod error;
mod generator;
mod health;
pub(crate) mod histogram;
pub mod http;
pub(crate) mod meter;
pub(crate) mod net;
pub mod null;
pub(crate) mod progress;
mod schedule;
mod stream;
pub mod target;
mod tls;
mod worker;

pub use error::LoadError;
pub use generator::Generator;
pub use progress::LoadProgress;
pub use worker::{drive, worker_main};
