//! Carat weighs Ruby servers, proves by experiment which setting makes them smaller and at what cost,
//! and runs them that way.
//!
//! Modules are in layers; a module may use only what stands below it, never a neighbour on its line.
//! The `tidy` test enforces this drawing.
//!
//! ```text
//!  cli                                  the only place that builds concrete things
//!  report   experiment                  a page from results; trials until there is a verdict
//!           trial                       one trial: start, warm, load and sample, stop
//!  launch   load   sample               instruments: strangers to each other
//!  verdict  store                       conclusions from trials; the results file
//!  plan                                 the experiment file, parsed and expanded
//!  settings                             the catalogue of settings
//!  process                              who runs, as /proc shows it
//!  model                                plain data, units, ids
//! ```

pub mod cli;
pub mod experiment;
pub mod launch;
pub mod load;
pub mod model;
pub mod plan;
pub mod process;
pub mod report;
pub mod sample;
pub mod settings;
pub mod store;
pub mod trial;
pub mod verdict;
