//! One self-contained page: the verdict in words, then a picture, then the tables, then how to repeat it.

mod alone;
mod comparison;
mod erosion;
mod figures;
mod fit;
mod forest;
mod frame;
mod gallery;
mod growth;
mod latency;
mod ledger;
mod memory;
mod order;
mod parts;
mod recording;
mod sections;
mod sharing;
mod steps;
mod tables;

pub use alone::ledger_html;
pub use comparison::comparison_html;
pub use frame::{PageOptions, html};
pub use recording::recording_html;
