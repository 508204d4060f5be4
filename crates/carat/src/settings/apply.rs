//! What chosen settings mean for the start of a server: pure, so that `exec` and a trial do the same.

use crate::settings::catalogue::{AllocatorChoice, PreloadedAllocator};
use crate::settings::chosen::Settings;
use crate::settings::elf::CLibrary;
use crate::settings::environment::{ApplyError, Environment, EnvironmentBuilder, StartContext};
use carat_ruby::RubyVersion;
use carat_wire::page::{AllocatorKind, Word};
use std::path::Path;

impl Settings {
    /// What these settings mean for the start of a server.
    pub fn environment(&self, context: &StartContext<'_>) -> Result<Environment, ApplyError> {
        self.check_requirements()?;
        let variables = self.variables().map(|(name, value)| (name.into(), value.into())).collect();
        let root = self.root().unwrap_or(Path::new("/"));
        let mut server = EnvironmentBuilder::new(context, root, variables);
        self.warn_of_other_mallocs(&mut server);
        for setting in self.chosen() {
            setting.apply(&mut server)?;
        }
        Ok(server.finish())
    }

    /// Whether every chosen value has an effect on this version of Ruby.
    ///
    /// # Errors
    /// [`ApplyError::OtherRuby`] for the first that has none.
    pub fn check_ruby(&self, ruby: RubyVersion) -> Result<(), ApplyError> {
        for setting in self.chosen().filter(|setting| !setting.is_default()) {
            let versions = setting.definition.versions_of(&setting.text());
            if !versions.contains(ruby) {
                let successor = setting.definition.successor.map_or_else(
                    || "; leave it out".to_owned(),
                    |successor| format!("; its successor is `{successor}`"),
                );
                let setting = setting.to_string();
                return Err(ApplyError::OtherRuby { setting, ruby, versions, hint: successor });
            }
        }
        Ok(())
    }

    fn check_requirements(&self) -> Result<(), ApplyError> {
        for setting in self.chosen().filter(|setting| !setting.is_default()) {
            let name = setting.definition.name;
            if let Some((required, example)) = setting.definition.requires
                && !self.is_chosen(required)
            {
                return Err(ApplyError::Requires { name, required, example });
            }
        }
        Ok(())
    }

