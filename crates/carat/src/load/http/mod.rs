//! HTTP/1.1 requests over kept-alive connections, with a closed or an open load.

mod counts;
mod protocol;
mod report;
mod requests;
pub mod response;
mod text;

pub(crate) use protocol::HttpProtocol;
