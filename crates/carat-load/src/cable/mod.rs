//! Action Cable: many WebSocket connections, and broadcasts that every one of them has to receive.

pub mod codec;
mod counts;
pub mod frame;
pub mod handshake;
mod merge;
mod pending;
mod protocol;
mod report;
mod session;
mod shared;
mod steps;
mod subscribers;
mod text;

pub use protocol::CableProtocol;
