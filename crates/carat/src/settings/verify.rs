//! Whether settings took effect in a process, from what the kernel and the runtime say about it.

use crate::settings::apply::Environment;
use crate::settings::catalogue::{CATALOGUE, Route, Setting};
use crate::settings::chosen::Settings;
use carat_wire::page::{PageReading, RUNTIME_SETTINGS, Runtime};
use std::path::Path;

/// What can be seen of a process; each may be missing.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    /// `/proc/PID/maps`.
    pub maps: Option<&'a str>,
    /// `/proc/PID/environ`.
    pub environ: Option<&'a [u8]>,
    /// `/proc/PID/status`.
    pub status: Option<&'a str>,
    /// Its shared page.
    pub page: Option<&'a PageReading>,
}

/// Whether one setting took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Took {
    /// It did, by this evidence.
    Yes(String),
    /// It acts only at a moment that has not come.
    NotYet(String),
    /// It did not, for this reason.
    No(String),
    /// Nothing says.
    Unknown(String),
}

/// One setting and whether it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `name=value`.
    pub setting: String,
    /// Whether it took.
    pub took: Took,
}

/// Checks every chosen setting that is not its default.
pub fn verify(settings: &Settings, applied: &Environment, seen: &Seen<'_>) -> Vec<Check> {
    let chosen = CATALOGUE.iter().filter(|setting| settings.asks_for(setting.name));
    let of_the_catalogue = chosen.map(|setting| {
        let value = settings.value(setting.name).unwrap_or_default();
        Check {
            setting: format!("{}={value}", setting.name),
            took: check(setting, value, applied, seen),
        }
    });
    let variables = settings.variables().map(|(name, value)| Check {
        setting: format!("env.{name}={value}"),
        took: in_environment(name, value, seen),
    });
    of_the_catalogue.chain(variables).collect()
}

fn check(setting: &Setting, value: &str, applied: &Environment, seen: &Seen<'_>) -> Took {
    match (setting.route, setting.name, value) {
        (_, "arena_max", _) => arenas_are_capped(value, seen),
        (Route::Variable(variable), ..) => in_environment(variable, value, seen),
        (Route::Tunable(tunable), ..) => {
            let all = applied.set.get("GLIBC_TUNABLES").map_or("", String::as_str);
            debug_assert!(all.contains(tunable));
            in_environment("GLIBC_TUNABLES", all, seen)
        }
        (Route::Preload, ..) => is_mapped(applied, seen),
        (_, "thp", _) => huge_pages(value, seen),
        (_, "yjit", "on") => in_environment("RUBY_YJIT_ENABLE", "1", seen),
        (_, "yjit", _) | (Route::Runtime, ..) => the_runtime_says(setting.name, seen),
        (_, "ruby", _) => {
            let path = applied.set.get("PATH").map_or("", String::as_str);
            in_environment("PATH", path, seen)
        }
        _ => Took::Unknown("nothing in the process tells".into()),
    }
}

fn in_environment(name: &str, value: &str, seen: &Seen<'_>) -> Took {
    let Some(environ) = seen.environ else {
        return Took::Unknown("/proc/PID/environ cannot be read".into());
    };
    let wanted = format!("{name}={value}");
    if environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
        Took::Yes(format!("{name} stands in its environment"))
    } else {
        Took::Unknown(format!("{name} is not in /proc/PID/environ; a process title can hide it"))
    }
}

fn is_mapped(applied: &Environment, seen: &Seen<'_>) -> Took {
    let Some(maps) = seen.maps else {
        return Took::Unknown("/proc/PID/maps cannot be read".into());
    };
    let Some(library) = applied.preload.first() else {
        return Took::Unknown("no library was to be preloaded".into());
    };
    // The kernel shows the file behind a link.
    let real = std::fs::canonicalize(library).unwrap_or_else(|_| library.clone());
    let mapped = |path: &Path| maps.lines().any(|line| line.ends_with(&path.display().to_string()));
    if mapped(&real) || mapped(library) {
        Took::Yes(format!("{} is mapped", real.display()))
    } else {
        Took::No(format!(
            "{} is not mapped; the loader ignores preloads of setuid, static and foreign programs",
            library.display()
        ))
    }
}

