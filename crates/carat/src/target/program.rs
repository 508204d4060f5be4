//! Looking up programs in `PATH`.

use carat_settings::Settings;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folders that are searched if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Most links that the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a server's program is looked up.
#[derive(Debug)]
pub(crate) struct ProgramSearch<'a> {
    /// The value of `PATH`.
    pub(crate) path: &'a str,
    /// The root directory of the server.
    pub(crate) root: &'a Path,
    /// The working directory of the server.
    pub(crate) dir: &'a Path,
}

/// The value of `PATH`, or the default if it is not set.
pub(crate) fn search_path(path: Option<String>) -> String {
    path.unwrap_or_else(|| DEFAULT_PATH.to_owned())
}

/// [`search_path`] with the folder of the Ruby that `settings` choose in front.
pub(crate) fn search_path_with(settings: &Settings, path: Option<String>) -> String {
    let path = search_path(path);
    match settings.ruby_directory() {
        Some(folder) => format!("{}:{path}", folder.display()),
        None => path,
    }
}

impl ProgramSearch<'_> {
    /// The file of the Ruby that runs `program`; `None` if it is none that can be found.
    pub(crate) fn ruby(&self, program: &str) -> Option<PathBuf> {
        let script = self.follow(self.find(program)?);
        self.interpreter(&script).map(|ruby| self.follow(ruby))
    }

    /// The file that the kernel would execute, as seen from outside the server's root.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        let is_path = program.contains('/');
        let candidates: Vec<PathBuf> = if program.starts_with('/') {
            vec![self.below_root(Path::new(program))]
        } else if is_path {
            vec![self.dir.join(program)]
        } else {
            std::env::split_paths(self.path)
                .map(|folder| self.below(&folder).join(program))
                .collect()
        };
        // The target of a link may be relative to another root, so links are not followed. What has no right to be executed
        // is passed over, as by execvp(3); a link has all rights.
        candidates.into_iter().find(|path| {
            path.symlink_metadata()
                .is_ok_and(|found| !found.is_dir() && (is_path || found.mode() & 0o111 != 0))
        })
    }

    /// The program that the kernel starts for a file: its `#!` interpreter, or the file itself.
    pub(crate) fn interpreter(&self, file: &Path) -> Option<PathBuf> {
        let mut head = Vec::new();
        // The kernel reads no more of a line (`BINPRM_BUF_SIZE`, linux/binfmts.h).
        File::open(file).ok()?.take(256).read_to_end(&mut head).ok()?;
        let Some(line) = head.strip_prefix(b"#!") else { return Some(file.to_owned()) };
        let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next()?).into_owned();
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?;
        if first.ends_with("/env") {
            // `env` has its options, such as -S, before the program.
            return self.find(words.find(|word| !word.starts_with('-'))?);
        }
        Some(self.below_root(Path::new(first)))
    }

    /// The file that a path below the root leads to: links are followed as a process with that root would.
    pub(crate) fn follow(&self, path: PathBuf) -> PathBuf {
        let mut path = path;
        // Bounded as in the kernel, because links can form a circle.
        for _ in 0..MOST_LINKS {
            let Ok(target) = std::fs::read_link(&path) else { break };
            path = match target.is_absolute() {
                true => self.below_root(&target),
                false => path.with_file_name("").join(target),
            };
        }
        path
    }

    /// A folder of PATH: an empty or relative one begins at the working directory (execvp(3), POSIX 8.3).
    fn below(&self, folder: &Path) -> PathBuf {
        if folder.is_absolute() { self.below_root(folder) } else { self.dir.join(folder) }
    }

    fn below_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn program(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn without_path_programs_are_looked_up_in_the_default_folders() {
        assert_eq!(search_path(Some("/opt/bin".into())), "/opt/bin");
        let path = search_path(None);
        assert_eq!(path, DEFAULT_PATH);
        let root = tempfile::tempdir().unwrap();
        let search = ProgramSearch { path: &path, root: root.path(), dir: Path::new("") };
        assert_eq!(search.find("ruby"), None);
        for folder in ["sbin", "usr/bin", "usr/local/bin"] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            program(&folder.join("ruby"), "");
            assert_eq!(search.find("ruby"), Some(folder.join("ruby")));
        }
    }

    #[test]
    fn folders_are_searched_as_by_execvp() {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [root.path().join("bin"), dir.path().join("own")] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(root.path().join("bin/ruby"), "no right to be executed").unwrap();
        program(&dir.path().join("own/ruby"), "");
        let find = |path| ProgramSearch { path, root: root.path(), dir: dir.path() }.find("ruby");
        assert_eq!(find("/bin"), None);
        assert_eq!(find("/bin:own"), Some(dir.path().join("own/ruby")));
        program(&dir.path().join("ruby"), "");
        for path in [":/bin", "/bin:", "/bin::own"] {
            assert_eq!(find(path), Some(dir.path().join("ruby")), "{path}");
        }
    }

    #[test]
    fn a_path_with_a_slash_starts_at_the_root_or_at_the_working_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let search = ProgramSearch { path: "/bin", root: root.path(), dir: dir.path() };
        fs::create_dir(root.path().join("bin")).unwrap();
        program(&root.path().join("bin/puma"), "");
        program(&dir.path().join("server"), "");
        assert_eq!(search.find("/bin/puma"), Some(root.path().join("bin/puma")));
        assert_eq!(search.find("./server"), Some(dir.path().join("./server")));
        assert_eq!(search.find("/server"), None);
        assert_eq!(search.find("/bin"), None, "a folder is not a program");
    }

    #[test]
    fn absolute_links_lead_to_files_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let search = ProgramSearch { path: "/bin", root: root.path(), dir: Path::new("") };
        for folder in ["bin", "etc", "opt"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        symlink("/etc/ruby", root.path().join("bin/ruby")).unwrap();
        symlink("../opt/ruby3.1", root.path().join("etc/ruby")).unwrap();
        program(&root.path().join("opt/ruby3.1"), "");
        let followed = search.follow(search.find("ruby").unwrap());
        assert_eq!(followed.canonicalize().unwrap(), root.path().join("opt/ruby3.1"));
        symlink("/bin/loop", root.path().join("bin/loop")).unwrap();
        assert_eq!(search.follow(root.path().join("bin/loop")), root.path().join("bin/loop"));
    }

    #[test]
    fn the_interpreter_of_a_script_is_the_program_of_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let search = ProgramSearch { path: &path, root: Path::new("/"), dir: folder.path() };
        let ruby = folder.path().join("ruby");
        program(&ruby, "no script");
        for (text, expected) in [
            ("#!/usr/bin/env -S ruby -W0\n", ruby.clone()),
            ("#!/opt/bin/ruby\n", PathBuf::from("/opt/bin/ruby")),
            ("\x7fELF", folder.path().join("script")),
        ] {
            let script = folder.path().join("script");
            program(&script, text);
            assert_eq!(search.interpreter(&script), Some(expected), "{text}");
        }
    }
}
