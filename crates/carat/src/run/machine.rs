//! Facts of the machine and the software that trials run on.

use carat_model::MachineFacts;
use carat_proc::observe::total_memory;
use carat_proc::process::ProcRoot;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Facts that hold for every process whose root is `root`; an unknown fact is absent.
///
/// The Ruby is not among them: only a running server shows which one it is.
pub fn machine_facts(root: &Path) -> MachineFacts {
    let os_release = read(root.join("etc/os-release")).unwrap_or_default();
    let system = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let facts = [
        ("kernel", read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned())),
        ("processor", field("/proc/cpuinfo", "model name")),
        // What this process may use: a container can have less than the machine.
        ("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string())),
        ("memory", total_memory(&ProcRoot::default()).map(|bytes| bytes.to_string())),
        ("system", system.map(|name| name.trim_matches('"').to_owned())),
        // Another root has its own C library, which `getconf` of this system does not know.
        ("libc", if root == Path::new("/") { c_library() } else { None }),
        ("carat", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The value after the colon in the first line that starts with `name`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn c_library() -> Option<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
