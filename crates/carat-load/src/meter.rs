//! The generator's own cost and lag.

use crate::clock::{MonotonicTime, thread_cpu};
use crate::histogram::DurationHistogram;
use std::fs;
use std::path::Path;

/// Length of the window over which the CPU share is measured, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;

/// Measures the cost of one thread; created and used on that thread.
#[derive(Debug)]
pub struct Meter {
    begun: MonotonicTime,
    cpu_begun: u64,
    delay_begun: Option<u64>,
    window: MonotonicTime,
    window_cpu: u64,
    pub cost: GeneratorCost,
}

/// The cost of one thread, or the sum of several.
#[derive(Debug, Default, Clone)]
pub struct GeneratorCost {
    pub cpu: u64,
    pub share_max: f64,
    pub run_delay: Option<u64>,
    /// Nanoseconds that were measured, of all threads.
    pub measured: u64,
    /// From the arrival of bytes to their reading.
    pub lag: DurationHistogram,
    /// From the intended to the actual send.
    pub late: DurationHistogram,
    pub messages: u64,
    /// Messages that shared a read with a later one.
    pub bounded: u64,
    pub clock_steps: u32,
    /// The most bytes that were waiting on one connection.
    pub backlog_max: u64,
    pub slow_connects: u64,
}

impl Meter {
    /// Starts to measure the calling thread.
    pub fn begin(now: MonotonicTime) -> Self {
        let cpu_begun = thread_cpu();
        Self {
            begun: now,
            cpu_begun,
            delay_begun: read_run_delay(Path::new("/proc")),
            window: now,
            window_cpu: cpu_begun,
            cost: GeneratorCost::default(),
        }
    }

    /// Closes the window of the CPU share once it is a second long.
    pub fn tick(&mut self, now: MonotonicTime) {
        let passed = now.since(self.window);
        if passed >= WINDOW {
            let cpu = thread_cpu();
            let share = (cpu - self.window_cpu) as f64 / passed as f64;
            self.cost.share_max = self.cost.share_max.max(share);
            self.window = now;
            self.window_cpu = cpu;
        }
    }

    /// Ends the measurement; a load shorter than a window counts as one window.
    pub fn end(mut self, now: MonotonicTime) -> GeneratorCost {
        let cpu = thread_cpu();
        let passed = now.since(self.window);
        if passed >= WINDOW / 4 {
            let share = (cpu - self.window_cpu) as f64 / passed as f64;
            self.cost.share_max = self.cost.share_max.max(share);
        }
        self.cost.cpu = cpu - self.cpu_begun;
        self.cost.measured = now.since(self.begun);
        self.cost.run_delay = read_run_delay(Path::new("/proc"))
            .zip(self.delay_begun)
            .map(|(end, begin)| end.saturating_sub(begin));
        self.cost
    }

    /// Records that `received` bytes were waiting on one connection.
    pub fn record_backlog(&mut self, received: usize) {
        self.cost.backlog_max = self.cost.backlog_max.max(received as u64);
    }
}

impl GeneratorCost {
    /// Adds another thread's cost.
    pub fn merge(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.share_max = self.share_max.max(other.share_max);
        // Known of one thread only is still a lower limit of the whole.
        self.run_delay = match (self.run_delay, other.run_delay) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        self.measured += other.measured;
        self.lag.merge(&other.lag);
        self.late.merge(&other.late);
        self.messages += other.messages;
        self.bounded += other.bounded;
        // All threads see the same steps of one clock, so they do not add up.
        self.clock_steps = self.clock_steps.max(other.clock_steps);
        self.backlog_max = self.backlog_max.max(other.backlog_max);
        self.slow_connects += other.slow_connects;
    }
}

/// Nanoseconds that the calling thread waited for a core; `None` if the kernel does not report it.
fn read_run_delay(proc_root: &Path) -> Option<u64> {
    parse_run_delay(&fs::read_to_string(proc_root.join("thread-self/schedstat")).ok()?)
}

/// The second figure of `schedstat` (Documentation/scheduler/sched-stats.rst).
fn parse_run_delay(text: &str) -> Option<u64> {
    // Time on the CPU, time waiting for it, and the number of time slices, in this order.
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Peak resident memory of this process in bytes; `None` if the kernel does not report it.
pub(crate) fn read_rss_peak(proc_root: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc_root.join("self/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Connection requests that the kernel dropped because an accept queue was full, since boot.
pub(crate) fn read_listen_overflows(proc_root: &Path) -> Option<u64> {
    parse_listen_overflows(&fs::read_to_string(proc_root.join("net/netstat")).ok()?)
}

fn parse_listen_overflows(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    // The names are on one line, their values on the next with the same prefix.
    let names = lines.next()?.split_ascii_whitespace();
    let values = lines.next()?.split_ascii_whitespace();
    let (_, value) = names.zip(values).find(|(name, _)| *name == "ListenOverflows")?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_threads_amounts_add_up_and_the_greatest_share_remains() {
        let one = GeneratorCost {
            cpu: 1,
            share_max: 0.25,
            run_delay: Some(7),
            measured: 10,
            messages: 100,
            bounded: 20,
            clock_steps: 1,
            backlog_max: 4096,
            slow_connects: 2,
            ..GeneratorCost::default()
        };
        let two =
            GeneratorCost { share_max: 0.5, backlog_max: 512, run_delay: None, ..one.clone() };
        for (mut sum, other) in [(one.clone(), &two), (two.clone(), &one)] {
            sum.merge(other);
            let greatest = (sum.share_max, sum.backlog_max, sum.clock_steps);
            assert_eq!(greatest, (0.5, 4096, 1), "{sum:?}");
            let added = (sum.cpu, sum.measured, sum.messages, sum.bounded, sum.slow_connects);
            assert_eq!(added, (2, 20, 200, 40, 4), "{sum:?}");
            assert_eq!(sum.run_delay, Some(7));
        }
        let mut both = one.clone();
        both.merge(&one);
        assert_eq!(both.run_delay, Some(14));
    }

    #[test]
    fn the_kernels_tables_are_read_by_name() {
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 17 18\nIpExt: A\nIpExt: 1\n";
        assert_eq!(parse_listen_overflows(netstat), Some(17));
        assert_eq!(parse_listen_overflows("TcpExt: A\nTcpExt: 1\n"), None);
        assert_eq!(parse_run_delay("12 345 6\n"), Some(345));
        assert!(read_rss_peak(Path::new("/proc")).is_some_and(|bytes| bytes > 100_000));
    }
}
