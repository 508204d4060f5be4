//! The load generator: a process of its own that drives HTTP or Action Cable and suspects itself.
//!
//! One epoll loop per thread, one shared buffer, no runtime. Arrival times come from the kernel, latency counts from the
//! moment at which a request was meant to be sent, and every report says what speaks against it.

pub(crate) mod board;
pub mod cable;
pub mod clock;
pub(crate) mod durations;
mod error;
mod generator;
mod health;
pub mod http;
mod limits;
pub(crate) mod meter;
pub(crate) mod net;
pub mod null;
mod schedule;
mod supply;
pub mod target;
mod tls;
mod wire;
mod worker;

pub use board::Progress;
pub use error::LoadError;
pub use generator::Generator;
pub use worker::{drive, worker_main};
