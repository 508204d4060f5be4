//! Starting real servers, seeing that they are ready, and stopping every process of them.
//!
//! A server is held before `exec` until whoever watches it is ready, so that no moment of its life is
//! missed. It gets a session of its own, so that Ctrl-C on the terminal reaches carat alone.

mod directory;
mod guard;
pub mod library;
mod port;
mod ready;
mod root;
mod server;
mod stage;
mod stop;

pub use directory::{make_run_directory, run_directory};
pub use guard::{Guard, clean_up, guard_main};
pub use library::{Libraries, LibraryError, cache_roots, unpack_in_one_of};
pub use port::free_port;
pub use ready::{NotReady, Probe as ReadyProbe, check as check_ready, local};
pub use root::NewRoot;
pub use server::{Held, LaunchError, Server};
pub use stage::{LaunchSpec, stage_main};
pub use stop::{Stopped, stop};
