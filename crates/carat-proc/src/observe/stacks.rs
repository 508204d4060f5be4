//! Where the threads of a process have their stacks.

use crate::process::ProcRoot;
use std::fs;

/// Stack pointers of the threads that wait in the kernel; empty if the kernel refuses.
pub(super) fn stack_pointers(root: &ProcRoot, pid: u32) -> Vec<u64> {
    // A refusal costs a hint only: stacks with a guard are found without it.
    let Ok(threads) = fs::read_dir(root.file(pid, "task")) else { return Vec::new() };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("syscall")).ok())
        .filter_map(|text| parse_stack_pointer(&text))
        .collect()
}

/// The stack pointer in `/proc/PID/task/TID/syscall`; `None` while the thread runs (proc_pid_syscall(5)).
pub(super) fn parse_stack_pointer(text: &str) -> Option<u64> {
    let mut last = text.split_ascii_whitespace().rev();
    // The last two fields are the stack pointer and the program counter (proc_pid_syscall(5)).
    let (_program_counter, pointer) = (last.next()?, last.next()?);
    u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_has_a_stack_pointer_and_a_running_one_does_not() {
        for (text, pointer) in [
            (
                "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7f3a09928010 0x7f3a0d8c3d29\n",
                Some(0x7f3a_0992_8010),
            ),
            ("-1 0x7ffc33c80000 0x7f3a0d8c3d29\n", Some(0x7ffc_33c8_0000)),
            ("running\n", None),
            ("", None),
        ] {
            assert_eq!(parse_stack_pointer(text), pointer, "{text}");
        }
    }
}
