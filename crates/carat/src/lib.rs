//! Carat weighs Ruby servers, proves by experiment which setting makes them smaller and at what cost,
//! and runs them that way.
//!
//! This crate is the program: it starts servers, runs trials and prints. Everything that needs neither is in a crate below it:
//!
//! ```text
//!  cli                          arguments and printing
//!  work                         what a command does between its arguments and its output
//!  view     input               progress and plans as text; the process or file that a command is about
//!  fleet                        blocks on many machines; their parts merged
//!  run                          trials until there is a verdict; recordings
//!  target                       start and stop a server
//!  store    config              the results file; the experiment file, parsed and validated
//!  ---------------------------- crates
//!  carat-report                 results as text, pages and exports
//!  carat-redact                 what readers must not see, removed
//!  carat-analysis   carat-load  conclusions drawn from trials; the load generator
//!  carat-proc   carat-settings  trees, samples, ledgers; the catalogue of settings
//!  carat-model      carat-files plain data, units, metrics; files written whole
//! ```

pub mod cli;
pub mod config;
pub mod fleet;
pub mod input;
pub mod run;
pub mod store;
pub mod target;
pub mod view;
mod work;
