//! Sidekiq jobs, pushed into the real Redis and followed to their end by Redis' own counters.

mod counts;
mod job;
mod protocol;
mod registry;
mod report;
pub mod resp;
mod session;
mod watch;

pub(crate) use protocol::SidekiqProtocol;
pub(crate) use session::check_sidekiq;
