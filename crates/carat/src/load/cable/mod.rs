//! Action Cable: many WebSocket connections, and broadcasts that every one of them has to receive.

mod client;
pub mod codec;
mod engine;
pub mod frame;
pub mod handshake;
mod merge;
mod pending;
mod run;
mod shards;
mod steps;
mod tally;

pub(crate) use run::run;