fn arenas_are_capped(value: &str, seen: &Seen<'_>) -> Took {
    let Some(maps) = seen.maps else {
        return Took::Unknown("/proc/PID/maps cannot be read".into());
    };
    // The main arena is the heap that brk grows; every other one is a mapping of its own.
    let arenas = 1 + secondary_arenas(maps);
    match value.parse::<usize>() {
        Ok(most) if arenas <= most => Took::Yes(format!("{arenas} of at most {most} arenas")),
        _ => Took::No(format!("{arenas} arenas are mapped; is the variable scrubbed on the way?")),
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

fn huge_pages(value: &str, seen: &Seen<'_>) -> Took {
    let enabled = seen
        .status
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("THP_enabled:")))
        .map(str::trim);
    match (enabled, value) {
        (Some("1"), "on") | (Some("0"), "off") => Took::Yes("/proc/PID/status says so".into()),
        (Some(_), _) => Took::No("/proc/PID/status says otherwise".into()),
        (None, _) => Took::Unknown("this kernel does not tell".into()),
    }
}

fn the_runtime_says(name: &str, seen: &Seen<'_>) -> Took {
    let Some(page) = seen.page else {
        return Took::No("no Ruby of this tree has loaded carat's libraries".into());
    };
    let Some(bit) = RUNTIME_SETTINGS.iter().position(|known| *known == name) else {
        return Took::Unknown("the runtime does not tell".into());
    };
    let is_set = |word| page.runtime.get(word).is_some_and(|bits| bits & 1 << bit != 0);
    if is_set(Runtime::Applied) {
        Took::Yes("the runtime says so".into())
    } else if is_set(Runtime::Refused) {
        Took::No("the runtime could not; its reason is on the server's stderr".into())
    } else {
        Took::NotYet(match name {
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

    fn took(pair: &str, seen: &Seen<'_>) -> Took {
        let settings = Settings::from_pairs([pair]).unwrap();
        let applied = Environment {
            preload: vec!["/usr/lib/libjemalloc.so.2".into()],
            set: BTreeMap::from([("PATH".to_owned(), "/r/bin".to_owned())]),
            ..Environment::default()
        };
        verify(&settings, &applied, seen).remove(0).took
    }

    #[test]
    fn what_took_and_what_did_not_is_told_apart() {
        let seen = Seen {
            maps: Some(MAPS),
            environ: Some(b"RUBY_GC_MALLOC_LIMIT=1048576\0A=b\0"),
            status: Some("Name:\truby\nTHP_enabled:\t0\n"),
            page: None,
        };
        for (pair, word) in [
            ("allocator=jemalloc", "Yes"),
            ("arena_max=2", "Yes"),
            ("arena_max=1", "No"),
            ("gc.malloc_limit=1m", "Yes"),
            ("gc.malloc_limit=2m", "Unknown"),
            ("env.A=b", "Yes"),
            ("thp=off", "Yes"),
            ("thp=on", "No"),
            ("trim=idle", "No"),
        ] {
            let took = format!("{:?}", took(pair, &seen));
            assert!(took.starts_with(word), "{pair}: {took}");
        }
    }

    #[test]
    fn nothing_seen_is_unknown_and_never_a_no() {
        for pair in ["allocator=jemalloc", "arena_max=2", "gc.malloc_limit=1m", "thp=on"] {
            let took = took(pair, &Seen::default());
            assert!(matches!(took, Took::Unknown(_)), "{pair}: {took:?}");
        }
    }

    #[test]
    fn an_arena_is_told_from_other_anonymous_memory() {
        assert_eq!(secondary_arenas(MAPS), 1);
        assert_eq!(secondary_arenas(""), 0);
    }
}
