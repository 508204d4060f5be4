//! The options of jemalloc, as `MALLOC_CONF` has them.
//!
//! jemalloc ignores an option whose value it does not accept, and everything after what is not `name:value`
//! (`malloc_conf_next` and `malloc_conf_init` in src/jemalloc.c, 5.2 and 5.3).

use crate::value::SettingValue;
use std::fmt;

/// Options separated by commas, none with a value that jemalloc always refuses.
#[derive(Debug)]
pub(super) struct JemallocOptions(String);

/// The values of an option.
#[derive(Clone, Copy)]
enum Accepts {
    Words(&'static [&'static str]),
    /// A whole number, at least this.
    From(i64),
}

const SWITCH: Accepts = Accepts::Words(&["true", "false"]);

/// The options that jemalloc 5.2 and 5.3 share, except those of its profiler and of its tests.
const OPTIONS: &[(&str, Accepts)] = &[
    ("abort", SWITCH),
    ("abort_conf", SWITCH),
    ("background_thread", SWITCH),
    ("dirty_decay_ms", Accepts::From(-1)),
    ("dss", Accepts::Words(&["disabled", "primary", "secondary"])),
    ("junk", Accepts::Words(&["true", "false", "alloc", "free"])),
    ("lg_extent_max_active_fit", Accepts::From(0)),
    ("lg_tcache_max", Accepts::From(0)),
    ("max_background_threads", Accepts::From(1)),
    ("metadata_thp", Accepts::Words(&["disabled", "auto", "always"])),
    ("muzzy_decay_ms", Accepts::From(-1)),
    ("narenas", Accepts::From(1)),
    ("oversize_threshold", Accepts::From(0)),
    ("percpu_arena", Accepts::Words(&["disabled", "percpu", "phycpu"])),
    ("retain", SWITCH),
    ("stats_print", SWITCH),
    ("tcache", SWITCH),
    ("thp", Accepts::Words(&["default", "always", "never"])),
    ("zero", SWITCH),
];

impl Accepts {
    fn has(self, value: &str) -> bool {
        match self {
            Self::Words(words) => words.contains(&value),
            Self::From(least) => number(value).is_some_and(|number| number >= least),
        }
    }
}

/// A number as C writes it: decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Names and values; `None` where the text has another form.
fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    // One malformed pair is enough to refuse: jemalloc ignores all that follows it.
    text.split(',').map(|pair| pair.split_once(':').filter(|(name, _)| is_name(name))).collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether jemalloc may accept this value; it may if the option is of another version.
fn fits((name, value): (&str, &str)) -> bool {
    // The only option with a number that jemalloc also accepts a word for.
    let is_default = (name, value) == ("narenas", "default");
    is_default || known(name).is_none_or(|accepts| accepts.has(value))
}

fn known(option: &str) -> Option<Accepts> {
    OPTIONS.iter().find(|(name, _)| *name == option).map(|(_, accepts)| *accepts)
}

impl JemallocOptions {
    /// The first option that not every jemalloc has.
    pub(super) fn unknown(&self) -> Option<&str> {
        let mut names = pairs(&self.0)?.into_iter().map(|(name, _)| name);
        names.find(|name| known(name).is_none())
    }
}

impl fmt::Display for JemallocOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SettingValue for JemallocOptions {
    fn parse(text: &str) -> Option<Self> {
        let is_plain = !text.contains(['\0', '\n']);
        let all_fit = text.is_empty() || pairs(text)?.into_iter().all(fits);
        (is_plain && all_fit).then(|| Self(text.to_owned()))
    }

    fn accepted() -> String {
        "options as `name:value,name:value` without spaces, each with a value that jemalloc accepts"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_jemalloc_ignores_are_refused() {
        for (text, accepted) in [
            ("", true),
            ("narenas:2", true),
            ("narenas:0x2,dirty_decay_ms:-1", true),
            ("narenas:default", true),
            ("thp:never,background_thread:true", true),
            ("future_option:x", true),
            ("narenas:x", false),
            ("narenas:0", false),
            ("narenas:2k", false),
            ("dirty_decay_ms:-2", false),
            ("background_thread:yes", false),
            ("narenas", false),
            ("narenas:2,", false),
            ("dirty_decay_ms:1000, narenas:2", false),
            ("percpu_arena:on", false),
        ] {
            assert_eq!(JemallocOptions::parse(text).is_some(), accepted, "{text}");
        }
    }

    #[test]
    fn an_option_that_may_be_of_another_version_is_known_as_such() {
        let unknown = |text| JemallocOptions::parse(text).unwrap().unknown().map(str::to_owned);
        assert_eq!(unknown("narenas:2,tcache_max:4096").as_deref(), Some("tcache_max"));
        assert_eq!(unknown("narenas:1,dirty_decay_ms:500,lg_tcache_max:12"), None);
    }
}
