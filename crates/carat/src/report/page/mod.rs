//! One self-contained page: the verdict in words, then a picture, then the tables, then how to repeat it.

mod figures;
mod forest;
mod frame;
mod gallery;
mod latency;
mod memory;
mod order;
mod sections;
mod tables;

pub use frame::{PageOptions, html};
