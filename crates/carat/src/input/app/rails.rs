//! What the files of a Rails app say of a start in production. They are programs: what their lines say is read, and nothing of them
//! is run.

use crate::input::app::database::{ProductionDatabase, production_database};
use crate::input::app::routes::{health_check, rails_page};
use crate::input::app::text::{AppFolderError, literal, statements, text_in};
use std::fs;
use std::path::Path;

/// Encrypted files and the keys that open them, those of production first.
const KEYS: [(&str, &str); 2] = [
    ("config/credentials/production.yml.enc", "config/credentials/production.key"),
    ("config/credentials.yml.enc", "config/master.key"),
];
/// Gems that compile assets, and where those are then.
const PIPELINES: [(&str, &str); 5] = [
    ("vite_rails", "public/vite"),
    ("shakapacker", "public/packs"),
    ("webpacker", "public/packs"),
    ("propshaft", "public/assets"),
    ("sprockets-rails", "public/assets"),
];

/// What production needs of a folder.
#[derive(Debug, Clone, Default)]
pub(super) struct RailsApp {
    /// `config/environments/production.rb`
    production: String,
    routes: String,
    /// `None` without one, or where a gem names its server.
    database: Option<ProductionDatabase>,
    /// The file of a key that is not there.
    missing_key: Option<&'static str>,
    /// A folder of compiled assets that is not there.
    missing_assets: Option<&'static str>,
}

impl RailsApp {
    /// Looks at a folder; `None` if it has no Rails app.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn look(
        folder: &Path,
        has_gem: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, AppFolderError> {
        let is_there = |name: &str| folder.join(name).exists();
        if !is_there("config/application.rb") {
            return Ok(None);
        }
        let text = |name| text_in(folder, name).map(Option::unwrap_or_default);
        // It may hold a password, so that only the server's user can read it: then nothing is known of it.
        let database =
            text_in(folder, "config/database.yml").unwrap_or_else(|_| Some(String::new()));
        // Without the file its place may be in DATABASE_URL.
        let database = database.or_else(|| has_gem("sqlite3").then(String::new));
        // Of a server the question is where it runs, which is asked for every app.
        let database = database.filter(|_| !has_gem("pg") && !has_gem("mysql2"));
        let has_files = |name: &str| {
            fs::read_dir(folder.join(name)).is_ok_and(|mut files| files.next().is_some())
        };
        // An API has no assets, though its lock file has the gem.
        let pipeline = PIPELINES.iter().find(|(gem, _)| is_there("app/assets") && has_gem(gem));
        Ok(Some(Self {
            production: text("config/environments/production.rb")?,
            routes: text("config/routes.rb")?,
            database: database.as_deref().map(|text| production_database(text, &is_there)),
            missing_key: KEYS
                .iter()
                .find(|(file, _)| is_there(file))
                .and_then(|(_, key)| (!is_there(key)).then_some(*key)),
            missing_assets: pipeline
                .and_then(|(_, compiled)| (!has_files(compiled)).then_some(*compiled)),
        }))
    }

    /// A path that answers, if the routes name one.
    pub(super) fn page(&self) -> Option<String> {
        rails_page(&self.routes)
    }

    /// The path that answers once the app has booted, if every host may ask for it.
    pub(super) fn health_check(&self) -> Option<String> {
        let for_all = self.value("config.hosts").is_none();
        health_check(&self.routes).filter(|_| for_all)
    }

    /// What a statement of the production environment assigns or appends.
    fn value(&self, name: &str) -> Option<&str> {
        let found = statements(&self.production).filter_map(|line| {
            let rest = line.strip_prefix(name)?.trim_start();
            rest.strip_prefix("<<").or_else(|| rest.strip_prefix('='))
        });
        found.last().map(str::trim)
    }

    fn is_true(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.starts_with("true"))
    }

    fn host(&self) -> Option<&str> {
        let host = literal(self.value("config.hosts")?.trim_start_matches(['[', ' ']))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        // A dot at the beginning stands for every host below it.
        host.chars().all(is_plain).then(|| host.trim_start_matches('.'))
    }

    /// Headers without which it would answer with something else than its pages.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        // As behind a proxy that ends TLS: otherwise every answer is a redirect to https.
        if self.is_true("config.force_ssl") && !self.is_true("config.assume_ssl") {
            headers.push(("X-Forwarded-Proto", "https".to_owned()));
        }
        headers.extend(self.host().map(|host| ("Host", host.to_owned())));
        headers
    }

    /// Variables for a start in production.
    pub(super) fn environment(&self) -> Vec<(&'static str, &'static str)> {
        let mut variables = vec![
            ("RAILS_ENV", "production"),
            // Rails does not boot in production without one, and this one protects nothing.
            ("SECRET_KEY_BASE", "only-for-measuring-with-carat-0123456789abcdef"),
        ];
        // With it the reason of a failed request is in the trial's log, and the log of the app does not grow.
        if statements(&self.production).any(|line| line.contains("RAILS_LOG_TO_STDOUT")) {
            variables.push(("RAILS_LOG_TO_STDOUT", "1"));
        }
        variables
    }

    /// What is missing, or not said.
    pub(super) fn unknown(&self) -> Vec<String> {
        let mut open = Vec::new();
        open.extend(self.database.as_ref().and_then(ProductionDatabase::unknown));
        if let Some(key) = self.missing_key {
            let needed = match self.is_true("config.require_master_key") {
                true => "it does not boot without it",
                false => "it boots, but cannot read its credentials",
            };
            open.push(format!("its key: {key} is not here, and {needed}: set RAILS_MASTER_KEY"));
        }
        if let Some(folder) = self.missing_assets.filter(|_| !self.is_true("config.assets.compile"))
        {
            open.push(format!(
                "whether its pages need assets, which are not compiled ({folder} is empty): a page that names one answers with status \
                 500 until `RAILS_ENV=production SECRET_KEY_BASE=x bin/rails assets:precompile`"
            ));
        }
        if self.value("config.hosts").is_some() && self.host().is_none() {
            open.push(
                "which host it answers (config.hosts): give `headers = { Host = \"…\" }`".into(),
            );
        }
        open
    }
}
