//! Null servers: they do as little as possible, and the generator is calibrated with them.

mod cable;
mod http;

pub use cable::NullCable;
pub use http::NullHttp;
