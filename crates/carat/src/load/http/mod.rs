//! HTTP/1.1 requests: closed and open, over kept-alive connections.

mod connection;
mod engine;
mod requests;
pub mod response;
mod run;
mod tally;

pub(crate) use run::run;
