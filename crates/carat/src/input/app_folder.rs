//! The experiment for the app in a folder, as far as its files tell how it is started. Nothing is run.

use crate::input::experiment_text::{ExperimentText, VariantText};
use carat_model::metric;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read; more is no file that a person writes.
const LONGEST: u64 = 1 << 20;
/// What makes a line of a Procfile one for a shell.
const SHELL: [char; 11] = ['|', '&', ';', '<', '>', '(', ')', '`', '*', '~', '\\'];

/// Why there is no experiment for a folder.
#[derive(Debug, thiserror::Error)]
pub enum AppFolderError {
    #[error("{0} is no folder; go to the folder of the app")]
    NoFolder(PathBuf),
    #[error(
        "{0} has no Ruby app: none of config.ru, Gemfile, Gemfile.lock, Procfile and config/application.rb is there; go to the \
         folder of the app, or write the file by hand (docs/reference/experiment.md)"
    )]
    NoApp(PathBuf),
    #[error(
        "{path} cannot be read: {reason}; make it readable, or move it away and carat looks at the other files"
    )]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "only jobs are in {0} (config/sidekiq.yml and no config.ru): a load of jobs is written by hand, see docs/reference/load.md"
    )]
    OnlyJobs(PathBuf),
}

/// The files of a folder that tell how its app is started.
#[derive(Debug, Clone, Default)]
pub struct AppFolder {
    name: String,
    /// Versions of gems by name; `None` without a lock file.
    gems: Option<BTreeMap<String, String>>,
    has_gemfile: bool,
    /// The command of the process `web` in the Procfile.
    web: Option<String>,
    /// The configuration of Puma and where it is.
    puma: Option<(&'static str, String)>,
    unicorn: Option<&'static str>,
    rackup: bool,
    rails: bool,
    jobs: bool,
    dockerfile: Option<String>,
    /// Files that may name routes.
    routes: Vec<String>,
}

impl AppFolder {
    /// Looks at a folder.
    ///
    /// # Errors
    /// If it is none, has no app, or a file in it cannot be read.
    pub fn look(folder: &Path) -> Result<Self, AppFolderError> {
        if !folder.is_dir() {
            return Err(AppFolderError::NoFolder(folder.to_owned()));
        }
        let procfile = text_in(folder, "Procfile")?;
        let lock = text_in(folder, "Gemfile.lock")?;
        let pumas = ["config/puma.rb", "puma.rb"].map(|name| Ok((name, text_in(folder, name)?)));
        let [first, second] = pumas;
        let (first, second) = (first?, second?);
        let mut routes = Vec::new();
        for name in ["config/routes.rb", "config.ru", "app.rb", "server.rb", "main.rb"] {
            routes.extend(text_in(folder, name)?);
        }
        // The folder's own name, also where `.` was given.
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let found = Self {
            name: real.file_name().map_or("app".into(), |name| plain_name(&name.to_string_lossy())),
            has_gemfile: lock.is_some() || folder.join("Gemfile").exists(),
            gems: lock.as_deref().map(gems),
            web: procfile.as_deref().and_then(web_process),
            puma: [first, second].into_iter().find_map(|(name, text)| Some((name, text?))),
            unicorn: ["config/unicorn.rb", "unicorn.rb"]
                .into_iter()
                .find(|name| folder.join(name).exists()),
            rackup: folder.join("config.ru").exists(),
            rails: folder.join("config/application.rb").exists(),
            jobs: folder.join("config/sidekiq.yml").exists() || folder.join("sidekiq.yml").exists(),
            dockerfile: text_in(folder, "Dockerfile")?,
            routes,
        };
        let is_app = found.rackup || found.rails || found.has_gemfile || procfile.is_some();
        match (is_app, found.serves()) {
            (false, _) => Err(AppFolderError::NoApp(folder.to_owned())),
            // Only jobs: a web server that is not there cannot be measured.
            (true, false) if found.jobs => Err(AppFolderError::OnlyJobs(folder.to_owned())),
            _ => Ok(found),
        }
    }

    fn serves(&self) -> bool {
        self.rackup || self.rails || self.web.is_some() || self.puma.is_some()
    }

    fn gem(&self, name: &str) -> Option<&str> {
        self.gems.as_ref()?.get(name).map(String::as_str)
    }

    fn bundled(&self, words: &[&str]) -> Vec<String> {
        let start: &[&str] = if self.has_gemfile { &["bundle", "exec"] } else { &[] };
        start.iter().chain(words).map(|word| (*word).to_owned()).collect()
    }

