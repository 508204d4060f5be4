//! Servers that do as little as a server can: what the generator is calibrated with.

mod cable;
mod http;

pub use cable::NullCable;
pub use http::NullHttp;
