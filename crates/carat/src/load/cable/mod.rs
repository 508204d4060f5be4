//! Action Cable: many WebSocket connections, and broadcasts that every one of them has to receive.

mod client;
mod engine;
mod flight;
pub mod frame;
pub mod handshake;
mod merge;
pub mod message;
mod run;
mod shards;
mod steps;
mod tally;

pub(crate) use run::run;
