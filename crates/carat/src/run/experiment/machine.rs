//! What machine and what software the figures come from.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Facts of this machine: a name and a value each; what is not known is left out.
pub fn machine_facts() -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let after_colon = |prefix: &str, text: &str| {
        let line = text.lines().find(|line| line.starts_with(prefix))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let os = read("/etc/os-release").unwrap_or_default();
    let os_name = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let facts = [
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("processor", after_colon("model name", &cpuinfo)),
        ("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string())),
        ("memory", after_colon("MemTotal", &read("/proc/meminfo").unwrap_or_default())),
        ("system", os_name.map(|name| name.trim_matches('"').to_owned())),
        ("libc", version(&["getconf", "GNU_LIBC_VERSION"])),
        ("ruby", version(&["ruby", "--version"])),
        ("carat", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn version(command: &[&str]) -> Option<String> {
    let output = Command::new(command[0]).args(&command[1..]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
