//! Settings of Ruby's compilers.

use crate::environment::{ApplyError, Environment, EnvironmentBuilder};
use crate::observation::{Moment, ProcessObservation, SettingStatus};
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{Switch, WholeNumber, words};
use carat_ruby::code_room::{CodeRoom, CodeSearch, find_in_maps};
use carat_ruby::version::{RubyVersion, V3_1, V3_3, V4_0};

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<Yjit>(),
    SettingDefinition::of::<YjitExecMem>(),
    SettingDefinition::of::<YjitCallThreshold>(),
    SettingDefinition::of::<YjitCodeGc>(),
    SettingDefinition::of::<Zjit>(),
];

words! {
    /// When Ruby's compiler is enabled.
    YjitStart { Ruby = "ruby", Off = "off", On = "on", AfterFork = "after-fork", }
}

struct Yjit;

/// The variable that enables YJIT from the start.
const YJIT_ENABLE: &str = "RUBY_YJIT_ENABLE";

impl Setting for Yjit {
    type Value = YjitStart;
    const NAME: &'static str = "yjit";
    const DEFAULT: &'static str = "ruby";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Fork };
    const SINCE: Option<RubyVersion> = Some(V3_1);
    const VALUES_SINCE: &'static [(&'static str, RubyVersion)] = &[("after-fork", V3_3)];
    const LEVELS: &'static [&'static str] = &["on"];
    const DOES: &'static str = "Ruby's compiler: as Ruby and the application decide, off also where Rails would enable it, on from the start, or on in each worker after the fork. Rails 7.2 and later enable it themselves before a preloaded server forks, and then `after-fork` is refused unless the application has `config.yjit = false`.";
    const COSTS: &'static str = "For more speed, machine code and several times as much in malloc in every process that compiles for itself ([measured](../evidence/remedies/yjit.md)). What a preloaded server has compiled before it forks stays shared for the most part, so `warm` makes it cheaper and `after-fork` makes it dearer. `off` gives up the speed.";
    const VERIFIED_BY: &'static str = "`on`: compiled code in /proc/PID/maps; `off` and `after-fork`: the runtime's report in the shared page";

    fn needs_runtime(value: &YjitStart) -> bool {
        matches!(value, YjitStart::Off | YjitStart::AfterFork)
    }

    fn apply(value: &YjitStart, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        match value {
            YjitStart::Ruby => {}
            // A variable is enough, so nothing has to be loaded into Ruby.
            YjitStart::On => server.set(YJIT_ENABLE, "1".into()),
            YjitStart::Off => {
                // Only in place of the user's: Ruby 3.1 enables YJIT for any value, also for this one (ruby.c).
                if server.current(YJIT_ENABLE).is_some() {
                    server.set(YJIT_ENABLE, "0".into());
                }
                server.request(Self::NAME, &value.to_string());
            }
            YjitStart::AfterFork => server.request(Self::NAME, &value.to_string()),
        }
        Ok(())
    }

    fn verify(
        value: &YjitStart,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        match value {
            YjitStart::AfterFork => process.runtime_status(Self::NAME, environment, Moment::Fork),
            YjitStart::Off => process.runtime_status(Self::NAME, environment, Moment::Start),
            _ => compiler_status(process),
        }
    }
}

/// Adds an option of YJIT for Ruby, which by itself would enable YJIT too: whether it is enabled is another setting.
fn add_yjit_option(server: &mut EnvironmentBuilder<'_>, option: String) {
    let is_asked_for = |variable: &str, words: &[&str]| {
        let value = server.current(variable).unwrap_or_default();
        value.split_ascii_whitespace().any(|word| words.contains(&word))
    };
    // The yjit setting comes before these in the catalogue.
    let enabled = is_asked_for(YJIT_ENABLE, &["1", "yes", "true"])
        || is_asked_for("RUBYOPT", &["--yjit", "--jit", "--enable=yjit"]);
    server.add_ruby_option(option);
    if !enabled {
        server.add_ruby_option("--yjit-disable".into());
    }
}

/// What the runtime reports of an option of YJIT.
fn option_status(
    name: &str,
    process: &ProcessObservation<'_>,
    environment: &Environment,
) -> SettingStatus {
    let reported = process.runtime_status(name, environment, Moment::Start);
    where_enabled(reported, process)
}

