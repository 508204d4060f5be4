//! HTTP/1.1 requests over kept-alive connections, with a closed or an open load, alone, as the steps of scenarios, or as they were recorded.

mod counts;
mod failures;
mod protocol;
pub mod replay;
mod report;
mod requests;
pub mod response;
pub mod scenario;
mod session;
mod text;

pub use protocol::HttpProtocol;
pub use session::check_http;
