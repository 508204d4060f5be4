//! Versions of Ruby, as settings state which ones they need.

use std::fmt;

/// A version of Ruby by major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RubyVersion {
    major: u16,
    minor: u16,
}

impl RubyVersion {
    pub(crate) const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for RubyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

pub(crate) const V2_7: RubyVersion = RubyVersion::new(2, 7);
pub(crate) const V3_0: RubyVersion = RubyVersion::new(3, 0);
pub(crate) const V3_1: RubyVersion = RubyVersion::new(3, 1);
pub(crate) const V3_2: RubyVersion = RubyVersion::new(3, 2);
pub(crate) const V3_3: RubyVersion = RubyVersion::new(3, 3);
