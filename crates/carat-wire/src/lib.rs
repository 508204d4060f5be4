//! What the carat tool and the libraries it loads into Ruby agree on.
//!
//! Two things only: the names of environment variables ([`env`]) and the layout of the shared page
//! ([`page`]). No dependencies, no I/O: this crate enters somebody's server.

pub mod env;
pub mod page;
