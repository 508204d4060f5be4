//! Faults that Carat must survive, tested on the real program.
//!
//! Every fault is an ordinary test. `rows` lists them all, with a reason where there is no test; `bin/test --faults`
//! runs that table and writes the results to docs/evidence/reliability.md.

mod disk;
mod fake;
mod files;
mod killed;
mod machine;
mod more_rows;
mod rights;
mod rows;
mod score;
mod searches;
mod servers;
mod table;
mod watch;
