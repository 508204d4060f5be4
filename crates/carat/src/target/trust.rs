//! Whether other users could change what a path leads to.
//!
//! Who may write to a folder may rename what is in it, whoever owns that, and put something else in its place. So every
//! folder above counts, as for sshd (`safe_path`, misc.c of OpenSSH).

use carat_files::own_user;
use rustix::thread::{CapabilitySet, capability_is_in_ambient_set};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Write access for group and others.
const OTHERS: u32 = 0o022;
/// In such a folder only the owner of an entry, of the folder, or root may rename the entry, as in /tmp.
const STICKY: u32 = 0o1000;

/// The first of an existing folder and those above it that belongs to another user than root and `user`, or to which others
/// may write; `None` if there is none. Links are followed, so the path should be used as [`Path::canonicalize`] gives it.
pub(super) fn changeable_by_others(folder: &Path, user: u32) -> io::Result<Option<PathBuf>> {
    // Without links: of a link, the folders above its target count.
    let real = folder.canonicalize()?;
    for part in real.ancestors() {
        let found = part.metadata()?;
        // An owner can give everybody write access at any time.
        let of_others = ![0, user].contains(&found.uid());
        if of_others || found.mode() & OTHERS != 0 && found.mode() & STICKY == 0 {
            return Ok(Some(part.to_owned()));
        }
    }
    Ok(None)
}

/// The first of an existing path and the folders above it that other users cannot enter, or if it is a file cannot read; `None` if
/// there is none. Links are followed, because the rights are those of the file that is opened.
pub(super) fn closed_to_others(path: &Path) -> io::Result<Option<PathBuf>> {
    for part in path.canonicalize()?.ancestors() {
        let found = part.metadata()?;
        let needed = if found.is_dir() { 0o001 } else { 0o004 };
        if found.mode() & needed == 0 {
            return Ok(Some(part.to_owned()));
        }
    }
    Ok(None)
}

/// Whether this user's processes can become another user's: root's, and those of a service that was given the right to
/// (`AmbientCapabilities` in systemd.exec(5)). Others need a program such as sudo, which removes `RUBYOPT` (env.c of sudo).
pub(super) fn can_become_others() -> bool {
    own_user() == 0 || capability_is_in_ambient_set(CapabilitySet::SETUID).unwrap_or(false)
}

/// Why others can change what is in a folder, and what closes it.
///
/// A group that may write to it counts even if it has no member now: Debian once gave /usr/local to the group `staff` with mode
/// 2775, and whoever is added to it later would be root by way of what root's servers load. sshd refuses such folders as well.
pub(super) fn why_changeable(folder: &Path) -> (String, String) {
    let shown = folder.display();
    let found = match folder.symlink_metadata() {
        Ok(found) if found.is_dir() => found,
        _ => return ("it is no folder of its own".to_owned(), format!("remove {shown}")),
    };
    let mode = found.mode() & 0o7777;
    match mode & OTHERS {
        0 => (format!("it belongs to user {}", found.uid()), format!("`chown root {shown}`")),
        0o020 => {
            let why = format!("its group {} may write to it (mode {mode:o})", found.gid());
            (why, format!("`chmod g-w {shown}`"))
        }
        _ => {
            let why = format!("every user may write to it (mode {mode:o})");
            (why, format!("`chmod go-w {shown}`"))
        }
    }
}

/// The nearest folder that exists: the path itself or one above it.
pub(super) fn existing(path: &Path) -> &Path {
    path.ancestors().find(|part| part.is_dir()).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_below_one_that_others_may_write_to_can_be_changed_unless_that_is_sticky() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("above/below");
        fs::create_dir_all(&folder).unwrap();
        let above = folder.parent().unwrap();
        for (mode, changeable) in
            [(0o755, false), (0o775, true), (0o757, true), (0o1777, false), (0o700, false)]
        {
            fs::set_permissions(above, Permissions::from_mode(mode)).unwrap();
            let found = changeable_by_others(&folder, own_user()).unwrap();
            let expected = changeable.then(|| above.canonicalize().unwrap());
            assert_eq!(found, expected, "{mode:o}");
        }
    }

    #[test]
    fn what_others_can_enter_and_read_is_decided_by_each_folder_above() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("below/file");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        let modes = |home_mode, below, of_file| {
            for (path, mode) in [
                (file.as_path(), of_file),
                (file.parent().unwrap(), below),
                (home.path(), home_mode),
            ] {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            }
            closed_to_others(&file).unwrap()
        };
        let home_path = home.path().canonicalize().unwrap();
        assert_eq!(modes(0o711, 0o755, 0o644), None);
        assert_eq!(modes(0o700, 0o755, 0o644), Some(home_path.clone()));
        assert_eq!(modes(0o755, 0o750, 0o644), Some(home_path.join("below")));
        assert_eq!(modes(0o755, 0o755, 0o600), Some(home_path.join("below/file")));
    }

    #[test]
    fn why_others_can_change_a_folder_is_said_with_what_closes_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("local");
        fs::create_dir(&folder).unwrap();
        for (mode, why, remedy) in [
            (0o2775, "may write to it (mode 2775)", "`chmod g-w "),
            (0o777, "every user may write to it (mode 777)", "`chmod go-w "),
            (0o755, "it belongs to user ", "`chown root "),
        ] {
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            let said = why_changeable(&folder);
            assert!(said.0.contains(why) && said.1.starts_with(remedy), "{said:?}");
        }
    }

    #[test]
    fn a_folder_below_one_of_another_user_can_be_changed_also_by_way_of_a_link() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        symlink(&folder, folder.join("link")).unwrap();
        let owner = folder.metadata().unwrap().uid();
        for path in [folder.clone(), folder.join("link")] {
            assert_eq!(changeable_by_others(&path, owner).unwrap(), None);
        }
        // Root's own folders are trusted by everybody.
        let stranger = owner + 1;
        let expected = (owner != 0).then(|| folder.clone());
        assert_eq!(changeable_by_others(&folder.join("link"), stranger).unwrap(), expected);
    }
}
