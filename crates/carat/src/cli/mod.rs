//! The command line: the only place that builds concrete things and prints.

pub mod load;
