//! What carat knows about Ruby, shared by the libraries that it loads into Ruby and by the tool itself.
//!
//! [`version`], [`extension`] and [`code_room`] are pure: which Ruby has what, which C extension cannot be compacted, where a compiler has its code. Everything else runs inside a Ruby process and is for the probe and
//! the runtime only. It needs no Ruby header: every function is looked up by name ([`symbol`], [`api`], [`allocation`]). It allocates
//! nothing after loading, and it fails open: what is missing costs a feature, never the server.

pub mod allocation;
pub mod allocator;
pub mod api;
pub mod clock;
pub mod code_room;
pub mod extension;
pub mod guard;
pub mod stderr;
pub mod symbol;
pub mod thread;
pub mod version;

pub use api::{RubyApi, Value};
pub use guard::PanicGuard;
pub use version::RubyVersion;
