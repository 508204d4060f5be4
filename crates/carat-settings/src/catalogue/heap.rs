//! What the runtime library does with Ruby's heap and with malloc; each setting has a file of its name in
//! `carat-runtime/src/ruby/settings`.

use crate::environment::{ApplyError, Environment, EnvironmentBuilder};
use crate::observation::{Moment, ProcessObservation, SettingStatus};
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{Switch, words};
use carat_ruby::version::{RubyVersion, V2_7, V3_0};

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<Compact>(),
    SettingDefinition::of::<Collect>(),
    SettingDefinition::of::<Sham>(),
    SettingDefinition::of::<Trim>(),
    SettingDefinition::of::<PrepareFork>(),
    SettingDefinition::of::<TrustExtensions>(),
    SettingDefinition::of::<Seal>(),
    SettingDefinition::of::<GcPacing>(),
];

words! {
    /// When Ruby's heap is compacted.
    CompactMoment { Off = "off", Boot = "boot", BeforeFork = "before-fork", Auto = "auto", }
}

struct Compact;

impl Setting for Compact {
    type Value = CompactMoment;
    const NAME: &'static str = "compact";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Boot };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const VALUES_SINCE: &'static [(&'static str, RubyVersion)] = &[("auto", V3_0)];
    const LEVELS: &'static [&'static str] = &["boot", "auto"];
    const DOES: &'static str = "Compacts Ruby's heap: once when the server has booted (`boot`: a Rails application after its `after_initialize` blocks, on the main thread before the server listens), once before its first fork, or with every full GC (`auto`).";
    const COSTS: &'static str = "A pause of some tens of milliseconds; C extensions that hide objects from the GC can crash (the known ones are [left alone or pinned](#extensions-that-are-not-compacted)); `auto` slows every full GC.";

    fn apply(value: &CompactMoment, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        match value {
            // Alone this changes nothing; beside `prepare_fork` it forbids the compaction.
            CompactMoment::Off => server.mention(Self::NAME, &value.to_string()),
            _ => server.request(Self::NAME, &value.to_string()),
        }
        Ok(())
    }

    fn verify(
        value: &CompactMoment,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        let moment = match value {
            CompactMoment::Off | CompactMoment::Auto => Moment::Start,
            CompactMoment::Boot => Moment::Boot,
            CompactMoment::BeforeFork => Moment::PreloadedFork,
        };
        process.runtime_status(Self::NAME, environment, moment)
    }
}

words! {
    /// When a full collection runs.
    CollectMoment { Off = "off", Boot = "boot", }
}

struct Collect;

impl Setting for Collect {
    type Value = CollectMoment;
    const NAME: &'static str = "gc";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Boot };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Runs one full GC (`GC.start`) when the server has booted, at the moment of `compact = \"boot\"`: its control. Beside it, write the names of the settings `gc.*` in quotes.";
    const COSTS: &'static str = "A pause of some milliseconds.";
}

struct Sham;

impl Setting for Sham {
    type Value = Switch;
    const NAME: &'static str = "sham";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Boot };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Loads the runtime and detects the end of the boot as `compact = \"boot\"` does, then does nothing: the control for what loading and detecting cost.";
    const COSTS: &'static str = "What the detection costs: a check per loaded file, and without Rails a signal four times per second until the server has booted.";
}

words! {
    /// When free memory of malloc is returned to the kernel.
    TrimMoment { Off = "off", FullGc = "full-gc", Idle = "idle", InGc = "in-gc", }
}

struct Trim;

impl Setting for Trim {
    type Value = TrimMoment;
    const NAME: &'static str = "trim";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["full-gc", "idle"];
    const DOES: &'static str = "Returns free malloc memory to the kernel after the sweep of a full GC, from a thread outside the GVL; `idle` also waits for an idle moment. `in-gc` does it within every full GC, like the patch of 2019, for comparison.";
    const COSTS: &'static str = "Some milliseconds of another core per full GC, and page faults when the memory is used again; it runs less often where little is returned. `in-gc` makes the server wait every time.";
}

words! {
    /// How the heap is prepared for a fork.
    ForkPreparation { Off = "off", Warmup = "warmup", Full = "full", }
}

struct PrepareFork;

impl Setting for PrepareFork {
    type Value = ForkPreparation;
    const NAME: &'static str = "prepare_fork";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["warmup", "full"];
    const FORKS: bool = true;
    const DOES: &'static str = "Once, right before a preloaded server forks for the first time: makes all objects old, compacts, frees empty pages and purges malloc, so that workers share more. `full` collects four times first, which also frees chains of weak references and finalizers, and on Ruby 3.4 and later compacts until no page becomes free.";
    const COSTS: &'static str = "A pause of some hundred milliseconds at boot; the risk of compaction, unless `compact = \"off\"` is set too.";
}

struct TrustExtensions;

impl Setting for TrustExtensions {
    type Value = Switch;
    const NAME: &'static str = "trust_extensions";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Beside `compact` or `prepare_fork`: compacts although a C extension is loaded that is [listed](#extensions-that-are-not-compacted) because compaction can crash it.";
    const COSTS: &'static str =
        "The server can crash, at any time after the compaction; test it under load first.";
}

struct Seal;

impl Setting for Seal {
    type Value = Switch;
    const NAME: &'static str = "seal";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const REQUIRES: Option<(&'static str, &'static str)> = Some(("prepare_fork", "warmup"));
    const DOES: &'static str = "With `prepare_fork`: fills free slots and free holes of malloc before the fork, or gives each child an arena of its own, so that workers do not write to shared pages.";
    const COSTS: &'static str = "The filled holes stay filled in every worker. Ruby counts them as objects, so without `worker_growth` every worker may grow further before it collects. Four more full GCs at boot. No profile contains it: on Ruby 3.1 a Rails cluster used more memory with it than with `prepare_fork` alone ([experiment 5](../evidence/experiments/5-copy-on-write.md#how-sharing-erodes)).";
}

words! {
    /// When full collections run.
    GcPace { Off = "off", Idle = "idle", }
}

struct GcPacing;

impl Setting for GcPacing {
    type Value = GcPace;
    const NAME: &'static str = "gc_pacing";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["idle"];
    const DOES: &'static str = "Runs full GCs in idle moments. From Ruby 3.4 on they run instead of those within requests; earlier Rubies still run their own too.";
    const COSTS: &'static str = "More full GCs than Ruby itself would run. From Ruby 3.4 on one that is due runs after 30 s also while the server is busy.";
}
