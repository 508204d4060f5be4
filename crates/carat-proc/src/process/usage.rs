//! What the kernel counted for children that have ended.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Processor time, user and system, of the children of this process that have ended and were waited for, and of the
/// descendants for which these had waited (getrusage(2)). It has a resolution of a microsecond, unlike `/proc/PID/stat`.
pub fn children_cpu() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // The call fails only for a wrong constant or a wrong address (getrusage(2)).
    // SAFETY: a buffer of the right type; zeros are a valid value of it, should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

fn duration(time: libc::timeval) -> Duration {
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    whole + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_processor_time_of_a_child_counts_once_it_was_waited_for() {
        let before = children_cpu();
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(children_cpu() > before);
    }
}
