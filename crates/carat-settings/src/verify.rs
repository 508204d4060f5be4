//! Which settings took effect in a process, from what the kernel and the runtime report about it.

use crate::chosen::Settings;
use crate::environment::Environment;
use crate::observation::{ProcessObservation, SettingStatus};
use crate::setting::ChosenSetting;
use carat_model::CLibrary;
use carat_ruby::RubyVersion;
use carat_wire::page::{AllocatorKind, Word};
use std::fmt;

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
            SettingStatus::Applied(reason) => ("applied", reason.as_str()),
            SettingStatus::Assumed => (
                "seems applied",
                "the runtime reports it, and no worker has loaded the application itself so far",
            ),
            SettingStatus::Partly(reason) => ("partly applied", reason.as_str()),
            SettingStatus::NotYet(reason) => ("not applied yet", reason.as_str()),
            SettingStatus::NotForked(reason) => ("not applied yet", *reason),
            SettingStatus::NotApplied(reason) => ("NOT APPLIED", reason.as_str()),
            SettingStatus::NotPreloaded => (
                "NOT APPLIED",
                "workers load the application themselves; preload it (Puma: `preload_app!`, Unicorn: \
                 `preload_app true`)",
            ),
            SettingStatus::Needless => {
                ("not needed", "there is nothing to do for it on this version of Ruby")
            }
            SettingStatus::Unchanged => ("is the default", "carat changes nothing for it"),
            SettingStatus::Unknown(reason) => ("cannot be verified", reason.as_str()),
        };
        write!(f, "{} {status}: {reason}", self.setting)
    }
}

/// Checks every chosen setting in a process that was started with `environment`.
pub fn verify(
    settings: &Settings,
    environment: &Environment,
    process: &ProcessObservation<'_>,
) -> Vec<SettingCheck> {
    let catalogued = settings.chosen().map(|setting| {
        // Under another malloc, or another Ruby, the variable is there and has no effect.
        let own = match setting.definition.malloc {
            Some(malloc) => status_for_malloc(setting, malloc, process, environment),
            None => setting.verify(process, environment),
        };
        SettingCheck {
            setting: setting.to_string(),
            status: status_on_ruby(setting, own, process.ruby),
        }
    });
    // No settings of the catalogue, but a launcher removes them just as easily.
    let variables = settings.variables().map(|(name, value)| SettingCheck {
        setting: format!("env.{name}={value}"),
        status: process.has_given_variable(name, value, environment),
    });
    catalogued.chain(variables).collect()
}

/// The status of a setting that not every Ruby has. What started the server may have been another Ruby, or none.
fn status_on_ruby(
    setting: &ChosenSetting,
    own: SettingStatus,
    ruby: Option<RubyVersion>,
) -> SettingStatus {
    match (own, ruby.map(|ruby| setting.check_ruby(ruby))) {
        (own @ (SettingStatus::Unchanged | SettingStatus::Needless), _)
        | (own, None | Some(Ok(()))) => own,
        (_, Some(Err(refused))) => SettingStatus::NotApplied(refused.to_string()),
    }
}

/// The status of a setting that only one malloc reads: it has no effect where another one serves.
fn status_for_malloc(
    setting: &ChosenSetting,
    malloc: AllocatorKind,
    process: &ProcessObservation<'_>,
    environment: &Environment,
) -> SettingStatus {
    let own = setting.verify(process, environment);
    if own == SettingStatus::Unchanged {
        return own;
    }
    let serving = process.malloc.map(|serving| serving.kind);
    match serving.or_else(|| process.maps.filter(|maps| is_musl(maps)).map(|_| AllocatorKind::Musl))
    {
        Some(serving) if serving == malloc => own,
        // The variable alone would say applied, which only its own malloc makes true.
        Some(AllocatorKind::Other) | None => match own {
            SettingStatus::Applied(reason) => SettingStatus::Unknown(format!(
                "{reason}, but whether {}'s malloc serves this process is unknown",
                malloc.name()
            )),
            other => other,
        },
        Some(serving) => SettingStatus::NotApplied(format!(
            "{}'s malloc serves this process, which does not read it",
            serving.name()
        )),
    }
}

