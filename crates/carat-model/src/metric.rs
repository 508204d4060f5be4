//! The registry of metrics. A row holds everything that is known about one metric; to add a metric, add a row.

mod better;
mod definition;
mod known;
mod moment;

pub use better::Better;
pub use definition::{
    BEYOND, Metric, MetricSource, find, impossible, latencies, of_load, of_runs, of_trial,
    over_steps, phrase,
};
pub use known::find_metric;
pub use moment::MetricMoment;

use crate::ledger::JitUse;
use crate::observations::{Observations, amount};
use crate::units::Unit;

macro_rules! registry {
    ($($name:ident = $row:expr;)*) => {
        $(
            pub static $name: Metric = $row;
        )*
        /// Every metric, in the order of reports.
        pub static METRICS: &[&Metric] = &[$(&$name),*];
    };
}

registry! {
    MEMORY_RSS_FINAL = Metric {
        id: "memory.rss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process after the last request",
        phrase: "memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.rss)),
    };
    MEMORY_PSS_FINAL = Metric {
        id: "memory.pss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the whole process tree after the last request",
        phrase: "memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.pss)),
    };
    MEMORY_PSS_LATE = Metric {
        id: "memory.pss.late",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "median proportional memory of the tree over the last quarter of the load or of the run",
        phrase: "memory",
        moment: Some(MetricMoment::LastQuarter),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| trial.late(|sample| sample.pss)),
    };
    MEMORY_RSS_LATE = Metric {
        id: "memory.rss.late",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "median resident memory of the one server process over the last quarter of the load or of the run",
        phrase: "memory",
        moment: Some(MetricMoment::LastQuarter),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| trial.late(|sample| sample.rss)),
    };
    MEMORY_USS_FINAL = Metric {
        id: "memory.uss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "memory that only this tree's processes hold privately, after the last request",
        phrase: "private memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.uss)),
    };
    MEMORY_PSS_PEAK = Metric {
        id: "memory.pss.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest proportional memory of the tree that was sampled",
        phrase: "peak memory",
        moment: Some(MetricMoment::WholeTrial),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| amount(trial.pss_peak())),
    };
    MEMORY_RSS_PEAK = Metric {
        id: "memory.rss.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest resident memory of the one server process, as the kernel recorded it",
        phrase: "peak memory",
        moment: Some(MetricMoment::WholeTrial),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| amount(trial.rss_peak())),
    };
    MEMORY_PROCESS_PEAK = Metric {
        id: "memory.process.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest resident memory of the largest process, as the kernel recorded it; of a command that ends by itself, of every process that was waited for or sampled",
        phrase: "peak memory of the largest process",
        moment: Some(MetricMoment::WholeTrial),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| amount(trial.process_peak())),
    };
    MEMORY_GROUP_PEAK = Metric {
        id: "memory.group.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest memory that the kernel charged to a control group with a command that ends by itself and its descendants alone: with the kernel's own memory for them and the pages of files that they were the first to read; unknown where no such group can be made",
        phrase: "peak memory of all processes",
        moment: Some(MetricMoment::WholeTrial),
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| amount(trial.group_peak)),
    };
    MEMORY_PSS_READY = Metric {
        id: "memory.pss.ready",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree when ready, before any load",
        phrase: "memory",
        moment: Some(MetricMoment::BeforeLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.ready.as_ref()?.pss)),
    };
    MEMORY_RSS_READY = Metric {
        id: "memory.rss.ready",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process when ready, before any load",
        phrase: "memory",
        moment: Some(MetricMoment::BeforeLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.ready.as_ref()?.rss)),
    };
    MEMORY_PSS_START = Metric {
        id: "memory.pss.start",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree when the measured load begins, after the warm-up",
        phrase: "memory",
        moment: Some(MetricMoment::StartOfLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.start.as_ref()?.pss)),
    };
    MEMORY_RSS_START = Metric {
        id: "memory.rss.start",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process when the measured load begins, after the warm-up",
        phrase: "memory",
        moment: Some(MetricMoment::StartOfLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.start.as_ref()?.rss)),
    };
    MEMORY_PSS_IDLE = Metric {
        id: "memory.pss.idle",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree after the idle time that follows the load",
        phrase: "memory",
        moment: Some(MetricMoment::AfterIdle),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.idle.as_ref()?.pss)),
    };
    MEMORY_RSS_IDLE = Metric {
        id: "memory.rss.idle",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process after the idle time that follows the load",
        phrase: "memory",
        moment: Some(MetricMoment::AfterIdle),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.idle.as_ref()?.rss)),
    };
    MEMORY_SHARED_FINAL = Metric {
        id: "memory.shared.final",
        unit: Unit::Bytes,
        better: Better::Higher,
        what: "memory of the tree that is shared with another process, after the last request",
        phrase: "shared memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.shared)),
    };
    MEMORY_SYSTEM_FINAL = Metric {
        id: "memory.system.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "fall of the machine's available memory since before the server started",
        phrase: "system memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(Observations::available_fall),
    };
    MEMORY_PER_INSTANCE = Metric {
        id: "memory.per_instance",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree after the last request, divided by the processes that serve: the Ruby processes whose parent is a Ruby of the tree, or all of them where none has such a parent; the memory of a master is thus spread over its workers",
        phrase: "memory per instance",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.pss_per_instance(trial.last.as_ref())),
    };
    MEMORY_PER_INSTANCE_START = Metric {
        id: "memory.per_instance.start",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree when the measured load begins, divided by the processes that serve; unknown if the tree has another number of processes than after the last request",
        phrase: "memory per instance",
        moment: Some(MetricMoment::StartOfLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.pss_per_instance(trial.start.as_ref())),
    };
    MEMORY_PER_INSTANCE_IDLE = Metric {
        id: "memory.per_instance.idle",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree after the idle time that follows the load, divided by the processes that serve; unknown if the tree has another number of processes than after the last request",
        phrase: "memory per instance",
        moment: Some(MetricMoment::AfterIdle),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.pss_per_instance(trial.idle.as_ref())),
    };
    MEMORY_OVER_LEAST = Metric {
        id: "memory.pss.over_least",
        unit: Unit::Ratio,
        better: Better::Lower,
        what: "proportional memory of the tree after the last request as a multiple of the least that the application could have: once what the parent of forked processes loaded, and what each of them keeps besides; unknown where no Ruby forked another, or one does not tell live memory from free",
        phrase: "memory as a multiple of the least",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.ledger()?.over_least()),
    };
    LATENCY_P50 = Metric {
        id: "latency.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time from the intended send to the whole response",
        phrase: "median latency",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Latency(0.5),
    };
    LATENCY_P95 = Metric {
        id: "latency.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time from the intended send to the whole response",
        phrase: "p95 latency",
        moment: None,
        least: 0,
        enough: 200,
        source: MetricSource::Latency(0.95),
    };
    LATENCY_P99 = Metric {
        id: "latency.p99",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "99th percentile of the time from the intended send to the whole response",
        phrase: "p99 latency",
        moment: None,
        least: 100 * BEYOND,
        enough: 100 * BEYOND,
        source: MetricSource::Latency(0.99),
    };
    LATENCY_P99_9 = Metric {
        id: "latency.p99.9",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "99.9th percentile of the time from the intended send to the whole response",
        phrase: "p99.9 latency",
        moment: None,
        least: 1_000 * BEYOND,
        enough: 1_000 * BEYOND,
        source: MetricSource::Latency(0.999),
    };
    LATENCY_MAX = Metric {
        id: "latency.max",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "longest time from the intended send to the whole response",
        phrase: "longest latency",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Latency(1.0),
    };
    BROADCAST_COMPLETE_P50 = Metric {
        id: "broadcast.complete.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until every subscriber has a broadcast",
        phrase: "median time of a whole broadcast",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("complete")?.p50)),
    };
    BROADCAST_COMPLETE_P95 = Metric {
        id: "broadcast.complete.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until every subscriber has a broadcast",
        phrase: "p95 time of a whole broadcast",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("complete")?.p95)),
    };
    BROADCAST_COMPLETE_P50_STEPS = Metric {
        id: "broadcast.complete.p50.steps",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "geometric mean over all connection steps of the median time until every subscriber has a broadcast",
        phrase: "median time of a whole broadcast over all steps",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::OverSteps(&BROADCAST_COMPLETE_P50),
    };
    BROADCAST_COMPLETE_P95_STEPS = Metric {
        id: "broadcast.complete.p95.steps",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "geometric mean over all connection steps of the 95th percentile of the time until every subscriber has a broadcast",
        phrase: "p95 time of a whole broadcast over all steps",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::OverSteps(&BROADCAST_COMPLETE_P95),
    };
    BROADCAST_OWN_P50 = Metric {
        id: "broadcast.own.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until the sender has its own broadcast's result",
        phrase: "median time of the sender's own broadcast",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("ack")?.p50)),
    };
    BROADCAST_OWN_P95 = Metric {
        id: "broadcast.own.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until the sender has its own broadcast's result",
        phrase: "p95 time of the sender's own broadcast",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("ack")?.p95)),
    };
    BROADCAST_FIRST_P50 = Metric {
        id: "broadcast.first.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until the first subscriber has a broadcast",
        phrase: "median time to the first subscriber",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("first")?.p50)),
    };
    BROADCAST_FIRST_P95 = Metric {
        id: "broadcast.first.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until the first subscriber has a broadcast",
        phrase: "p95 time to the first subscriber",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("first")?.p95)),
    };
    BROADCAST_DELIVERY_P50 = Metric {
        id: "broadcast.delivery.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until a subscriber has a broadcast, over all deliveries",
        phrase: "median delivery time",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("delivery")?.p50)),
    };
    BROADCAST_DELIVERY_P95 = Metric {
        id: "broadcast.delivery.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until a subscriber has a broadcast, over all deliveries",
        phrase: "p95 delivery time",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("delivery")?.p95)),
    };
    THROUGHPUT = Metric {
        id: "throughput",
        unit: Unit::PerSecond,
        better: Better::Higher,
        what: "correct responses or deliveries per second of load",
        phrase: "throughput",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Load(|load| load.throughput()),
    };
    ERRORS = Metric {
        id: "errors",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of requests without a correct response",
        phrase: "error rate",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Load(|load| load.error_share()),
    };
    CPU_SERVER = Metric {
        id: "cpu.server",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "processor time of the server tree during the load; of a command that ends by itself, with the children for which it waited",
        phrase: "CPU time under load",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| Some(trial.cpu?.as_secs_f64())),
    };
    CPU_MERGING = Metric {
        id: "cpu.merging",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "processor time of the kernel's thread that merges equal pages (ksmd) during the load, for every process of the machine; unknown where it does not merge",
        phrase: "processor time for merging pages",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.merging?.as_secs_f64())),
    };
    RUN_TIME = Metric {
        id: "run.time",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "time from the exec of a command that ends by itself to its end",
        phrase: "run time",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| Some(trial.run_time?.as_secs_f64())),
    };
    BOOT_TIME = Metric {
        id: "boot.time",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "time from exec to ready",
        phrase: "boot time",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.boot?.as_secs_f64())),
    };
    GC_COUNT = Metric {
        id: "gc.count",
        unit: Unit::Count,
        better: Better::Lower,
        what: "collections in the tree during the load or the run",
        phrase: "garbage collections",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| Some(trial.collections[0]? as f64)),
    };
    GC_MAJOR_COUNT = Metric {
        id: "gc.major.count",
        unit: Unit::Count,
        better: Better::Lower,
        what: "full collections in the tree during the load or the run",
        phrase: "full garbage collections",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| Some(trial.collections[1]? as f64)),
    };
    GC_TIME = Metric {
        id: "gc.time",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "time spent collecting in the tree during the load or the run",
        phrase: "time in garbage collection",
        moment: None,
        least: 0,
        enough: 0,
        source: MetricSource::AnyTrial(|trial| Some(trial.collections[2]? as f64 / 1e9)),
    };
    HEAP_SLOTS_FREE = Metric {
        id: "heap.slots.free",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of the slots in Ruby's heap pages that hold no object after the last request, over all pools and all Ruby processes",
        phrase: "share of free slots",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.ledger()?.free_slot_share()),
    };
    HEAP_PAGES_FREE = Metric {
        id: "heap.pages.free",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of Ruby's heap pages that hold no object after the last request, over all Ruby processes",
        phrase: "share of empty heap pages",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.ledger()?.free_page_share()),
    };
    MALLOC_FREE = Metric {
        id: "malloc.free",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory that malloc holds free in the Ruby processes of the tree after the last request, proportional; of jemalloc only whole pages count as free",
        phrase: "free memory inside malloc",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(Some(trial.ledger()?.free_and_all_malloc()?.0))),
    };
    JIT_CODE = Metric {
        id: "jit.code",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "machine code that the Ruby processes of the tree compiled at run time, in memory after the last request, proportional; executable memory without a file, so that of another library with a compiler counts too",
        phrase: "memory of JIT code",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(Some(trial.ledger()?.jit_code()?))),
    };
    JIT_HEAP = Metric {
        id: "jit.heap",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "bytes that Ruby's compiler has allocated with malloc after the last request, by its own count, summed over all Ruby processes whether they share them or not; 0 where it is off",
        phrase: "memory of the JIT in malloc",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| {
            Some(trial.ledger()?.of_jit(JitUse::heap_or_off)? as f64)
        }),
    };
    JIT_COMPILED = Metric {
        id: "jit.compiled",
        unit: Unit::Count,
        better: Better::Lower,
        what: "methods and blocks that Ruby's compiler has compiled after the last request, over all Ruby processes, in each of those that share them; 0 where it is off",
        phrase: "compiled methods",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| {
            Some(trial.ledger()?.of_jit(|jit| jit.compiled)? as f64)
        }),
    };
    MALLOC_FREE_SHARE = Metric {
        id: "malloc.free.share",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of malloc's resident memory that is free after the last request, over all Ruby processes of the tree",
        phrase: "free share of malloc's memory",
        moment: Some(MetricMoment::AfterLoad),
        least: 0,
        enough: 0,
        source: MetricSource::Trial(Observations::free_malloc_share),
    };
}

#[cfg(test)]
mod tests;
