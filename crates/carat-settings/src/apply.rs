//! What chosen settings mean for the start of a server: pure, so that `exec` and a trial do the same.

use crate::allocator::allocator_of;
use crate::catalogue::{self, AllocatorChoice, PreloadedAllocator};
use crate::chosen::Settings;
use crate::environment::{ApplyError, Environment, EnvironmentBuilder, StartContext};
use crate::setting::ChosenSetting;
use carat_ruby::RubyVersion;
use carat_wire::page::Word;
use std::path::Path;

impl Settings {
    /// What these settings mean for the start of a server.
    pub fn environment(&self, context: &StartContext<'_>) -> Result<Environment, ApplyError> {
        self.check_requirements()?;
        let variables = self.variables().map(|(name, value)| (name.into(), value.into())).collect();
        let root = self.root().unwrap_or(Path::new("/"));
        let mut server = EnvironmentBuilder::new(context, root, variables);
        // Only a warning: which malloc will serve is a forecast here.
        self.warn_of_other_mallocs(&mut server);
        self.left_undone().for_each(|undone| server.warn(undone.to_owned()));
        // In the order of the catalogue: a setting may look at what an earlier one has set.
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
        self.chosen().try_for_each(|setting| setting.check_ruby(ruby))
    }

    fn check_requirements(&self) -> Result<(), ApplyError> {
        for setting in self.chosen().filter(|setting| !setting.is_default()) {
            let name = setting.definition.name;
            // Refused rather than ignored: alone it has no effect, and a trial of it would show none.
            if let Some((required, example)) = setting.definition.requires
                && !self.is_chosen(required)
            {
                return Err(ApplyError::Requires { name, required, example });
            }
        }
        Ok(())
    }

    fn warn_of_other_mallocs(&self, server: &mut EnvironmentBuilder<'_>) {
        let Some(serving) = self.malloc_at_start(server) else { return };
        for setting in self.chosen().filter(|setting| !setting.is_default()) {
            if let Some(malloc) = setting.definition.malloc
                && !serving.contains(malloc.name())
            {
                let (name, owner) = (setting.definition.name, malloc.name());
                server.warn(format!(
                    "`{name}` is a setting of {owner}'s malloc and does nothing under {serving}"
                ));
            }
        }
    }

    /// The malloc that will serve, in words: the preloaded one, or that with which the Ruby is linked; `None` if unknown.
    fn malloc_at_start(&self, server: &EnvironmentBuilder<'_>) -> Option<String> {
        let chosen = self.get::<PreloadedAllocator>();
        // `system` takes out what others preload: the Ruby's own serves then.
        let is_system = chosen == Some(&AllocatorChoice::System);
        if let Some(chosen) = chosen.filter(|_| !is_system) {
            return Some(chosen.to_string());
        }
        let preloaded = server.current("LD_PRELOAD").filter(|_| !is_system).unwrap_or_default();
        // The loader searches preloaded libraries in their order, so the first serves (ld.so(8)).
        let inherited = preloaded.split([':', ' ']).find_map(|path| allocator_of(Path::new(path)));
        if let Some(inherited) = inherited {
            return Some(format!("{inherited}, which LD_PRELOAD names"));
        }
        // Last: preloaded libraries are searched before those with which a program is linked (ld.so(8)).
        let linked = server.context.linked?.name();
        Some(format!("{linked}, with which this Ruby is linked"))
    }
}

