//! The interface between the carat tool and the libraries that it loads into Ruby: the names of environment variables
//! ([`env`]) and the layout of the shared page ([`page`]).
//!
//! This crate becomes part of a user's server, so it has no dependencies and does no I/O.

pub mod env;
pub mod page;
