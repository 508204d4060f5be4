//! What `/proc` and cgroups can tell: which processes form a tree, and where their memory is.
//!
//! It imports `carat-model`, the reader of Rubies from outside, and the layout of the probe's page. It starts and stops no
//! process and prints nothing. Public are the tree and its processes ([`process`]), and samples, readings and the ledger
//! ([`observe`]).

pub mod observe;
pub mod process;