impl ChosenSetting {
    /// Whether this value has an effect on this version of Ruby.
    ///
    /// # Errors
    /// [`ApplyError::OtherRuby`] if it has none.
    pub fn check_ruby(&self, ruby: RubyVersion) -> Result<(), ApplyError> {
        // Of this value, because a value can need a later Ruby than its setting.
        let versions = self.definition.versions_of(&self.text());
        if self.is_default() || versions.contains(ruby) {
            return Ok(());
        }
        let hint = catalogue::successor_on(self.definition, ruby).map_or_else(
            || "; leave it out".to_owned(),
            |successor| format!("; its successor is `{successor}`"),
        );
        Err(ApplyError::OtherRuby { setting: self.to_string(), ruby, versions, hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{ElfKind, read_elf};
    use crate::environment::Scrub;
    use carat_wire::env;
    use carat_wire::page::AllocatorKind;

    const SELF: &str = "/proc/self/exe";

    fn applied(pairs: &[&str], inherited: &[(&str, &str)]) -> Result<Environment, ApplyError> {
        applied_to(read_elf(Path::new(SELF)).expect("readable"), pairs, inherited)
    }

    fn applied_to(
        ruby: Option<ElfKind>,
        pairs: &[&str],
        inherited: &[(&str, &str)],
    ) -> Result<Environment, ApplyError> {
        applied_on(Some(AllocatorKind::Glibc), ruby, pairs, inherited)
    }

    fn applied_on(
        linked: Option<AllocatorKind>,
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
            linked,
            stack_limit: Some(8 << 20),
        })
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
    fn the_systems_malloc_takes_allocators_out_of_what_is_preloaded_and_keeps_the_rest() {
        for (inherited, left) in [
            ("/usr/lib/libjemalloc.so.2", Some("")),
            ("libjemalloc.so.2", Some("")),
            ("/a.so:/usr/lib/libjemalloc.so.2 /b.so:libtcmalloc_minimal.so.4", Some("/a.so:/b.so")),
            ("/a.so", None),
            ("", None),
        ] {
            for (pair, inherited_as) in
                [(None, "LD_PRELOAD"), (Some(format!("env.LD_PRELOAD={inherited}")), "OTHER")]
            {
                if pair.is_some() && inherited.is_empty() {
                    continue;
                }
                let pairs: Vec<&str> =
                    pair.as_deref().into_iter().chain(["allocator=system"]).collect();
                let made = applied(&pairs, &[(inherited_as, inherited)]).expect("applies");
                let unchanged = pair.is_some().then_some(inherited);
                let found = made.set.get("LD_PRELOAD").map(String::as_str);
                assert_eq!(found, left.or(unchanged), "{pairs:?} {inherited}");
                assert_eq!(made.warnings.len(), usize::from(left.is_some()), "{:?}", made.warnings);
            }
        }
        let preloaded = [("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")];
        let made = applied(&["allocator=system", "arena_max=2"], &preloaded).expect("applies");
        assert!(made.warnings.iter().all(|one| !one.contains("arena_max")), "{:?}", made.warnings);
    }

    #[test]
    fn a_tunable_that_glibc_would_prefer_to_a_setting_is_removed_and_others_stay() {
        let (own, other) = ("glibc.malloc.arena_max=8", "glibc.malloc.mxfast=0");
        for (pairs, inherited, left) in [
            (&["arena_max=2"][..], own.to_owned(), Some("")),
            (&["arena_max=2"], format!("{own}:{other}:{own}"), Some(other)),
            (&["arena_max=2"], other.to_owned(), None),
            (&["malloc.top_pad=64k"], own.to_owned(), None),
            (&["malloc_conf=narenas:1"], own.to_owned(), None),
            (
                &["arena_max=2", "malloc.tcache_count=0"],
                own.to_owned(),
                Some("glibc.malloc.tcache_count=0"),
            ),
        ] {
            let made = applied(pairs, &[("GLIBC_TUNABLES", &inherited)]).expect("applies");
            assert_eq!(made.set.get("GLIBC_TUNABLES").map(String::as_str), left, "{pairs:?}");
            let is_said = made.warnings.iter().any(|warning| warning.contains(own));
            assert_eq!(is_said, left.is_some() && inherited.contains(own), "{:?}", made.warnings);
        }
    }

    #[test]
    fn a_default_is_known_however_it_is_written() {
        for (pair, is_default) in [
            ("gc.malloc_limit=16m", true),
            ("gc.malloc_limit=16777216", true),
            ("gc.malloc_limit=16384k", true),
            ("gc.malloc_limit=16385k", false),
            ("gc.free_slots_min_ratio=0.2", true),
            ("vm_stack=1024k", true),
            // Once it is set, the thresholds do not grow any more.
            ("malloc.top_pad=128k", false),
            ("trim=off", true),
        ] {
            let settings = Settings::from_pairs([pair]).unwrap();
            assert_eq!(settings.chosen().all(|one| one.is_default()), is_default, "{pair}");
        }
    }

    #[test]
    fn a_compiler_is_kept_off_without_a_variable_unless_the_user_has_set_it() {
        for (inherited, expected) in
            [(&[][..], None), (&[("RUBY_YJIT_ENABLE", "1")][..], Some("0"))]
        {
            let made = applied(&["yjit=off"], inherited).unwrap();
            assert_eq!(made.set.get("RUBY_YJIT_ENABLE").map(String::as_str), expected);
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
            ("gc.init_slots=20000", "4.1", Some("its successor is `gc.heap_init_bytes`")),
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
            (&["yjit=off"], Some("yjit=off")),
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
    fn a_setting_of_malloc_is_warned_about_unless_its_malloc_will_serve() {
        use AllocatorKind::{Glibc, Jemalloc, Musl};
        let preloaded = [("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")];
        for (linked, pair, inherited, warned) in [
            (Some(Glibc), "arena_max=2", &[][..], None),
            (Some(Jemalloc), "arena_max=2", &[], Some("jemalloc, with which this Ruby is linked")),
            (Some(Jemalloc), "malloc_conf=narenas:1", &[], None),
            (Some(Musl), "malloc.tcache_count=0", &[], Some("musl, with which")),
            (Some(Glibc), "malloc_conf=narenas:1", &preloaded, None),
            (Some(Glibc), "arena_max=2", &preloaded, Some("jemalloc, which LD_PRELOAD names")),
            // Nothing is said about a program that is not known.
            (None, "arena_max=2", &[], None),
            (None, "malloc_conf=narenas:1", &[], None),
        ] {
            let made = applied_on(linked, None, &[pair], inherited).expect("applies");
            let found = made.warnings.first().map(String::as_str);
            let fits = match (warned, found) {
                (Some(warned), Some(found)) => found.contains(warned),
                (warned, found) => warned == found,
            };
            assert!(fits, "{linked:?} {pair} {inherited:?}: {found:?}");
        }
    }

    #[test]
    fn settings_that_have_no_effect_together_are_warned_about() {
        for (pairs, part) in [
            (
                &["allocator=jemalloc", "arena_max=2"][..],
                "`arena_max` is a setting of glibc's malloc",
            ),
            (
                &["malloc_conf=narenas:2"],
                "does nothing under glibc, with which this Ruby is linked",
            ),
        ] {
            let made = applied(pairs, &[]).expect("applies");
            assert!(
                made.warnings.iter().any(|warning| warning.contains(part)),
                "{:?}",
                made.warnings
            );
        }
        let again = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/proc/self/exe:/a.so")]);
        assert_eq!(again.expect("applies").set["LD_PRELOAD"], "/proc/self/exe:/a.so");
        let two = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/lib/libtcmalloc.so.4")]);
        assert_eq!(two.expect("applies").warnings.len(), 1);
    }
}
