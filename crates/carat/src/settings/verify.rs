//! Whether settings took effect in a process, from what the kernel and the runtime say about it.

use crate::settings::apply::Environment;
use crate::settings::catalogue::{CATALOGUE, Mechanism, Setting};
use crate::settings::chosen::Settings;
use carat_wire::page::{PageReading, RUNTIME_SETTINGS, Runtime};
use std::fmt;
use std::path::Path;

/// What can be observed of a process; each may be missing.
#[derive(Debug, Default)]
pub struct ProcessObservation<'a> {
    /// `/proc/PID/maps`.
    pub maps: Option<&'a str>,
    /// `/proc/PID/environ`.
    pub environ: Option<&'a [u8]>,
    /// `/proc/PID/status`.
    pub status: Option<&'a str>,
    /// Its shared page.
    pub page: Option<&'a PageReading>,
}

/// Whether one setting was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingStatus {
    /// It is in effect, by this evidence.
    Applied(String),
    /// It acts only at a moment that has not come yet.
    NotYet(String),
    /// It is not in effect, for this reason.
    NotApplied(String),
    /// Nothing in the process shows it, for this reason.
    Unknown(String),
}

/// One setting and whether it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingCheck {
    /// `name=value`.
    pub setting: String,
    /// Whether it was applied.
    pub status: SettingStatus,
}

impl fmt::Display for SettingCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, reason) = match &self.status {
            SettingStatus::Applied(reason) => ("applied", reason),
            SettingStatus::NotYet(reason) => ("not applied yet", reason),
            SettingStatus::NotApplied(reason) => ("NOT APPLIED", reason),
            SettingStatus::Unknown(reason) => ("cannot be verified", reason),
        };
        write!(f, "{} {status}: {reason}", self.setting)
    }
}

/// Checks every chosen setting that is not its default.
pub fn verify(
    settings: &Settings,
    applied: &Environment,
    observed: &ProcessObservation<'_>,
) -> Vec<SettingCheck> {
    let chosen = CATALOGUE.iter().filter(|setting| settings.is_chosen(setting.name));
    let of_the_catalogue = chosen.map(|setting| {
        let value = settings.value(setting.name).unwrap_or_default();
        SettingCheck {
            setting: format!("{}={value}", setting.name),
            status: check(setting, value, applied, observed),
        }
    });
    let variables = settings.variables().map(|(name, value)| SettingCheck {
        setting: format!("env.{name}={value}"),
        status: in_environment(name, value, observed),
    });
    of_the_catalogue.chain(variables).collect()
}

fn check(
    setting: &Setting,
    value: &str,
    applied: &Environment,
    observed: &ProcessObservation<'_>,
) -> SettingStatus {
    match (setting.mechanism, setting.name, value) {
        (_, "arena_max", _) => arenas_are_capped(value, observed),
        (Mechanism::Variable(variable), ..) => in_environment(variable, value, observed),
        (Mechanism::Tunable(tunable), ..) => {
            let all = applied.set.get("GLIBC_TUNABLES").map_or("", String::as_str);
            debug_assert!(all.contains(tunable));
            in_environment("GLIBC_TUNABLES", all, observed)
        }
        (Mechanism::Preload, ..) => is_mapped(applied, observed),
        (_, "thp", _) => huge_pages(value, observed),
        (_, "yjit", "on") => in_environment("RUBY_YJIT_ENABLE", "1", observed),
        (_, "yjit", _) | (Mechanism::Runtime, ..) => the_runtime_says(setting.name, observed),
        (_, "ruby", _) => {
            let path = applied.set.get("PATH").map_or("", String::as_str);
            in_environment("PATH", path, observed)
        }
        _ => SettingStatus::Unknown("nothing in the process tells".into()),
    }
}

fn in_environment(name: &str, value: &str, observed: &ProcessObservation<'_>) -> SettingStatus {
    let Some(environ) = observed.environ else {
        return SettingStatus::Unknown("/proc/PID/environ cannot be read".into());
    };
    let wanted = format!("{name}={value}");
    if environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
        SettingStatus::Applied(format!("{name} stands in its environment"))
    } else {
        SettingStatus::Unknown(format!(
            "{name} is not in /proc/PID/environ; a process title can hide it"
        ))
    }
}

fn is_mapped(applied: &Environment, observed: &ProcessObservation<'_>) -> SettingStatus {
    let Some(maps) = observed.maps else {
        return SettingStatus::Unknown("/proc/PID/maps cannot be read".into());
    };
    let Some(library) = applied.preload.first() else {
        return SettingStatus::Unknown("no library was to be preloaded".into());
    };
    // The kernel shows the file behind a link.
    let real = std::fs::canonicalize(library).unwrap_or_else(|_| library.clone());
    let mapped = |path: &Path| maps.lines().any(|line| line.ends_with(&path.display().to_string()));
    if mapped(&real) || mapped(library) {
        SettingStatus::Applied(format!("{} is mapped", real.display()))
    } else {
        SettingStatus::NotApplied(format!(
            "{} is not mapped; the loader ignores preloads of setuid, static and foreign programs",
            library.display()
        ))
    }
}

fn arenas_are_capped(value: &str, observed: &ProcessObservation<'_>) -> SettingStatus {
    let Some(maps) = observed.maps else {
        return SettingStatus::Unknown("/proc/PID/maps cannot be read".into());
    };
    // The main arena is the heap that brk grows; every other one is a mapping of its own.
    let arenas = 1 + secondary_arenas(maps);
    match value.parse::<usize>() {
        Ok(most) if arenas <= most => {
            SettingStatus::Applied(format!("{arenas} of at most {most} arenas"))
        }
        _ => SettingStatus::NotApplied(format!(
            "{arenas} arenas are mapped; is the variable scrubbed on the way?"
        )),
    }
}

