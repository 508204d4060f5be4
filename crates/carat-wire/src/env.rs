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

/// Number of objects that the shim makes before the program begins, as four digits.
///
/// Where a program's collections fall depends on every object before, and with it the peak of the program: ten more
/// objects moved that of a Jekyll by 4 %. The probe makes some too. So every block of commands begins with another number.
pub const OBJECTS: &str = "CARAT_OBJECTS";

/// Settings for the changing library, as `name=value` pairs separated by `;`.
pub const SETTINGS: &str = "CARAT_SETTINGS";

/// Settings for `carat exec`, as `name=value` pairs separated by `;`.
pub const SET: &str = "CARAT_SET";

/// Pid of the Puma that carat's plugin has started through `carat exec`, so that it does so only once.
pub const PUMA: &str = "CARAT_PUMA";

/// Names of the variables that the settings consist of, separated by `,`. The runtime removes them from the environment
/// and hands them on, all of them or none.
pub const VARIABLES: &str = "CARAT_VARIABLES";

/// How the name of a variable begins that has the earlier value of another: see [`inherited`].
pub const INHERITED: &str = "CARAT_INHERITED";

/// The variable with the value that `name` had before carat set it; the programs that the server starts get it back.
pub fn inherited(name: &str) -> String {
    format!("{INHERITED}_{name}")
}

/// How much carat says about what it does: `debug` or `trace`. Only carat itself reads it.
pub const LOG: &str = "CARAT_LOG";

/// Folder of workloads to use instead of the bundled ones.
pub const WORKLOADS: &str = "CARAT_WORKLOADS";

/// Folder in which `bin/roots` installs other versions of Debian; `~/.cache/carat/roots` by default.
pub const ROOTS: &str = "CARAT_ROOTS";

/// Checksum of a value of [`SETTINGS`] (FNV-1a, 32 bits). It tells which request a report of the runtime belongs to.
pub fn settings_checksum(settings: &[u8]) -> u64 {
    u64::from(fnv(FNV_START, settings))
}

/// Checksum of the variables that a value of [`VARIABLES`] names, with their values. It tells whether a process was started
/// with all of them.
pub fn variables_checksum<V: AsRef<[u8]>>(names: &str, value: impl Fn(&str) -> Option<V>) -> u64 {
    let hash = names.split(',').fold(FNV_START, |hash, name| {
        let hash = fnv(hash, name.as_bytes());
        // An empty value and no value must differ, so each has a separator of its own.
        match value(name) {
            Some(value) => fnv(fnv(hash, b"="), value.as_ref()),
            None => fnv(hash, b"\0"),
        }
    });
    u64::from(hash)
}

const FNV_START: u32 = 0x811c_9dc5;

fn fnv(hash: u32, bytes: &[u8]) -> u32 {
    // FNV-1a: xor first. FNV-1 multiplies first and mixes the last byte badly.
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_variables_tells_a_missing_from_an_empty_and_from_another_value() {
        let sum = |value: Option<&str>| {
            variables_checksum("A,B", |name| if name == "A" { Some("1") } else { value })
        };
        let sums = [None, Some(""), Some("2"), Some("3")].map(sum);
        for (place, one) in sums.iter().enumerate() {
            assert!(!sums[place + 1..].contains(one), "{sums:?}");
        }
        assert_eq!(sum(Some("2")), sums[2]);
    }
}
