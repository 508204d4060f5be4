//! C extensions that are known to crash after Ruby's heap was compacted, for the runtime, which then does not compact, and
//! for `docs/reference/settings.md`.
//!
//! Compaction moves objects. An extension that keeps a reference where the GC cannot see it, such as a C variable or a
//! struct that it does not mark, uses the old address afterwards.

use crate::version::{RubyVersion, V2_7, V3_2};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfitExtension {
    pub gem: &'static str,
    /// Name of its library without `.so`: a program may load it without activating the gem.
    pub library: &'static str,
    /// The first version that does not crash; `None` if none is known.
    pub fixed_in: Option<&'static str>,
    /// The first Ruby on which it can crash.
    pub since_ruby: RubyVersion,
    /// What it keeps where the GC cannot see it.
    pub keeps: &'static str,
    /// The class of all hidden objects, where that is known exactly and tested: they can be pinned then.
    pub hidden_class: Option<&'static str>,
    /// Where the defect is described, as `owner/repository#number` on GitHub.
    pub source: &'static str,
}

/// All that are known. redcarpet was tested (`crates/carat/tests/it/extensions.rs`, with Debian's packages): on Ruby 2.7 and
/// 3.1 with 3.5.1 nothing breaks, because its `Markdown` objects hold the renderer in an instance variable, and those of
/// such objects pin what they refer to there; on Ruby 3.3 with 3.6.0 they do not. Ruby 3.2 is untested. The runtime reports a row by its place, so new ones go to the end.
pub const UNFIT_EXTENSIONS: &[UnfitExtension] = &[
    UnfitExtension {
        gem: "bson",
        library: "bson_native",
        fixed_in: Some("5.0.2"),
        since_ruby: V2_7,
        keeps: "modules and classes in C variables; since 4.9.2 only `SecureRandom`, for new object ids",
        hidden_class: None,
        source: "mongodb/bson-ruby#202, mongodb/bson-ruby#341",
    },
    UnfitExtension {
        gem: "ffi",
        library: "ffi_c",
        fixed_in: Some("1.12.2"),
        since_ruby: V2_7,
        keeps: "the fields of a struct's layout",
        hidden_class: None,
        source: "ffi/ffi#742",
    },
    UnfitExtension {
        gem: "hamlit",
        library: "hamlit",
        fixed_in: Some("2.14.4"),
        since_ruby: V2_7,
        keeps: "strings and modules in C variables",
        hidden_class: None,
        source: "k0kubun/hamlit#171, k0kubun/hamlit#177",
    },
    UnfitExtension {
        gem: "pg",
        library: "pg_ext",
        fixed_in: Some("1.2.3"),
        since_ruby: V2_7,
        keeps: "coders and type maps",
        hidden_class: None,
        source: "ged/ruby-pg#327, ged/ruby-pg#328",
    },
    UnfitExtension {
        gem: "redcarpet",
        library: "redcarpet",
        fixed_in: None,
        since_ruby: V3_2,
        keeps: "the renderer itself, which it calls while rendering if a subclass overrides a method",
        hidden_class: Some("Redcarpet::Render::Base"),
        source: "vmg/redcarpet#806",
    },
    UnfitExtension {
        gem: "semian",
        library: "semian",
        fixed_in: Some("0.11.0"),
        since_ruby: V2_7,
        keeps: "classes in C variables",
        hidden_class: None,
        source: "Shopify/semian#275",
    },
];

/// A version in one number: 16 bits each for its first three numbers. Larger numbers count as 65,535.
pub fn pack_version(numbers: [u64; 3]) -> u64 {
    numbers.iter().fold(0, |packed, number| packed << 16 | number.min(&0xffff))
}

pub fn version_text(packed: u64) -> String {
    [32, 16, 0].map(|shift| (packed >> shift & 0xffff).to_string()).join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_version_is_packed_and_shown() {
        for (numbers, text) in
            [([3, 5, 1], "3.5.1"), ([0, 0, 0], "0.0.0"), ([1, 70_000, 2], "1.65535.2")]
        {
            assert_eq!(version_text(pack_version(numbers)), text);
        }
    }

    #[test]
    fn every_extension_has_a_name_a_source_and_a_version_that_can_be_compared() {
        let names: BTreeSet<&str> =
            UNFIT_EXTENSIONS.iter().map(|extension| extension.gem).collect();
        assert_eq!(names.len(), UNFIT_EXTENSIONS.len());
        for extension in UNFIT_EXTENSIONS {
            assert!(!extension.keeps.is_empty() && extension.source.contains('#'), "{extension:?}");
            let parts = extension.fixed_in.unwrap_or("1.0").split('.');
            assert!(parts.into_iter().all(|part| part.parse::<u32>().is_ok()), "{extension:?}");
        }
    }
}