/// Counts glibc's arenas besides the main one: 64 MiB of address space, aligned to 64 MiB, of which the
/// first part is writable and the rest, if any, is not accessible (malloc/arena.c, `HEAP_MAX_SIZE`).
fn secondary_arenas(maps: &str) -> usize {
    const ARENA: u64 = 64 << 20;
    let ranges: Vec<(u64, u64, &str)> = maps.lines().filter_map(anonymous_range).collect();
    ranges
        .iter()
        .enumerate()
        .filter(|(at, (start, end, access))| {
            let rest = ranges
                .get(at + 1)
                .filter(|(from, _, access)| from == end && access.starts_with("---"));
            let whole = rest.map_or(*end, |(_, to, _)| *to) - start;
            start % ARENA == 0 && access.starts_with("rw-") && whole >= ARENA && rest.is_some()
        })
        .count()
}

/// Start, end and access of a mapping without a file.
fn anonymous_range(line: &str) -> Option<(u64, u64, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?;
    let named = fields.nth(3).is_some();
    let range = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?, access);
    (!named).then_some(range)
}

fn huge_pages(value: &str, observed: &ProcessObservation<'_>) -> SettingStatus {
    let enabled = observed
        .status
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("THP_enabled:")))
        .map(str::trim);
    match (enabled, value) {
        (Some("1"), "on") | (Some("0"), "off") => {
            SettingStatus::Applied("/proc/PID/status says so".into())
        }
        (Some(_), _) => SettingStatus::NotApplied("/proc/PID/status says otherwise".into()),
        (None, _) => SettingStatus::Unknown("this kernel does not tell".into()),
    }
}

fn the_runtime_says(name: &str, observed: &ProcessObservation<'_>) -> SettingStatus {
    let Some(page) = observed.page else {
        return SettingStatus::NotApplied(
            "no Ruby of this tree has loaded carat's libraries".into(),
        );
    };
    let Some(bit) = RUNTIME_SETTINGS.iter().position(|known| *known == name) else {
        return SettingStatus::Unknown("the runtime does not tell".into());
    };
    let is_set = |word| page.runtime.get(word).is_some_and(|bits| bits & 1 << bit != 0);
    if is_set(Runtime::Applied) {
        SettingStatus::Applied("the runtime says so".into())
    } else if is_set(Runtime::Refused) {
        SettingStatus::NotApplied(
            "the runtime could not; its reason is on the server's stderr".into(),
        )
    } else {
        SettingStatus::NotYet(match name {
            "prepare_fork" | "seal" => "no preloaded application has forked yet".into(),
            "compact" => "the server has not finished booting, or has not forked".into(),
            "yjit" => "no worker has been forked yet".into(),
            _ => "the runtime has not begun".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MAPS: &str = "\
55d000000000-55d000021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000021000-7f0004000000 ---p 00000000 00:00 0 
7f0008000000-7f0008100000 rw-p 00000000 00:00 0 
7f0100000000-7f0100010000 r-xp 00000000 08:01 42                         /usr/lib/libjemalloc.so.2
";

    fn status(pair: &str, observed: &ProcessObservation<'_>) -> SettingStatus {
        let settings = Settings::from_pairs([pair]).unwrap();
        let applied = Environment {
            preload: vec!["/usr/lib/libjemalloc.so.2".into()],
            set: BTreeMap::from([("PATH".to_owned(), "/r/bin".to_owned())]),
            ..Environment::default()
        };
        verify(&settings, &applied, observed).remove(0).status
    }

    /// The status without its reason.
    fn word(status: &SettingStatus) -> &'static str {
        match status {
            SettingStatus::Applied(_) => "applied",
            SettingStatus::NotYet(_) => "not yet",
            SettingStatus::NotApplied(_) => "not applied",
            SettingStatus::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn applied_settings_are_told_from_those_that_are_not() {
        let observed = ProcessObservation {
            maps: Some(MAPS),
            environ: Some(b"RUBY_GC_MALLOC_LIMIT=1048576\0A=b\0"),
            status: Some("Name:\truby\nTHP_enabled:\t0\n"),
            page: None,
        };
        for (pair, expected) in [
            ("allocator=jemalloc", "applied"),
            ("arena_max=2", "applied"),
            ("arena_max=1", "not applied"),
            ("gc.malloc_limit=1m", "applied"),
            ("gc.malloc_limit=2m", "unknown"),
            ("env.A=b", "applied"),
            ("thp=off", "applied"),
            ("thp=on", "not applied"),
            ("trim=idle", "not applied"),
        ] {
            let status = status(pair, &observed);
            assert_eq!(word(&status), expected, "{pair}: {status:?}");
        }
    }

    #[test]
    fn without_observations_the_status_is_unknown_and_never_not_applied() {
        for pair in ["allocator=jemalloc", "arena_max=2", "gc.malloc_limit=1m", "thp=on"] {
            let status = status(pair, &ProcessObservation::default());
            assert_eq!(word(&status), "unknown", "{pair}: {status:?}");
        }
    }

    #[test]
    fn an_arena_is_told_from_other_anonymous_memory() {
        assert_eq!(secondary_arenas(MAPS), 1);
        assert_eq!(secondary_arenas(""), 0);
    }
}