    fn warn_of_other_mallocs(&self, server: &mut EnvironmentBuilder<'_>) {
        let system = AllocatorChoice::System;
        let allocator = self.get::<PreloadedAllocator>().unwrap_or(&system);
        let ruby = server.context.ruby;
        let has_musl = ruby.is_some_and(|ruby| ruby.c_library == Some(CLibrary::Musl));
        let other = match allocator {
            AllocatorChoice::System if has_musl => "musl, for which this Ruby is built".to_owned(),
            chosen => chosen.to_string(),
        };
        let serves = |malloc| allocator.is(malloc) && !(has_musl && malloc == AllocatorKind::Glibc);
        for setting in self.chosen().filter(|setting| !setting.is_default()) {
            if let Some(malloc) = setting.definition.malloc
                && !serves(malloc)
            {
                let (name, owner) = (setting.definition.name, malloc.name());
                server.warn(format!(
                    "`{name}` is a setting of {owner}'s malloc and does nothing under {other}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::elf::{ElfKind, read_elf};
    use crate::settings::environment::Scrub;
    use carat_wire::env;

    const SELF: &str = "/proc/self/exe";

    fn applied(pairs: &[&str], inherited: &[(&str, &str)]) -> Result<Environment, ApplyError> {
        applied_to(read_elf(Path::new(SELF)).expect("readable"), pairs, inherited)
    }

    fn applied_to(
        ruby: Option<ElfKind>,
        pairs: &[&str],
        inherited: &[(&str, &str)],
    ) -> Result<Environment, ApplyError> {
        applied_on(None, ruby, pairs, inherited)
    }

    fn applied_on(
        version: Option<RubyVersion>,
        ruby: Option<ElfKind>,
        pairs: &[&str],
        inherited: &[(&str, &str)],
    ) -> Result<Environment, ApplyError> {
        let settings = Settings::from_pairs(pairs.iter().copied()).expect("valid settings");
        let find =
            |name: &str| inherited.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        settings.environment(&StartContext {
            runtime: Path::new("/x/carat_runtime.so"),
            find_allocator: &|name| (name == "jemalloc").then(|| SELF.into()),
            inherited: &find,
            scrub: Scrub::Nothing,
            ruby,
            version,
            stack_limit: Some(8 << 20),
        })
    }

    fn with_worker_growth(version: &str) -> Environment {
        applied_on(Some(version.parse().unwrap()), None, &["worker_growth=40000"], &[]).unwrap()
    }

    #[test]
    fn nothing_chosen_changes_nothing() {
        assert_eq!(applied(&[], &[("LD_PRELOAD", "/a.so")]), Ok(Environment::default()));
        assert_eq!(
            applied(&["compact=off", "trim=off", "allocator=system"], &[]),
            Ok(Environment::default())
        );
    }

    #[test]
    fn a_ruby_with_a_heap_for_each_size_keeps_the_empty_pages_of_a_governed_boot() {
        let set = |version: &str| {
            let set = with_worker_growth(version).set;
            ["FREE_SLOTS_MAX_RATIO", "INIT_SLOTS", "FREE_SLOTS"]
                .map(|name| set.contains_key(&format!("RUBY_GC_HEAP_{name}")))
        };
        assert_eq!(
            ["2.7.4", "3.1.2", "3.2.0", "3.3.8", "4.0.5"].map(set),
            [[true; 3], [true; 3], [false; 3], [false; 3], [false; 3]]
        );
    }

    #[test]
    fn the_growth_of_a_worker_is_a_half_where_ruby_counts_slots_of_any_size() {
        let limit = |version: &str| {
            with_worker_growth(version).set["RUBY_GC_HEAP_GROWTH_MAX_SLOTS"].clone()
        };
        assert_eq!(["3.1.2", "3.3.8"].map(limit), ["40000", "40000"]);
        assert_eq!(["3.4.11", "4.0.5"].map(limit), ["20000", "20000"]);
    }

    #[test]
    fn variables_are_set_and_joined_with_what_was_inherited() {
        let inherited = [("LD_PRELOAD", "/a.so"), ("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")];
        for (pair, name, value) in [
            ("arena_max=2", "MALLOC_ARENA_MAX", "2"),
            ("gc.growth_factor=1.1", "RUBY_GC_HEAP_GROWTH_FACTOR", "1.1"),
            ("malloc.top_pad=64k", "MALLOC_TOP_PAD_", "65536"),
            (
                "malloc.tcache_count=0",
                "GLIBC_TUNABLES",
                "glibc.malloc.mxfast=0:glibc.malloc.tcache_count=0",
            ),
            ("allocator=jemalloc", "LD_PRELOAD", "/proc/self/exe:/a.so"),
            ("allocator=/proc/self/exe", "LD_PRELOAD", "/proc/self/exe:/a.so"),
            ("env.A=b", "A", "b"),
            ("yjit=on", "RUBY_YJIT_ENABLE", "1"),
            ("ruby=/opt/ruby/bin/ruby", "PATH", "/opt/ruby/bin"),
        ] {
            let made = applied(&[pair], &inherited).expect(pair);
            assert_eq!(made.set.get(name).map(String::as_str), Some(value), "{pair}");
            assert_eq!(made.set.len(), 1, "{pair}");
            assert!(!made.needs_runtime, "{pair}");
        }
    }

    #[test]
    fn a_setting_that_this_ruby_does_not_have_is_refused_with_its_successor() {
        let version = |text: &str| text.parse::<RubyVersion>().unwrap();
        for (pair, ruby, expected) in [
            (
                "gc.init_slots=20000",
                "3.3",
                Some("it is for Ruby 2.7 to 3.2; its successor is `gc.heap_0_init_slots`"),
            ),
            ("gc.init_slots=20000", "3.2", None),
            ("gc.growth_max_slots=10", "4.1", Some("its successor is `gc.growth_max_bytes`")),
            ("gc.growth_max_bytes=1m", "4.0", Some("it is for Ruby 4.1 and later; leave it out")),
            (
                "compact=auto",
                "2.7",
                Some("`compact=auto` does nothing on Ruby 2.7: it is for Ruby 3.0 and later"),
            ),
            ("compact=boot", "2.7", None),
            ("compact=boot", "5.0", None),
            ("arena_max=2", "2.7", None),
            // The default changes nothing on any Ruby.
            ("zjit=ruby", "3.1", None),
            ("zjit=on", "3.1", Some("it is for Ruby 4.0 and later")),
        ] {
            let settings = Settings::from_pairs([pair]).expect("valid settings");
            let refused = settings.check_ruby(version(ruby)).err().map(|error| error.to_string());
            match (expected, refused) {
                (None, refused) => assert_eq!(refused, None, "{pair} on {ruby}"),
                (Some(text), refused) => {
                    let refused = refused.expect(pair);
                    assert!(refused.contains(text), "{pair} on {ruby}: {refused}");
                }
            }
        }
    }

    #[test]
    fn the_runtime_is_loaded_only_when_a_setting_needs_it() {
        for (pairs, asked) in [
            (&["compact=boot"][..], Some("compact=boot")),
            (&["compact=off", "prepare_fork=warmup"], Some("compact=off;prepare_fork=warmup")),
            (&["yjit=after-fork"], Some("yjit=after-fork")),
            (&["trim=full-gc", "arena_max=2"], Some("trim=full-gc")),
            (&["compact=off"], None),
        ] {
            let made = applied(pairs, &[]).expect("applies");
            assert_eq!(made.set.get(env::SETTINGS).map(String::as_str), asked, "{pairs:?}");
            assert_eq!(made.needs_runtime, asked.is_some(), "{pairs:?}");
            assert_eq!(made.set.contains_key(env::RUNTIME), asked.is_some(), "{pairs:?}");
        }
    }

    #[test]
    fn the_runtime_is_told_which_stack_limit_to_restore() {
        let made = applied(&["main_stack=1m"], &[]).expect("applies");
        assert_eq!(made.main_stack, Some(1 << 20));
        assert_eq!(made.set[env::SETTINGS], "main_stack=1048576:8388608");
        let too_small = Settings::from_pairs(["main_stack=64k"]).unwrap_err().to_string();
        assert!(too_small.contains("at least `512k`"), "{too_small}");
    }

    #[test]
    fn settings_that_cannot_be_applied_are_refused_with_a_remedy() {
        for (pairs, part) in [
            (&["allocator=mimalloc"][..], "apt-get install libmimalloc2.0"),
            (&["allocator=/nowhere/x.so"], "cannot read the library /nowhere/x.so"),
            (&["allocator=/etc/passwd"], "is not a library, but this ruby is 64-bit"),
            (&["allocator=/a b.so"], "contains a space"),
            (&["seal=on"], "prepare_fork = \"warmup\""),
        ] {
            let error = applied(pairs, &[]).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn settings_that_have_no_effect_together_are_warned_about() {
        for (pairs, part) in [
            (
                &["allocator=jemalloc", "arena_max=2"][..],
                "`arena_max` is a setting of glibc's malloc",
            ),
            (&["malloc_conf=narenas:2"], "does nothing under system"),
        ] {
            let made = applied(pairs, &[]).expect("applies");
            assert!(
                made.warnings.iter().any(|warning| warning.contains(part)),
                "{:?}",
                made.warnings
            );
        }
        let musl = read_elf(Path::new(SELF)).unwrap();
        let musl = musl.map(|kind| ElfKind { c_library: Some(CLibrary::Musl), ..kind });
        for pair in ["arena_max=2", "malloc.tcache_count=0"] {
            let made = applied_to(musl, &[pair], &[]).expect("applies");
            let [warning] = made.warnings.as_slice() else { panic!("{:?}", made.warnings) };
            assert!(warning.contains("glibc's malloc and does nothing under musl"), "{warning}");
        }
        let again = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/proc/self/exe:/a.so")]);
        assert_eq!(again.expect("applies").set["LD_PRELOAD"], "/proc/self/exe:/a.so");
        let two = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/lib/libtcmalloc.so.4")]);
        assert_eq!(two.expect("applies").warnings.len(), 1);
    }
}