/// The status of an option of YJIT that Ruby has accepted: it does nothing where YJIT is not enabled, which the application may
/// do at any time.
fn where_enabled(accepted: SettingStatus, process: &ProcessObservation<'_>) -> SettingStatus {
    let SettingStatus::Applied(_) = accepted else { return accepted };
    match process.maps.map(find_in_maps) {
        Some(CodeSearch::Found(_)) => accepted,
        Some(CodeSearch::Absent) => SettingStatus::NotYet(
            "Ruby has the option, but no compiled code is mapped: YJIT is not enabled (`yjit=on` enables it), or has compiled nothing".into(),
        ),
        Some(CodeSearch::Unsure) | None => SettingStatus::Unknown(
            "Ruby has the option, but whether YJIT is enabled is unknown".into(),
        ),
    }
}

const OPTION_MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
const OPTION_VERIFIED_BY: &str = "the runtime's report in the shared page that Ruby has the option, and compiled code in /proc/PID/maps: without it YJIT is not enabled, or has compiled nothing";

/// Lets YJIT throw code away.
const CODE_GC: &str = "--yjit-code-gc";

/// Whether a process throws code away when its addresses are used up. By itself no Ruby from 3.3 on does (yjit/src/options.rs).
fn throws_code_away(process: &ProcessObservation<'_>, environment: &Environment) -> bool {
    let own = process.variable("RUBYOPT").unwrap_or_default();
    environment.ruby_options.iter().any(|option| option == CODE_GC)
        || own.split_ascii_whitespace().any(|option| option == CODE_GC)
}

/// The least that has room for the code of a small application, of which measured ones had 2 to 3 MiB.
const LEAST_CODE_MIB: u64 = 4;

struct YjitExecMem;

impl Setting for YjitExecMem {
    type Value = WholeNumber<LEAST_CODE_MIB, 2048>;
    const NAME: &'static str = "yjit_exec_mem";
    const DEFAULT: &'static str = "Ruby's own, 48 to 128";
    const MECHANISM: Mechanism = OPTION_MECHANISM;
    const SINCE: Option<RubyVersion> = Some(V3_3);
    const LEVELS: &'static [&'static str] = &["16"];
    const DOES: &'static str = "MiB of addresses for YJIT's machine code (`--yjit-exec-mem-size`), wherever YJIT is enabled. Only pages with code take memory, so a limit above the code changes nothing.";
    const COSTS: &'static str = "A limit below what the application needs: once the code has reached it, Ruby compiles nothing more without a word, and what is not compiled by then runs as without YJIT. Less than 4 is refused for this.";
    const VERIFIED_BY: &'static str =
        "the addresses reserved for code in /proc/PID/maps, and whether code has filled them";

    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        add_yjit_option(server, format!("--yjit-exec-mem-size={value}"));
        server.request(Self::NAME, &value.to_string());
        Ok(())
    }

    fn verify(
        value: &Self::Value,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        let (bytes, opened) = match process.maps.map(find_in_maps) {
            Some(CodeSearch::Found(CodeRoom { reserved: Some(bytes), opened, .. })) => {
                (bytes, opened)
            }
            Some(CodeSearch::Unsure) if process.runtime.is_none() => {
                return SettingStatus::Unknown(
                    "several reservations could be that of Ruby's compiler".into(),
                );
            }
            _ => return option_status(Self::NAME, process, environment),
        };
        if bytes != value.0 << 20 {
            SettingStatus::NotApplied(format!(
                "{} MiB of addresses are reserved for compiled code",
                bytes >> 20
            ))
        } else if opened == bytes && !throws_code_away(process, environment) {
            SettingStatus::Partly(
                "compiled code has filled all of it, so that nothing more is compiled; a larger value compiles more".into(),
            )
        } else {
            SettingStatus::Applied("as many addresses are reserved for compiled code".into())
        }
    }
}

struct YjitCallThreshold;

