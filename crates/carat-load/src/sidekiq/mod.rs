//! Sidekiq jobs, pushed into the real Redis and followed to their end by Redis' own counters.

mod counts;
mod job;
mod protocol;
mod registry;
mod report;
pub mod resp;
mod session;
mod watch;

pub use protocol::SidekiqProtocol;
pub use session::check_sidekiq;
