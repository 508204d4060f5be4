//! Every environment variable that carat sets or reads.

/// A random token, unique to a trial or recording, by which carat finds every process of the tree.
pub const TOKEN: &str = "CARAT_TOKEN";

/// The kill switch: with `1`, nothing of carat runs inside Ruby.
pub const OFF: &str = "CARAT_OFF";

/// The directory in which each Ruby process creates its shared page.
pub const PAGES: &str = "CARAT_PAGES";

/// Path of the observing library, required by the shim.
pub const PROBE: &str = "CARAT_PROBE";

/// Path of the changing library, required by the shim if a setting needs it.
pub const RUNTIME: &str = "CARAT_RUNTIME";

/// Padding that makes the environment of every variant the same size.
///
/// The size of the environment moves the stack, which changes measured results
/// (Mytkowicz et al., ASPLOS 2009, doi 10.1145/1508244.1508275).
pub const PADDING: &str = "CARAT_PADDING";

/// Settings for the changing library, as `name=value` pairs separated by `;`.
pub const SETTINGS: &str = "CARAT_SETTINGS";

/// Settings for `carat exec`, as `name=value` pairs separated by `;`.
pub const SET: &str = "CARAT_SET";

/// Pid of the Puma that carat's plugin has started through `carat exec`, so that it does so only once.
pub const PUMA: &str = "CARAT_PUMA";

/// `LD_PRELOAD` before `carat exec`; the programs that the server starts get it back.
pub const INHERITED_PRELOAD: &str = "CARAT_INHERITED_LD_PRELOAD";

/// `RUBYOPT` before `carat exec`; the programs that the server starts get it back.
pub const INHERITED_RUBYOPT: &str = "CARAT_INHERITED_RUBYOPT";

/// Folder of workloads to use instead of the bundled ones.
pub const WORKLOADS: &str = "CARAT_WORKLOADS";

/// Folder in which `bin/roots` installs other versions of Debian; `~/.cache/carat/roots` by default.
pub const ROOTS: &str = "CARAT_ROOTS";

/// Checksum of a value of [`SETTINGS`] (FNV-1a, 32 bits). It tells which request a report of the runtime belongs to.
pub fn settings_checksum(settings: &[u8]) -> u64 {
    let hash = settings
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}
