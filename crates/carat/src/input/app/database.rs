//! The production database of `config/database.yml`, by its lines: with ERB in it, the file is no YAML.

const PRODUCTION: &str = "production";

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProductionDatabase {
    /// A file of SQLite's that is there.
    There,
    /// One that is not.
    Missing(String),
    /// SQLite without the name of a file.
    Unnamed,
    /// A server, or what cannot be told.
    Elsewhere,
}

impl ProductionDatabase {
    /// What the user must find out or do.
    pub(super) fn unknown(&self) -> Option<String> {
        match self {
            Self::There => None,
            Self::Missing(file) => Some(format!(
                "what is in its database: {file} is not there; `RAILS_ENV=production SECRET_KEY_BASE=x bin/rails db:prepare` makes it, empty"
            )),
            Self::Unnamed => Some(
                "where its database is: config/database.yml names no file for production; set DATABASE_URL, or name one".into(),
            ),
            Self::Elsewhere => Some(
                "whether a database for production is there: prepare one, or change RAILS_ENV".into(),
            ),
        }
    }
}

/// The production database, as far as the lines say.
pub(super) fn production_database(
    text: &str,
    is_there: &dyn Fn(&str) -> bool,
) -> ProductionDatabase {
    let value = |key: &str| {
        let own = value_in(text, PRODUCTION, key);
        // `<<: *default` takes over what the section does not have.
        own.or_else(|| {
            value_in(text, value_in(text, PRODUCTION, "<<")?.trim_start_matches('*'), key)
        })
    };
    if value("adapter").is_none_or(|adapter| adapter != "sqlite3") {
        return ProductionDatabase::Elsewhere;
    }
    match value("database") {
        None => ProductionDatabase::Unnamed,
        Some(file) if file.contains("<%") => ProductionDatabase::Elsewhere,
        Some(file) if is_there(file) => ProductionDatabase::There,
        Some(file) => ProductionDatabase::Missing(file.to_owned()),
    }
}

/// The first value of a key in a section, also in one of several databases below it.
fn value_in<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    let is_section = |line: &&str| line.split_once(':').is_some_and(|(name, _)| name == section);
    let lines = text.lines().filter(|line| !is_comment(line) && !line.trim().is_empty());
    let inside = lines.skip_while(|line| !is_section(line)).skip(1);
    let mut inside = inside.take_while(|line| line.starts_with([' ', '\t']));
    inside.find_map(|line| {
        let (name, value) = line.trim().split_once(':')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (name == key && !value.is_empty()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_production_is_known_as_rails_writes_it_and_is_looked_for() {
        let sqlite = "default: &default\n  adapter: sqlite3\n  pool: <%= ENV.fetch(\"X\") { 5 } %>\n\ndevelopment:\n  <<: *default\n  database: db/development.sqlite3\n\n";
        let missing = |file: &str| ProductionDatabase::Missing(file.into());
        for (production, expected) in [
            (
                "production:\n  <<: *default\n  database: db/production.sqlite3\n",
                missing("db/production.sqlite3"),
            ),
            ("production:\n  <<: *default\n  # database: path/to/x\n", ProductionDatabase::Unnamed),
            (
                "production:\n  primary:\n    <<: *default\n    database: storage/p.sqlite3\n  cache:\n    database: storage/c.sqlite3\n",
                missing("storage/p.sqlite3"),
            ),
            (
                "production:\n  <<: *default\n  database: db/here.sqlite3\n",
                ProductionDatabase::There,
            ),
            (
                "production:\n  <<: *default\n  database: <%= ENV['DB'] %>\n",
                ProductionDatabase::Elsewhere,
            ),
            (
                "production:\n  adapter: postgresql\n  database: shop\n",
                ProductionDatabase::Elsewhere,
            ),
            ("", ProductionDatabase::Elsewhere),
        ] {
            let text = format!("{sqlite}{production}");
            let found = production_database(&text, &|file| file == "db/here.sqlite3");
            assert_eq!(found, expected, "{production}");
        }
    }
}
