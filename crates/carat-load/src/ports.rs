//! The local ports that the kernel gives to connections.

use std::fmt;
use std::fs;
use std::path::Path;

/// The range of local ports (`ip_local_port_range`, ip(7)), which IPv4 and IPv6 share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The range of this network namespace; `None` if the kernel does not say.
    pub fn read(proc_root: &Path) -> Option<Self> {
        let file = proc_root.join("sys/net/ipv4/ip_local_port_range");
        Self::parse(&fs::read_to_string(file).ok()?)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (first <= last).then_some(Self { first, last })
    }

    /// How many ports it has: so many connections can lead from one address to one server.
    pub fn count(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_read_and_nonsense_is_unknown() {
        let range = PortRange::parse("32768\t60999\n").unwrap();
        assert_eq!((range.count(), range.to_string().as_str()), (28_232, "32768 to 60999"));
        assert_eq!(PortRange::parse("40000 40000").map(PortRange::count), Some(1));
        for text in ["", "1", "2 1", "a b", "1 70000"] {
            assert_eq!(PortRange::parse(text), None, "{text}");
        }
        assert!(PortRange::read(Path::new("/proc")).is_some());
    }
}
