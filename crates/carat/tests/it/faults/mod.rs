//! What Carat must survive: every fault that we can think of, against the real program.
//!
//! Every fault is an ordinary test. `table` lists them all, in plain words, with a reason where there is
//! none, and `bin/test --faults` runs that table and writes down what it saw (docs/reliability.md).

mod killed;
mod score;
