//! The experiment for the app in a folder, as far as its files tell how it is started. Nothing is run.

mod database;
mod procfile;
mod puma;
mod rails;
mod read_pages;
mod routes;
mod text;

pub use text::AppFolderError;

use crate::input::app::procfile::{AppProcess, processes, procfile_words};
use crate::input::app::puma::PumaConfig;
use crate::input::app::rails::RailsApp;
use crate::input::app::read_pages::most_read;
use crate::input::app::routes::sinatra_page;
use crate::input::app::text::{statements, text_in};
use crate::input::experiment_text::{ExperimentText, VariantText, quoted};
use carat_model::metric;
use std::collections::BTreeMap;
use std::path::Path;

/// The files of a folder that tell how its app is started.
#[derive(Debug, Clone, Default)]
pub struct AppFolder {
    name: String,
    /// Versions of gems by name; `None` without a lock file.
    gems: Option<BTreeMap<String, String>>,
    has_gemfile: bool,
    /// Processes of the Procfile; `None` without one.
    procfile: Option<Vec<AppProcess>>,
    puma: Option<PumaConfig>,
    /// The configuration of Unicorn: where it is and its text.
    unicorn: Option<(&'static str, String)>,
    rackup: bool,
    rails: Option<RailsApp>,
    /// Where Sidekiq is configured.
    jobs: Option<&'static str>,
    dockerfile: Option<String>,
    /// A page that a file of Sinatra's names.
    page: Option<String>,
    /// Pages that are read most, by the log.
    read_most: Vec<String>,
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
        let lock = text_in(folder, "Gemfile.lock")?;
        let gems = lock.as_deref().map(gems);
        let has_gem = |name: &str| gems.as_ref().is_some_and(|gems| gems.contains_key(name));
        let puma = first_text(folder, ["config/puma.rb", "puma.rb"])?;
        let mut pages = Vec::new();
        for name in ["config.ru", "app.rb", "server.rb", "main.rb"] {
            pages.extend(text_in(folder, name)?.as_deref().and_then(sinatra_page));
        }
        // The folder's own name, also where `.` was given.
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let found = Self {
            name: real.file_name().map_or("app".into(), |name| plain_name(&name.to_string_lossy())),
            has_gemfile: lock.is_some() || folder.join("Gemfile").exists(),
            procfile: text_in(folder, "Procfile")?.as_deref().map(processes),
            puma: puma.map(|(name, text)| PumaConfig { name, text }),
            unicorn: first_text(folder, ["config/unicorn.rb", "unicorn.rb"])?,
            rackup: folder.join("config.ru").exists(),
            rails: RailsApp::look(folder, has_gem)?,
            jobs: ["config/sidekiq.yml", "sidekiq.yml"]
                .into_iter()
                .find(|name| folder.join(name).exists()),
            dockerfile: text_in(folder, "Dockerfile")?,
            page: pages.into_iter().next(),
            // Only a proposal comes from it, so a log that must not be read hinders nobody.
            read_most: most_read(&folder.join("log/production.log")).unwrap_or_default(),
            gems,
        };
        let is_app =
            found.rackup || found.rails.is_some() || found.has_gemfile || found.procfile.is_some();
        match (is_app, found.serves()) {
            (false, _) => Err(AppFolderError::NoApp(folder.to_owned())),
            // A web server that cannot start cannot be measured.
            (true, false) => Err(found.no_server(folder)),
            (true, true) => Ok(found),
        }
    }

    /// Whether something is known that a web server would serve.
    fn serves(&self) -> bool {
        // Servers look for config.ru unless they are told otherwise, which Puma's configuration can do.
        let by_puma = self.puma.as_ref().is_some_and(PumaConfig::names_app);
        self.rackup || self.rails.is_some() || self.web().is_some() || by_puma
    }

    fn no_server(&self, folder: &Path) -> AppFolderError {
        let others = self.others();
        let named: Vec<String> =
            others.iter().map(|(place, one)| format!("{place} ({})", one.line)).collect();
        let what = match others.first() {
            Some((_, one)) => {
                let (record, how) = one.measured_by();
                let whose = if named.len() == 1 { "its memory" } else { "memory of the first" };
                format!("it has {}; {whose} over time: {record}; {how}", named.join(", "))
            }
            None => "write the file by hand (docs/reference/experiment.md)".to_owned(),
        };
        AppFolderError::NoServer { folder: folder.to_owned(), what }
    }

    /// The line that starts the process `web` of the Procfile.
    fn web(&self) -> Option<&str> {
        let web = self.procfile.iter().flatten().find(|one| one.name == "web")?;
        Some(&web.line)
    }

