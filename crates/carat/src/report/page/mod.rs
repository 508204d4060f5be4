//! One self-contained page: the verdict in words, then a picture, then the tables, then how to repeat it.

mod figures;
mod frame;
mod sections;
mod tables;

pub use frame::{PageOptions, html};
