//! The recorder of `carat watch`: it follows every Ruby of a host, keeps what it saw in a bounded store, and says how a process
//! ended and what had grown until then.
//!
//! It imports the readers (`carat-proc`, `carat-outside`), the plain data (`carat-model`) and SQLite. It prints nothing and
//! starts no process; time and the root of the process file system are arguments. Public are the recorder ([`recorder`]), what it
//! follows ([`follow`]), metrics and who serves them ([`metrics`], [`listen`]), conditions ([`rule`]), the store ([`store`]) and the conclusions about an end ([`ending`]).
//!
//! ```text
//!  recorder        rounds into the store
//!  follow          who is there, how large, what is due, who has gone
//!  metrics listen  the last round as OpenMetrics, on the loopback or a unix socket
//!  census  kernel  one reading of a process; the status of an end, and the kernel's log
//!  store           one SQLite file: written whole, thinned, read
//!  rule            conditions such as `worker.pss > 800m`: pure
//!  ending          why a process is gone: pure
//! ```

mod census;
pub mod ending;
pub mod follow;
mod kernel;
pub mod listen;
pub mod metrics;
pub mod recorder;
pub mod rule;
pub mod store;
