//! What metrics are called in sentences.

/// What a metric is called in a sentence.
pub fn noun(name: &str) -> &str {
    match name {
        "memory.rss.final" | "memory.pss.final" => "memory",
        "memory.rss.late" | "memory.pss.late" => "memory late in the load",
        "memory.rss.peak" | "memory.pss.peak" => "peak memory",
        "memory.rss.ready" | "memory.pss.ready" => "memory before any load",
        "memory.uss.final" => "private memory",
        "memory.shared.final" => "shared memory",
        "memory.system.final" => "of the machine's memory",
        "latency.p50" => "median latency",
        "latency.p95" => "p95 latency",
        "latency.p99" => "p99 latency",
        "latency.p99.9" => "p99.9 latency",
        "latency.max" => "longest latency",
        "broadcast.complete.p50" => "median time of a whole broadcast",
        "broadcast.complete.p95" => "p95 time of a whole broadcast",
        "broadcast.complete.p50.steps" => "median time of a whole broadcast over all steps",
        "broadcast.complete.p95.steps" => "p95 time of a whole broadcast over all steps",
        "broadcast.own.p50" => "median time of one's own broadcast",
        "broadcast.own.p95" => "p95 time of one's own broadcast",
        "cpu.server" => "processor time",
        "boot.time" => "boot time",
        "gc.count" => "garbage collections",
        "gc.major.count" => "full garbage collections",
        "gc.time" => "time in garbage collection",
        other => other,
    }
}