impl Setting for YjitCallThreshold {
    type Value = WholeNumber<1, 1_000_000>;
    const NAME: &'static str = "yjit_call_threshold";
    const DEFAULT: &'static str = "30, of large applications 120";
    const MECHANISM: Mechanism = OPTION_MECHANISM;
    const SINCE: Option<RubyVersion> = Some(V3_3);
    const LEVELS: &'static [&'static str] = &["5", "100"];
    const DOES: &'static str = "The call of a method at which YJIT compiles it (`--yjit-call-threshold`), wherever YJIT is enabled.";
    const COSTS: &'static str = "A small number compiles what is hardly ever called, which takes memory; a large one begins later.";
    const VERIFIED_BY: &'static str = OPTION_VERIFIED_BY;

    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        add_yjit_option(server, format!("--yjit-call-threshold={value}"));
        server.request(Self::NAME, &value.to_string());
        Ok(())
    }

    fn verify(
        _: &Self::Value,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        option_status(Self::NAME, process, environment)
    }
}

struct YjitCodeGc;

impl Setting for YjitCodeGc {
    type Value = Switch;
    const NAME: &'static str = "yjit_code_gc";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = OPTION_MECHANISM;
    const SINCE: Option<RubyVersion> = Some(V3_3);
    const LEVELS: &'static [&'static str] = &["on"];
    const DOES: &'static str = "Lets YJIT throw away code that does not run when its addresses are used up (`--yjit-code-gc`), wherever YJIT is enabled, instead of compiling nothing more.";
    const COSTS: &'static str =
        "A pause when that happens, and what is still needed is compiled once more.";
    const VERIFIED_BY: &'static str = OPTION_VERIFIED_BY;

    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        if *value == Switch::On {
            add_yjit_option(server, CODE_GC.into());
            server.request(Self::NAME, &value.to_string());
        }
        Ok(())
    }

    fn verify(
        _: &Self::Value,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        option_status(Self::NAME, process, environment)
    }
}

words! {
    /// Whether ZJIT is enabled.
    ZjitStart { Ruby = "ruby", On = "on", }
}

struct Zjit;

/// The variable that enables ZJIT from the start.
const ZJIT_ENABLE: &str = "RUBY_ZJIT_ENABLE";

impl Setting for Zjit {
    type Value = ZjitStart;
    const NAME: &'static str = "zjit";
    const DEFAULT: &'static str = "ruby";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V4_0);
    const DOES: &'static str = "Ruby's newer compiler, ZJIT: as Ruby decides, or on from the start. YJIT and ZJIT exclude each other.";
    const COSTS: &'static str = "Machine code of its own in every process; ZJIT is experimental.";
    const VERIFIED_BY: &'static str = "the runtime's report in the shared page, because compiled code in /proc/PID/maps can be YJIT's";

    fn apply(value: &ZjitStart, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        if *value == ZjitStart::On {
            server.set(ZJIT_ENABLE, "1".into());
            server.request(Self::NAME, &value.to_string());
        }
        Ok(())
    }
}

