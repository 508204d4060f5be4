//! Carat weighs Ruby servers, proves by experiment which setting makes them smaller and at what cost,
//! and runs them that way.
//!
//! Modules are layered: a module may import only from lines below its own. The `tidy` test enforces this drawing.
//!
//! ```text
//!  cli                         arguments and printing
//!  report                      pages, tables and exports made from results
//!  fleet                       blocks on many machines; their parts merged
//!  run                         trials until there is a verdict; recordings
//!  target   load   observe     start and stop a server; drive load; sample memory
//!  analysis store              conclusions drawn from trials; the results file
//!  config                      the experiment file, parsed and validated
//!  settings                    the catalogue of settings
//!  process                     processes as /proc shows them
//!  core                        plain data, units, metrics
//! ```

pub mod analysis;
pub mod cli;
pub mod config;
pub mod core;
pub mod fleet;
pub mod load;
pub mod observe;
pub mod process;
pub mod report;
pub mod run;
pub mod settings;
pub mod store;
pub mod target;
