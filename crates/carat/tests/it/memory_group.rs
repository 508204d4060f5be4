//! A limit of memory for processes of a test.

use crate::harness;
use crate::support::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

/// A memory control group below the one of this test, removed at the end.
pub(crate) struct MemoryGroup {
    pub(crate) path: PathBuf,
}

impl MemoryGroup {
    /// A group with this limit in bytes, in which processes are killed; the test is skipped where none can be made.
    pub(crate) fn new(name: &str, limit: u64) -> Self {
        Self::limited(name, limit).unwrap_or_else(|| {
            harness::skip("no control group that limits memory can be made: it needs root")
        })
    }

    /// `None` if no group can be made here, or if the group does not limit memory.
    fn limited(name: &str, limit: u64) -> Option<Self> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let below = |controller: &str| {
            let line = text.lines().find(|line| line.contains(controller))?;
            Some(line.rsplit(':').next()?.trim_start_matches('/').to_owned())
        };
        let name = format!("carat-test-{name}-{}", std::process::id());
        let one = below(":memory:").map(|group| Path::new("/sys/fs/cgroup/memory").join(group));
        let two = below("0::").map(|group| Path::new("/sys/fs/cgroup").join(group));
        let one = one.iter().map(|group| (group.as_path(), "memory.limit_in_bytes"));
        // In version 2 a group with processes of its own limits none below it ("No Internal Process Constraint", cgroup-v2.rst).
        let two = two.iter().flat_map(|group| group.ancestors());
        let two = two.take_while(|group| group.starts_with("/sys/fs/cgroup"));
        one.chain(two.map(|group| (group, "memory.max"))).find_map(|(parent, file)| {
            let path = parent.join(&name);
            fs::create_dir(&path).ok()?;
            let made = Self { path };
            // Without swap, so that the limit kills.
            let _ = fs::write(made.path.join("memory.swap.max"), "0");
            fs::write(made.path.join(file), limit.to_string()).ok().map(|()| made)
        })
    }

    /// How many of its processes the kernel has killed for lack of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        // The second and the first version of control groups.
        let files = ["memory.events", "memory.oom_control"].map(|file| self.path.join(file));
        let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap();
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel removes its last process only after a moment.
        wait_until("the group is empty", || fs::remove_dir(&self.path).is_ok());
    }
}