/// Whether a process with these mappings has musl.
fn is_musl(maps: &str) -> bool {
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    files.any(|file| CLibrary::of(file) == Some(CLibrary::Musl))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::observation::MallocInUse;
    use carat_ruby::version::{V3_2, V3_3, V4_1};
    use std::collections::BTreeMap;

    pub(crate) const MAPS: &str = "\
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
    pub(crate) fn word(status: &SettingStatus) -> &'static str {
        match status {
            SettingStatus::Applied(_) => "applied",
            SettingStatus::Assumed => "assumed",
            SettingStatus::Partly(_) => "partly",
            SettingStatus::NotYet(_) | SettingStatus::NotForked(_) => "not yet",
            SettingStatus::NotApplied(_) => "not applied",
            SettingStatus::NotPreloaded => "not preloaded",
            SettingStatus::Needless => "needless",
            SettingStatus::Unchanged => "unchanged",
            SettingStatus::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn applied_settings_are_told_from_those_that_are_not() {
        let observed = ProcessObservation {
            maps: Some(MAPS),
            environ: Some(b"RUBY_GC_MALLOC_LIMIT=1048576\0MALLOC_ARENA_MAX=2\0A=b\0"),
            status: Some("Name:\truby\nTHP_enabled:\t0\n"),
            malloc: serving(AllocatorKind::Glibc),
            ..ProcessObservation::default()
        };
        for (pair, expected) in [
            ("malloc_conf=narenas:1", "not applied"),
            ("arena_max=2", "applied"),
            ("arena_max=1", "not applied"),
            ("gc.malloc_limit=1m", "applied"),
            ("gc.malloc_limit=2m", "not applied"),
            // The default, whose variable was lost.
            ("gc.malloc_limit=16m", "not applied"),
            ("allocator=system", "applied"),
            ("trim=off", "unchanged"),
            ("calloc_arena=off", "unchanged"),
            ("env.A=b", "applied"),
            ("thp=off", "applied"),
            ("thp=on", "not applied"),
            ("trim=idle", "not applied"),
        ] {
            let status = status(pair, &observed);
            assert_eq!(word(&status), expected, "{pair}: {status:?}");
        }
    }

    fn serving(kind: AllocatorKind) -> Option<MallocInUse<'static>> {
        Some(MallocInUse { kind, file: "/usr/lib/libc.so.6" })
    }

    #[test]
    fn a_setting_of_malloc_is_applied_only_where_its_malloc_serves() {
        let environ = b"MALLOC_CONF=narenas:1\0MALLOC_TOP_PAD_=65536\0MALLOC_ARENA_MAX=2\0";
        let statuses = |malloc| {
            let observed = ProcessObservation {
                maps: Some(MAPS),
                environ: Some(environ),
                malloc,
                ..ProcessObservation::default()
            };
            let pairs = ["malloc_conf=narenas:1", "malloc.top_pad=64k", "arena_max=2"];
            pairs.map(|pair| word(&status(pair, &observed)))
        };
        let not = "not applied";
        assert_eq!(statuses(serving(AllocatorKind::Jemalloc)), ["applied", not, not]);
        assert_eq!(statuses(serving(AllocatorKind::Glibc)), [not, "applied", "applied"]);
        assert_eq!(statuses(serving(AllocatorKind::Mimalloc)), [not; 3]);
        assert_eq!(statuses(None), ["unknown"; 3]);
    }

    #[test]
    fn a_variable_that_the_serving_ruby_does_not_read_is_not_applied() {
        let environ = b"RUBY_GC_HEAP_INIT_SLOTS=600000\0RUBY_GC_HEAP_0_INIT_SLOTS=9000\0\
            RUBY_GC_HEAP_GROWTH_MAX_SLOTS=9000\0";
        let pairs =
            ["gc.init_slots=600000", "gc.heap_0_init_slots=9000", "gc.growth_max_slots=9000"];
        for (ruby, expected) in [
            (V3_2, ["applied", "not applied", "applied"]),
            (V3_3, ["not applied", "applied", "applied"]),
            (V4_1, ["not applied"; 3]),
        ] {
            let observed = ProcessObservation {
                environ: Some(environ),
                ruby: Some(ruby),
                ..ProcessObservation::default()
            };
            assert_eq!(pairs.map(|pair| word(&status(pair, &observed))), expected, "{ruby}");
        }
        let observed = ProcessObservation { ruby: Some(V3_3), ..ProcessObservation::default() };
        let said = status(pairs[0], &observed);
        assert_eq!(
            said,
            SettingStatus::NotApplied(
                "`gc.init_slots=600000` does nothing on Ruby 3.3: it is for Ruby 2.7 to 3.2; its successor is \
                 `gc.heap_0_init_slots`"
                    .into()
            )
        );
    }

    #[test]
    fn a_variable_of_the_user_is_applied_also_where_others_are_joined_with_it() {
        let settings =
            Settings::from_pairs(["env.RUBYOPT=-W0 -d", "env.LD_PRELOAD=/own.so"]).unwrap();
        let joined = "/usr/lib/libjemalloc.so.2:/own.so";
        let environment = Environment {
            set: BTreeMap::from([
                ("LD_PRELOAD".to_owned(), joined.to_owned()),
                ("RUBYOPT".to_owned(), "-W0 -d".to_owned()),
            ]),
            ..Environment::default()
        };
        for (options, libraries, expected) in [
            ("-W0 -d -r/cache/carat_shim.rb", joined, ["applied"; 2]),
            ("-W0 -r/cache/carat_shim.rb", "/usr/lib/libjemalloc.so.2", ["not applied"; 2]),
        ] {
            let environ = format!("RUBYOPT={options}\0LD_PRELOAD={libraries}\0");
            let observed =
                ProcessObservation { environ: Some(environ.as_bytes()), ..Default::default() };
            let mut checks = verify(&settings, &environment, &observed);
            checks.sort_by_key(|check| check.setting.len());
            let words: Vec<&str> = checks.iter().map(|check| word(&check.status)).collect();
            assert_eq!(words, expected, "{environ}: {checks:?}");
        }
    }

    #[test]
    fn settings_of_glibcs_malloc_are_not_applied_in_a_process_with_musl() {
        for library in ["/lib/ld-musl-x86_64.so.1", "/usr/lib/x86_64-linux-musl/libc.so"] {
            let maps =
                format!("{MAPS}7f0200000000-7f0200010000 r-xp 00000000 08:01 43 {library}\n");
            let environ = b"MALLOC_TRIM_THRESHOLD_=262144\0RUBY_GC_MALLOC_LIMIT=1048576\0";
            let observed = ProcessObservation {
                maps: Some(&maps),
                environ: Some(environ),
                ..ProcessObservation::default()
            };
            for (pair, expected) in [
                ("arena_max=2", "not applied"),
                ("malloc.trim_threshold=256k", "not applied"),
                ("gc.malloc_limit=1m", "applied"),
            ] {
                assert_eq!(word(&status(pair, &observed)), expected, "{pair} {library}");
            }
        }
    }

    #[test]
    fn without_observations_the_status_is_unknown_and_never_not_applied() {
        for pair in ["allocator=jemalloc", "arena_max=2", "gc.malloc_limit=1m", "thp=on"] {
            let status = status(pair, &ProcessObservation::default());
            assert_eq!(word(&status), "unknown", "{pair}: {status:?}");
        }
    }
}
