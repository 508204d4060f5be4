//! HTTP/1.1 requests over kept-alive connections, with a closed or an open load, alone or as the steps of scenarios.

mod counts;
mod failures;
mod protocol;
mod report;
mod requests;
pub mod response;
pub mod scenario;
mod session;
mod text;

pub(crate) use protocol::HttpProtocol;
pub(crate) use session::check_http;