    /// Processes beside the web server, and where each was found.
    fn others(&self) -> Vec<(String, AppProcess)> {
        let named = self.procfile.iter().flatten().filter(|one| one.name != "web");
        let mut others: Vec<(String, AppProcess)> =
            named.map(|one| (format!("`{}` of the Procfile", one.name), one.clone())).collect();
        if let Some(file) = self.jobs
            && !others.iter().any(|(_, one)| one.line.contains("sidekiq"))
        {
            let line = self.bundled(&["sidekiq"]).join(" ");
            others.push((file.to_owned(), AppProcess { name: "sidekiq".into(), line }));
        }
        others
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
        if let Some(web) = self.web() {
            return (procfile_words(web), "the command is that of `web` in the Procfile".into());
        }
        if puma_is_there {
            let bind = "tcp://127.0.0.1:{port}";
            let config: &[&str] = match &self.puma {
                // Puma finds this one itself, and with -C it would leave out config/puma/production.rb.
                Some(PumaConfig { name: "config/puma.rb", .. }) | None => &["puma", "-b", bind],
                Some(puma) => &["puma", "-C", puma.name, "-b", bind],
            };
            return (self.bundled(config), "the command is Puma's, bound to a free port".into());
        }
        if let Some((config, _)) = self.unicorn {
            let words = ["unicorn", "-c", config, "-l", "127.0.0.1:{port}"];
            return (
                self.bundled(&words),
                format!("the command is Unicorn's, because of {config}"),
            );
        }
        if self.rails.is_some() {
            let words = ["rails", "server", "-b", "127.0.0.1", "-p", "{port}"];
            return (self.bundled(&words), "the command is `rails server`".into());
        }
        let words = ["rackup", "-o", "127.0.0.1", "-p", "{port}"];
        (self.bundled(&words), "no server was found in the files, so rackup chooses one".into())
    }