/// Whether YJIT is on. A Ruby that was built without it ignores the variable.
fn compiler_status(process: &ProcessObservation<'_>) -> SettingStatus {
    match (process.has_variable(YJIT_ENABLE, "1"), process.maps.map(find_in_maps)) {
        // Compiled code is proof, also where the environment cannot be read.
        (_, Some(CodeSearch::Found(_))) => SettingStatus::Applied("compiled code is mapped".into()),
        (_, Some(CodeSearch::Unsure)) => SettingStatus::Unknown(
            "compiled code is mapped, but it may be that of another compiler in the same process"
                .into(),
        ),
        // Not refused: a compiler that has had nothing to compile looks the same.
        (SettingStatus::Applied(_), Some(CodeSearch::Absent)) => SettingStatus::NotYet(format!(
            "{YJIT_ENABLE} is in its environment, but no compiled code is mapped: nothing has been \
             compiled, or this Ruby was built without the compiler"
        )),
        (status, _) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::SettingValue;
    use crate::verify::tests::word;

    #[test]
    fn a_compiler_is_on_only_where_compiled_code_is_mapped() {
        let code = "7f0000000000-7f0004000000 r-xp 00000000 00:00 0 \n";
        let named = "7f0000000000-7f0004000000 r-xp 00000000 00:00 0 [anon:Ruby:rb_jit]\n";
        let files = "7f0000000000-7f0000021000 r-xp 00000000 08:01 42 /usr/lib/libruby.so\n\
                     7f0100000000-7f0100021000 rw-p 00000000 00:00 0 \n\
                     7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n";
        let variable = &b"RUBY_YJIT_ENABLE=1\0"[..];
        for (maps, environ, expected) in [
            (Some(code), variable, "applied"),
            (Some(named), variable, "applied"),
            // A title hides the variable.
            (Some(code), &b"puma: cluster worker 0"[..], "applied"),
            (Some(files), variable, "not yet"),
            (Some(files), &b"puma: cluster worker 0"[..], "unknown"),
            (None, variable, "applied"),
        ] {
            let process = ProcessObservation { maps, environ: Some(environ), ..Default::default() };
            let status = compiler_status(&process);
            assert_eq!(word(&status), expected, "{maps:?} {status:?}");
        }
    }

    #[test]
    fn an_option_of_the_compiler_is_applied_only_where_the_compiler_is_enabled() {
        let code = "7f0000000000-7f0000200000 r-xp 00000000 00:00 0 \n\
                    7f0000200000-7f0003000000 ---p 00000000 00:00 0 \n";
        let racer =
            "7fb000000000-7fb000001000 r-xp 00000000 08:01 42 /gems/mini_racer_extension.so\n";
        let beside = format!("{code}{racer}");
        let reported = SettingStatus::Applied("the runtime reports it".into());
        let refused = SettingStatus::NotApplied("it is refused".into());
        for (status, maps, expected) in [
            (reported.clone(), Some(code), "applied"),
            (reported.clone(), Some(""), "not yet"),
            (reported.clone(), Some(&*beside), "unknown"),
            (reported, None, "unknown"),
            (refused, Some(""), "not applied"),
        ] {
            let process = ProcessObservation { maps, ..Default::default() };
            assert_eq!(word(&where_enabled(status, &process)), expected, "{maps:?}");
        }
    }

    #[test]
    fn room_for_code_is_told_by_its_reservation_and_said_to_be_full() {
        let half = "7f0000000000-7f0000200000 r-xp 00000000 00:00 0 \n\
                    7f0000200000-7f0000400000 ---p 00000000 00:00 0 \n";
        let full = "7f0000000000-7f0000400000 r-xp 00000000 00:00 0 \n\
                    7f0000500000-7f0000600000 ---p 00000000 00:00 0 \n";
        // Captured from Ruby 3.3.8 while YJIT wrote.
        let writing = "7fafec908000-7fafecc14000 r-xp 00000000 00:00 0 \n\
                       7fafecc14000-7fafecc15000 rw-p 00000000 00:00 0 \n\
                       7fafecc15000-7fafecc16000 r-xp 00000000 00:00 0 \n\
                       7fafecc16000-7fafecc17000 rw-p 00000000 00:00 0 \n\
                       7fafecc17000-7fafef908000 ---p 00000000 00:00 0 \n";
        let racer =
            "7fb000000000-7fb000001000 r-xp 00000000 08:01 42 /gems/mini_racer_extension.so\n";
        let beside = format!("{half}{racer}");
        let verified = |maps, value: &str| {
            let process = ProcessObservation { maps: Some(maps), ..Default::default() };
            let value = SettingValue::parse(value).unwrap();
            word(&YjitExecMem::verify(&value, &process, &Environment::default()))
        };
        assert_eq!(verified(half, "4"), "applied");
        assert_eq!(verified(half, "48"), "not applied");
        assert_eq!(verified(full, "4"), "partly");
        assert_eq!(verified(writing, "48"), "applied");
        let process = ProcessObservation { maps: Some(&beside), ..Default::default() };
        assert_eq!(word(&compiler_status(&process)), "unknown");
        // Nothing reports there: what is not Ruby's must not be taken for a refusal.
        assert_eq!(verified(&beside, "48"), "unknown");
        // Code that is thrown away makes room for more.
        let process = ProcessObservation { maps: Some(full), ..Default::default() };
        let collecting =
            Environment { ruby_options: vec![CODE_GC.into()], ..Environment::default() };
        let value = SettingValue::parse("4").unwrap();
        assert_eq!(word(&YjitExecMem::verify(&value, &process, &collecting)), "applied");
        assert!(WholeNumber::<LEAST_CODE_MIB, 2048>::parse("1").is_none());
    }
}