    /// The command, and what made carat choose it.
    fn command(&self) -> (Vec<String>, String) {
        let puma_is_there = self.puma.is_some() || self.gem("puma").is_some();
        // The Procfile first: it is what starts the app in production.
        if let Some(web) = &self.web {
            return (procfile_words(web), "the command is that of `web` in the Procfile".into());
        }
        if puma_is_there {
            let bind = "tcp://127.0.0.1:{port}";
            let config: &[&str] = match &self.puma {
                // Puma finds this one itself, and with -C it would leave out config/puma/production.rb.
                Some(("config/puma.rb", _)) | None => &["puma", "-b", bind],
                Some((name, _)) => &["puma", "-C", name, "-b", bind],
            };
            return (self.bundled(config), "the command is Puma's, bound to a free port".into());
        }
        if let Some(config) = self.unicorn {
            let words = ["unicorn", "-c", config, "-l", "127.0.0.1:{port}"];
            return (
                self.bundled(&words),
                format!("the command is Unicorn's, because of {config}"),
            );
        }
        if self.rails {
            let words = ["rails", "server", "-b", "127.0.0.1", "-p", "{port}"];
            return (self.bundled(&words), "the command is `rails server`".into());
        }
        let words = ["rackup", "-o", "127.0.0.1", "-p", "{port}"];
        (self.bundled(&words), "no server was found in the files, so rackup chooses one".into())
    }