    fn environment(&self) -> Vec<(String, String)> {
        // A server that is told its port by a variable must not take its usual one.
        let mut variables = vec![("PORT", "{port}")];
        match &self.rails {
            Some(rails) => variables.extend(rails.environment()),
            None => variables.push(("RACK_ENV", "production")),
        }
        // The file of a server that runs in this folder must stay, and `rails server` refuses to start beside it.
        if self.rails.is_some() || self.puma.as_ref().is_some_and(PumaConfig::pid_file_is_variable)
        {
            variables.push(("PIDFILE", "{dir}/server.pid"));
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// A path that answers, if the files name one.
    pub(super) fn path(&self) -> Option<String> {
        self.rails.as_ref().map_or_else(|| self.page.clone(), RailsApp::page)
    }

    /// The path that answers when the server is ready; `None` where its port has to say it.
    fn ready(&self) -> Option<String> {
        // A master listens before its workers have loaded the app, so its port says nothing of them.
        let page = || self.path().filter(|_| self.forks());
        self.rails.as_ref().and_then(RailsApp::health_check).or_else(page)
    }

    /// Whether the files say that workers are forked.
    pub(super) fn forks(&self) -> bool {
        self.puma.as_ref().map_or(self.unicorn.is_some(), PumaConfig::forks)
    }

    /// Whether they are, with the app loaded before; `workers` is their number where it is known otherwise.
    pub(super) fn preloads(&self, workers: Option<u32>) -> bool {
        match (&self.puma, &self.unicorn) {
            (Some(puma), _) => puma.preloads(self.gem("puma"), workers),
            (None, Some((_, text))) => {
                statements(text).any(|line| line.starts_with("preload_app true"))
            }
            (None, None) => false,
        }
    }

    fn variants(&self) -> Vec<VariantText> {
        let default = VariantText { name: "default".into(), ..VariantText::default() };
        let little = "Less free memory, at little cost.";
        match self.preloads(None) {
            true => vec![default, profile("balanced", little), self.prefork()],
            false => vec![
                default,
                profile("balanced", &format!("{little} {NO_FORK}")),
                profile("low-memory", &format!("Smaller still, and slower. {NO_FORK}")),
            ],
        }
    }

    fn prefork(&self) -> VariantText {
        let needs = "For workers that are forked from a loaded app; needs jemalloc (libjemalloc2).";
        let prefork = profile("prefork", needs);
        if self.read_most.is_empty() {
            return prefork;
        }
        let pages = self.read_most.iter().map(|page| quoted(page)).collect();
        // A comment: a log does not tell whether a page only reads.
        let proposed = format!(
            "# Pages that log/production.log has most often. If they only read and need no login, the parent can request\n\
             # them before it forks, so that workers share what they fill:\n\
             # settings = {{ warm_paths = {} }}",
            toml::Value::Array(pages)
        );
        let line = prefork.line.map(|line| format!("{line}\n{proposed}"));
        VariantText { line, ..prefork }
    }

    /// What the files do not say of how it is started.
    fn unknown_start(&self) -> Vec<String> {
        let mut open = Vec::new();
        if self.procfile.is_some() && self.web().is_none() {
            open.push("what starts it in production: the Procfile has no process `web`".to_owned());
        }
        let (words, _) = self.command();
        if words.iter().any(|word| word == "rackup") && self.web().is_none() {
            open.push("which server it has: `rackup` is a guess".to_owned());
        }
        let reads_variable = self.puma.as_ref().is_some_and(|puma| puma.text.contains("PORT"));
        if !reads_variable && !words.iter().any(|word| word.contains("{port}")) {
            open.push(
                "whether its server listens on the free port that carat gives in the variable PORT: the command names none"
                    .to_owned(),
            );
        }
        open
    }

    /// What the files do not say, for the reader to check.
    fn unknown(&self) -> Vec<String> {
        let mut open = self.unknown_start();
        if self.gems.is_none() {
            open.push("which gems it has: there is no Gemfile.lock".to_owned());
        }
        open.push(match self.path() {
            Some(path) => format!(
                "which pages users ask for most: only {path} is requested; `routes` in place of `path` takes several"
            ),
            None => "which page users ask for: `path` is a guess, and no answer with a status of 400 or more counts"
                .to_owned(),
        });
        open.extend(self.rails.iter().flat_map(RailsApp::unknown));
        if let Some((puma, file)) =
            self.puma.as_ref().and_then(|puma| Some((puma, puma.fixed_file()?)))
        {
            open.push(format!(
                "whether a server of this folder runs: {} writes {file}, which a trial would replace",
                puma.name
            ));
        }
        let services =
            [("redis", "Redis"), ("sidekiq", "Redis"), ("pg", "PostgreSQL"), ("mysql2", "MySQL")];
        for (gem, service) in services.into_iter().filter(|(gem, _)| self.gem(gem).is_some()) {
            let text = format!(
                "where its {service} is (gem {gem}), and what it has in production: it must run, or be a table [services.NAME]"
            );
            let is_known =
                // Two gems can need one service.
                open.iter().any(|known: &String| known.contains(&format!("its {service} is")));
            if !is_known {
                open.push(text);
            }
        }
        open.extend(self.others().into_iter().map(|(place, one)| {
            let (record, how) = one.measured_by();
            format!(
                "what {place} takes ({}): only the web server is measured here. Its memory over time: {record}; {how}",
                one.line
            )
        }));
        let preload = self.dockerfile.as_deref().and_then(preloaded_in_dockerfile);
        open.extend(
            preload.map(|line| format!("whether the Dockerfile's `{line}` is in effect here too")),
        );
        open
    }
}

/// Said of a profile with a prepared fork, for an app that forks none; the verdict notes it too.
const NO_FORK: &str =
    "Its `prepare_fork` has no effect, because no worker is forked from the loaded app.";

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
    let unknown = app.unknown();
    let mut text = app_text(app, dir);
    let (_, why) = app.command();
    text.comments = vec![
        "Written by `carat init` from the files of this folder; nothing was started. Run it: carat compare carat.toml".to_owned(),
        "For an editor that knows TOML, the line above names a schema: carat schema > carat.schema.json".to_owned(),
        format!("How it was chosen: {why}."),
    ];
    text.comments.extend(unknown.iter().map(|one| format!("Not known: {one}.")));
    (format!("{SCHEMA_LINE}\n{}", text.text()), unknown)
}

/// The experiment of an app, without comments.
pub(super) fn app_text(app: &AppFolder, dir: Option<&Path>) -> ExperimentText {
    let path = app.path().unwrap_or_else(|| "/".into());
    let headers = app.rails.iter().flat_map(RailsApp::headers);
    let headers: Vec<String> =
        headers.map(|(name, value)| format!("{name} = {}", quoted(&value))).collect();
    let headers = match headers.is_empty() {
        true => String::new(),
        false => format!("headers = {{ {} }}\n", headers.join(", ")),
    };
    // Pages of Rails take long: with so many a first verdict on Redmine takes a quarter of an hour on two cores.
    let requests = if app.rails.is_some() { 1000 } else { 2000 };
    ExperimentText {
        comments: Vec::new(),
        name: app.name.clone(),
        command: app.command().0,
        environment: app.environment(),
        dir: dir.map(|dir| dir.display().to_string()),
        ready: app.ready(),
        within: Some("120s".into()),
        load: format!(
            "[load.http]\npath = {}\n{headers}connections = 4\nrequests = {requests}\n",
            quoted(&path)
        ),
        variants: app.variants(),
        primary: metric::MEMORY_PSS_FINAL.id,
        guard: (metric::LATENCY_P95.id, "+10%"),
    }
}

/// The first of two files that is there.
fn first_text(
    folder: &Path,
    names: [&'static str; 2],
) -> Result<Option<(&'static str, String)>, AppFolderError> {
    for name in names {
        if let Some(text) = text_in(folder, name)? {
            return Ok(Some((name, text)));
        }
    }
    Ok(None)
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

/// The line of a Dockerfile that preloads an allocator or limits arenas.
fn preloaded_in_dockerfile(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| {
        line.starts_with("ENV") && (line.contains("LD_PRELOAD") || line.contains("MALLOC_"))
    })
}

#[cfg(test)]
mod tests;
