//! The app of a running server, as far as the folder in which it runs tells.

use crate::config::{Experiment, read_text_file};
use crate::input::app::AppFolder;
use carat_proc::process::{ProcRoot, program, words_of};
use std::fs;
use std::path::{Path, PathBuf};

/// Programs that answer requests, and those that work on jobs.
const WEB: [&str; 8] =
    ["puma", "unicorn", "passenger", "thin", "falcon", "pitchfork", "rails server", "rackup"];
const JOBS: [&str; 7] =
    ["sidekiq", "resque", "good_job", "delayed_job", "solid_queue", "shoryuken", "karafka"];

/// What the folder of a server has.
#[derive(Debug, Clone)]
pub(super) enum RunningApp {
    /// The text of an experiment that somebody checked, and its baseline.
    Planned {
        folder: PathBuf,
        plan: String,
        baseline: String,
    },
    Found {
        folder: PathBuf,
        app: Box<AppFolder>,
    },
}

impl RunningApp {
    /// Looks at the folder of a process; `None` if it is of another root, cannot be read or has no app.
    pub(super) fn of(root: &ProcRoot, pid: u32) -> Option<Self> {
        // In another root the same path would be another folder.
        if fs::read_link(root.file(pid, "root")).ok()? != Path::new("/") {
            return None;
        }
        Self::in_folder(fs::read_link(root.file(pid, "cwd")).ok()?)
    }

    /// What is in a folder.
    pub(super) fn in_folder(folder: PathBuf) -> Option<Self> {
        Self::planned(&folder).or_else(|| {
            let app = Box::new(AppFolder::look(&folder).ok()?);
            Some(Self::Found { folder, app })
        })
    }

    /// What `carat init` wrote there, if it can be run.
    fn planned(folder: &Path) -> Option<Self> {
        let file = folder.join("carat.toml");
        let plan = read_text_file(&file).ok()?;
        let baseline = Experiment::parse(&plan, &file, folder).ok()?.variants.first()?.name.clone();
        Some(Self::Planned { folder: folder.to_owned(), plan, baseline })
    }
}

/// Whether a process with this title answers requests.
pub(super) fn answers_requests(title: &str) -> bool {
    is_one_of(title, &WEB)
}

/// Whether it works on jobs, so that no request reaches it.
pub(super) fn works_on_jobs(title: &str) -> bool {
    is_one_of(title, &JOBS)
}

fn is_one_of(title: &str, programs: &[&str]) -> bool {
    let found = program(&words_of(title.as_bytes()));
    found.is_some_and(|found| programs.contains(&found.name.program.as_str()))
}

/// Makes the paths of an experiment absolute, for a file in another folder.
pub(super) fn with_absolute_paths(table: &mut toml::Table, folder: &Path) {
    let absolute = |value: Option<&toml::Value>| {
        let path = folder.join(value.and_then(toml::Value::as_str).unwrap_or_default());
        // Without the slash of an empty name.
        toml::Value::String(path.components().collect::<PathBuf>().display().to_string())
    };
    // Without `dir` they run in the folder of the file; `prepare` and `cleanup` in that of the server.
    for name in ["server", "run"] {
        if let Some(part) = table.get_mut(name).and_then(toml::Value::as_table_mut) {
            part.insert("dir".into(), absolute(part.get("dir")));
        }
    }
    let services = table.get_mut("services").and_then(toml::Value::as_table_mut);
    for (_, service) in services.into_iter().flatten() {
        if let Some(service) = service.as_table_mut() {
            service.insert("dir".into(), absolute(service.get("dir")));
        }
    }
    let given = |part: &mut toml::Table, keys: &[&str]| {
        for key in keys.iter().filter(|key| part.contains_key(**key)).collect::<Vec<_>>() {
            part.insert((*key).to_string(), absolute(part.get(*key)));
        }
    };
    for name in ["prepare", "cleanup"] {
        if let Some(part) = table.get_mut(name).and_then(toml::Value::as_table_mut) {
            given(part, &["dir"]);
        }
    }
    let loads = table.get_mut("load").and_then(toml::Value::as_table_mut);
    for (_, load) in loads.into_iter().flatten() {
        if let Some(load) = load.as_table_mut() {
            given(load, &["replay", "urls", "data", "ca", "dir"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_of_a_folder_comes_before_its_other_files_and_one_that_cannot_be_run_does_not()
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        assert!(RunningApp::in_folder(path.clone()).is_none());
        fs::write(path.join("config.ru"), "run App").unwrap();
        let found = RunningApp::in_folder(path.clone());
        assert!(matches!(found, Some(RunningApp::Found { .. })), "{found:?}");
        fs::write(path.join("carat.toml"), "name = 'x'\nporst = 1\n").unwrap();
        let found = RunningApp::in_folder(path.clone());
        assert!(matches!(found, Some(RunningApp::Found { .. })), "{found:?}");
        let plan = "name = 'x'\n[server]\ncommand = ['puma']\nready = { tcp = true }\n[load.http]\n\
                    [[variant]]\nname = 'as it is'\n[[variant]]\nname = 'y'\nsettings = { arena_max = 2 }\n";
        fs::write(path.join("carat.toml"), plan).unwrap();
        match RunningApp::in_folder(path) {
            Some(RunningApp::Planned { baseline, .. }) => assert_eq!(baseline, "as it is"),
            found => panic!("{found:?}"),
        }
    }

    #[test]
    fn paths_stay_those_of_the_folder() {
        let text = "[server]\ncommand = ['x']\n[services.redis]\ndir = 'sub'\n[prepare]\ncommand = ['y']\n\
                    [load.http]\nreplay = 'access.log'\npath = '/x'\n";
        let mut table: toml::Table = text.parse().unwrap();
        with_absolute_paths(&mut table, Path::new("/app"));
        let of = |path: &[&str]| {
            let (first, rest) = path.split_first().unwrap();
            let value = rest.iter().fold(&table[*first], |value, key| &value[*key]);
            value.as_str().unwrap().to_owned()
        };
        assert_eq!(of(&["server", "dir"]), "/app");
        assert_eq!(of(&["services", "redis", "dir"]), "/app/sub");
        assert_eq!(of(&["load", "http", "replay"]), "/app/access.log");
        assert_eq!(of(&["load", "http", "path"]), "/x");
        assert!(table["prepare"].get("dir").is_none(), "it is that of the server");
    }

    #[test]
    fn what_a_process_does_is_known_by_its_title() {
        for (title, serves, works) in [
            ("sidekiq 6.4.1 shop [0 of 5 busy]", false, true),
            ("resque-2.0: Waiting for *", false, true),
            ("puma 5.6.5 (tcp://127.0.0.1:3000) [sidekiq]", true, false),
            ("puma: cluster worker 1: 4312 [blog]", true, false),
            ("ruby server.rb", false, false),
        ] {
            assert_eq!((answers_requests(title), works_on_jobs(title)), (serves, works), "{title}");
        }
    }
}
