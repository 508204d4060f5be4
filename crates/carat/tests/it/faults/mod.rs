//! What Carat must survive: every fault that we can think of, against the real program.
//!
//! Every fault is an ordinary test. `rows` lists them all, in plain words, with a reason where there is no
//! test, and `bin/test --faults` runs that table and writes down what it saw (docs/reliability.md).

mod disk;
mod fake;
mod files;
mod killed;
mod machine;
mod rights;
mod rows;
mod score;
mod servers;
mod table;
