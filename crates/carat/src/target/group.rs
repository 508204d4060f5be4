//! A control group with one command and its descendants alone, so that the kernel records the highest memory of all together.

use carat_model::Bytes;
use carat_proc::observe::{GroupFolder, group_folder};
use carat_proc::process::ProcRoot;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// The beginning of the names of all groups that carat makes.
const NAME: &str = "carat-run-";
/// The kernel keeps a group until its last process is gone, which takes a moment after its exit.
const REMOVALS: u32 = 100;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(10);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A group below that of carat, whose limits hold for it too. It is removed at the end.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    folder: PathBuf,
    peak: &'static str,
}

impl CommandGroup {
    /// Makes an empty group.
    ///
    /// # Errors
    /// The reason why there is none, for the reader.
    pub(crate) fn create(root: &ProcRoot) -> Result<Self, String> {
        let own = group_folder(root, std::process::id());
        Self::below(root, &own.ok_or("the control group of carat cannot be seen")?)
    }

    fn below(root: &ProcRoot, own: &GroupFolder) -> Result<Self, String> {
        let parent = own.folder.display();
        if !own.limits_below {
            return Err(format!("limits of {parent} would not hold for a group below it"));
        }
        remove_abandoned(root, &own.folder);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = own.folder.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|error| format!("no control group can be made below {parent}: {error}"))?;
        let made = Self { folder, peak: own.peak };
        // In version 2 a group below one with processes does not count memory.
        match made.peak() {
            Some(_) => Ok(made),
            None => Err(format!("a control group below {parent} has no {}", own.peak)),
        }
    }

    /// Moves a process into it. Memory that it has already stays charged where it was.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn add(&self, pid: u32) -> Result<(), String> {
        let file = self.folder.join("cgroup.procs");
        fs::write(&file, pid.to_string())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    /// Highest memory that was charged.
    pub(crate) fn peak(&self) -> Option<Bytes> {
        fs::read_to_string(self.folder.join(self.peak)).ok()?.trim().parse().ok().map(Bytes)
    }
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            sleep(BETWEEN_REMOVALS);
        }
    }
}

/// Removes what a carat left that was killed. A group with a process cannot be removed.
fn remove_abandoned(root: &ProcRoot, parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let made_by = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-'));
        if let Some((pid, _)) = made_by
            && pid.parse().is_ok_and(|pid: u32| root.identify(pid).is_err())
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(limits_below: bool) -> (tempfile::TempDir, GroupFolder) {
        let folder = tempfile::tempdir().unwrap();
        let own = GroupFolder {
            folder: folder.path().into(),
            name: "/own".into(),
            peak: "memory.peak",
            limits_below,
        };
        (folder, own)
    }

    #[test]
    fn a_group_that_does_not_count_memory_is_refused_and_removed() {
        let (folder, own) = parent(true);
        let reason = CommandGroup::below(&ProcRoot::default(), &own).unwrap_err();
        assert!(reason.ends_with("has no memory.peak"), "{reason}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_group_is_made_that_would_be_without_the_limits_of_its_parent() {
        let (folder, own) = parent(false);
        assert!(CommandGroup::below(&ProcRoot::default(), &own).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn groups_of_a_carat_that_is_gone_are_removed_and_no_others() {
        let (folder, own) = parent(true);
        let names = [
            format!("{NAME}{}-7", std::process::id()),
            // Larger than any pid (proc(5), `pid_max`).
            format!("{NAME}4999999-0"),
            "else".to_owned(),
        ];
        names.iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        let _ = CommandGroup::below(&ProcRoot::default(), &own);
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, false, true]);
    }
}