    fn environment(&self) -> Vec<(String, String)> {
        // A server that is told its port by a variable must not take its usual one.
        let mut variables = vec![("PORT", "{port}")];
        match self.rails {
            true => variables.extend([
                ("RAILS_ENV", "production"),
                // Rails does not boot in production without one, and this one protects nothing.
                ("SECRET_KEY_BASE", "only-for-measuring-with-carat-0123456789abcdef"),
            ]),
            false => variables.push(("RACK_ENV", "production")),
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// A path that answers, if the files name one.
    fn path(&self) -> Option<String> {
        let mut lines = self.routes.iter().flat_map(|text| text.lines()).map(str::trim);
        // A root route is certain to be a page; others can need a parameter or a login.
        if lines.clone().any(|line| line.starts_with("root ") || line.starts_with("root(")) {
            return Some("/".into());
        }
        lines.find_map(route_in)
    }

    /// Whether the files say that workers are forked, with the app loaded before.
    fn forks_preloaded(&self) -> bool {
        let Some((_, text)) = &self.puma else { return self.unicorn.is_some() };
        let begins = |word| text.lines().any(|line| line.trim().starts_with(word));
        // With `workers 0` Puma forks none.
        begins("workers") && begins("preload_app!") && !begins("workers 0")
    }

    fn variants(&self) -> Vec<VariantText> {
        let default = VariantText { name: "default".into(), ..VariantText::default() };
        let balanced = profile("balanced", "Less free memory, at little cost.");
        match self.forks_preloaded() {
            true => vec![
                default,
                balanced,
                profile(
                    "prefork",
                    "For workers that are forked from a loaded app; needs jemalloc (libjemalloc2).",
                ),
            ],
            false => vec![default, balanced, profile("low-memory", "Smaller still, and slower.")],
        }
    }

    /// What the files do not say, for the reader to check.
    fn unknown(&self) -> Vec<String> {
        let mut open = Vec::new();
        if self.gems.is_none() {
            open.push("which gems it has: there is no Gemfile.lock".to_owned());
        }
        if self.path().is_none() {
            open.push("which page users ask for: `path` is a guess".to_owned());
        }
        if self.rails {
            open.push(
                "whether a database for production is there: prepare one, or change RAILS_ENV"
                    .to_owned(),
            );
        }
        let services =
            [("redis", "Redis"), ("sidekiq", "Redis"), ("pg", "PostgreSQL"), ("mysql2", "MySQL")];
        for (gem, service) in services.into_iter().filter(|(gem, _)| self.gem(gem).is_some()) {
            let text = format!(
                "where its {service} is (gem {gem}): it must run, or be a table [services.NAME]"
            );
            let is_known =
                // Two gems can need one service.
                open.iter().any(|known: &String| known.contains(&format!("its {service} is")));
            if !is_known {
                open.push(text);
            }
        }
        if self.jobs {
            open.push("how much Sidekiq takes: only the web server is measured here".to_owned());
        }
        let preload = self.dockerfile.as_deref().and_then(preloaded_in_dockerfile);
        open.extend(
            preload.map(|line| format!("whether the Dockerfile's `{line}` is in effect here too")),
        );
        open
    }
}

fn profile(name: &str, comment: &str) -> VariantText {
    VariantText {
        name: name.to_owned(),
        comment: Some(comment.to_owned()),
        line: Some(format!("profile = \"{name}\"")),
    }
}

/// Editors read it in the first lines of a TOML file: a schema, relative to the file.
const SCHEMA_LINE: &str = "#:schema ./carat.schema.json";

/// The experiment file for an app, and what its files do not say.
///
/// `dir` is the app's folder, where the experiment file will lie in another one.
pub fn app_experiment(app: &AppFolder, dir: Option<&Path>) -> (String, Vec<String>) {
    let (command, why) = app.command();
    let unknown = app.unknown();
    let mut comments = vec![
        "Written by `carat init` from the files of this folder; nothing was started. Run it: carat compare carat.toml".to_owned(),
        "For an editor that knows TOML, the line above names a schema: carat schema > carat.schema.json".to_owned(),
        format!("How it was chosen: {why}."),
    ];
    comments.extend(unknown.iter().map(|one| format!("Not known: {one}.")));
    let path = app.path().unwrap_or_else(|| "/".into());
    let text = ExperimentText {
        comments,
        name: app.name.clone(),
        command,
        environment: app.environment(),
        dir: dir.map(|dir| dir.display().to_string()),
        ready: None,
        within: Some("120s".into()),
        load: format!(
            "[load.http]\npath = {}\nconnections = 4\nrequests = 2000\n",
            super::experiment_text::quoted(&path)
        ),
        variants: app.variants(),
        primary: metric::MEMORY_PSS_FINAL.id,
        guard: (metric::LATENCY_P95.id, "+10%"),
    };
    (format!("{SCHEMA_LINE}\n{}", text.text()), unknown)
}

/// The text of a file of a folder; `None` if there is none of that name.
fn text_in(folder: &Path, name: &str) -> Result<Option<String>, AppFolderError> {
    let path = folder.join(name);
    text_of(&path).map_err(|reason| AppFolderError::Unreadable { path, reason })
}

fn text_of(path: &Path) -> Result<Option<String>, String> {
    let length = match fs::metadata(path) {
        Ok(file) if file.is_file() => file.len(),
        Ok(_) => return Err("it is no file".into()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // A file stands where a folder was expected, so what is asked for is not there.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // The length first: what is no text of a person is not read.
    if length > LONGEST {
        return Err(format!("it has {length} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map(Some).map_err(|_| "it is no text in UTF-8".into())
}

/// The characters of a name that an experiment may have.
fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    // A name must begin with a letter or digit, as the experiment file demands.
    let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    if plain.is_empty() { "app".to_owned() } else { plain }
}

/// Gems and versions: lines of four blanks, `name (version)` (Bundler's lock file).
fn gems(lock: &str) -> BTreeMap<String, String> {
    let specs = lock
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| !line.starts_with(' '));
    let named = specs.filter_map(|line| line.strip_suffix(')')?.split_once(" ("));
    named.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

fn web_process(procfile: &str) -> Option<String> {
    let command = procfile.lines().find_map(|line| line.trim().strip_prefix("web:"))?.trim();
    (!command.is_empty()).then(|| command.to_owned())
}

/// The words of a line of a Procfile, with carat's port; a shell runs what needs one.
fn procfile_words(line: &str) -> Vec<String> {
    let line = with_port(line);
    let needs_shell =
        line.contains(SHELL) || line.contains(['$', '"', '\'']) || has_variable_first(&line);
    match needs_shell {
        // Single braces stay: carat fills in what it knows, and refuses what it does not.
        // `exec`, so that the signals of carat reach the server and not the shell.
        true => ["sh", "-c", &format!("exec {line}")].map(str::to_owned).to_vec(),
        false => line.split_whitespace().map(str::to_owned).collect(),
    }
}

fn has_variable_first(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| word.contains('='))
}

/// `$PORT`, `${PORT}` and `${PORT:-3000}` become carat's port; other variables in braces lose them, because braces are carat's.
fn with_port(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        let after = &rest[at + 1..];
        let (name, tail) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, tail)) => (inner.split(':').next().unwrap_or_default(), tail),
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                after.split_at(end)
            }
        };
        out += &if name == "PORT" { "{port}".to_owned() } else { format!("${name}") };
        rest = tail;
    }
    out + rest
}

/// The path of `get '/x' do`, `get "x", to:` and the like, without parameters.
fn route_in(line: &str) -> Option<String> {
    let rest = line.strip_prefix("get ").or_else(|| line.strip_prefix("get("))?.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let path = rest[1..].split(quote).next()?;
    // A path with a parameter would be asked for literally.
    let is_fixed = path.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
    is_fixed.then(|| format!("/{}", path.trim_start_matches('/')))
}

/// The line of a Dockerfile that preloads an allocator or limits arenas.
fn preloaded_in_dockerfile(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| {
        line.starts_with("ENV") && (line.contains("LD_PRELOAD") || line.contains("MALLOC_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// The text, and what is unknown; the text is a valid experiment.
    fn written(files: &[(&str, &str)]) -> (String, Vec<String>) {
        let folder = folder(files);
        let (text, unknown) = app_experiment(&AppFolder::look(folder.path()).unwrap(), None);
        let plan = Experiment::parse(&text, Path::new("carat.toml"), folder.path())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(plan.variants.len(), 3, "{text}");
        (text, unknown)
    }

    const LOCK: &str = "GEM\n  remote: https://rubygems.org/\n  specs:\n    puma (6.4.2)\n      nio4r (~> 2.0)\n    sinatra (3.0.5)\n    redis (5.0)\n    sidekiq (7.2)\n";

    #[test]
    fn an_app_on_puma_is_started_by_bundler_on_a_free_port_with_a_page_that_it_has() {
        let (text, unknown) = written(&[
            ("Gemfile.lock", LOCK),
            ("config.ru", "run App"),
            ("app.rb", "get '/users/:id' do\nend\nget '/hello' do\nend\n"),
        ]);
        for expected in [
            r#"command = ["bundle", "exec", "puma", "-b", "tcp://127.0.0.1:{port}"]"#,
            r#"path = "/hello""#,
            r#"profile = "low-memory""#,
            r#"RACK_ENV = "production""#,
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        let redis = unknown.iter().filter(|one| one.contains("its Redis is")).count();
        assert_eq!(redis, 1, "{unknown:?}");
    }

    #[test]
    fn a_preloaded_cluster_is_compared_with_prefork() {
        let puma = "workers 4\nthreads 5, 5\npreload_app!\n";
        let (text, unknown) = written(&[
            ("config/puma.rb", puma),
            ("config/application.rb", "module Shop; end"),
            ("config/routes.rb", "Rails.application.routes.draw do\n  root \"posts#index\"\nend\n"),
            ("config.ru", "run Rails.application"),
            ("Dockerfile", "FROM ruby\nENV LD_PRELOAD=libjemalloc.so.2\n"),
        ]);
        assert!(text.contains("profile = \"prefork\"") && text.contains("RAILS_ENV"), "{text}");
        assert!(text.contains("path = \"/\"") && text.contains("command = [\"puma\""), "{text}");
        for expected in ["no Gemfile.lock", "database for production", "LD_PRELOAD=libjemalloc"] {
            assert!(unknown.iter().any(|one| one.contains(expected)), "{expected}: {unknown:?}");
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn the_web_process_of_a_procfile_comes_first_and_gets_carats_port() {
        for (line, expected) in [
            ("bundle exec puma -p $PORT", r#"["bundle", "exec", "puma", "-p", "{port}"]"#),
            ("bin/rails s -p ${PORT:-3000}", r#"["bin/rails", "s", "-p", "{port}"]"#),
            ("A=1 puma -p $PORT -w ${N:-2}", r#"["sh", "-c", "exec A=1 puma -p {port} -w $N"]"#),
        ] {
            let (text, _) = written(&[("Procfile", &format!("worker: x\nweb: {line}\n"))]);
            assert!(text.contains(&format!("command = {expected}")), "{line}\n{text}");
        }
    }

    #[test]
    fn a_folder_without_an_app_and_a_file_that_cannot_be_read_are_named() {
        let look = |files: &[(&str, &str)]| {
            let folder = folder(files);
            AppFolder::look(folder.path()).unwrap_err().to_string()
        };
        assert!(look(&[]).contains("has no Ruby app"), "an empty folder");
        assert!(look(&[("main.py", "x"), ("Dockerfile", "FROM x")]).contains("has no Ruby app"));
        assert!(
            look(&[("config/sidekiq.yml", ":queues: []"), ("Gemfile", "")]).contains("only jobs")
        );
        let of_folder = look(&[("Gemfile.lock/x", ""), ("config.ru", "")]);
        assert!(of_folder.contains("Gemfile.lock cannot be read: it is no file"), "{of_folder}");
        let broken = folder(&[("config.ru", "")]);
        fs::write(broken.path().join("Gemfile.lock"), [0xff, 0xfe, 0]).unwrap();
        let error = AppFolder::look(broken.path()).unwrap_err().to_string();
        assert!(error.contains("no text in UTF-8"), "{error}");
        assert!(AppFolder::look(&broken.path().join("absent")).is_err());
    }

    #[test]
    fn the_name_of_a_folder_becomes_one_that_an_experiment_may_have() {
        for (name, expected) in
            [("my app", "my-app"), ("…", "app"), ("blog-2", "blog-2"), (".x", "x")]
        {
            assert_eq!(plain_name(name), expected);
        }
    }
}
