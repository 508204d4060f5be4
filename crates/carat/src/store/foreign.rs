//! Refuses a results file that carat cannot have written, before anything in it runs.
//!
//! A results file may come from anybody. Its tables can have expressions that SQLite evaluates whenever a row is checked,
//! and its values and rows can be of any number and size.

use crate::store::StoreError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the largest file that is read.
const FILE_MAX: u64 = 4 << 30;
/// Bytes of the largest value. The largest that carat writes are all trials of an attempt at a block.
const VALUE_MAX: i32 = 128 << 20;
/// Bytes of the text of a table.
const TABLE_MAX: i32 = 16 << 10;
/// Variants and trials at most.
const VARIANTS_MAX: i64 = 1_000;
const TRIALS_MAX: i64 = 100_000;
/// Steps of SQLite's machine for one operation, and besides for each byte of the file. A check of all rows needs about one
/// step a byte.
const STEPS: u64 = 200_000_000;
const STEPS_PER_BYTE: u64 = 20;
/// Steps between two looks at what is left.
const STEPS_AT_ONCE: u32 = 10_000;

/// Where the header of SQLite's file format has the versions of its writer and reader: 1 is a rollback journal, 2 a
/// write-ahead log.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// What remains of the steps for the current operation.
#[derive(Debug, Clone)]
pub(crate) struct StepBudget {
    left: Arc<AtomicU64>,
    all: u64,
}

impl StepBudget {
    /// Begins an operation.
    pub(crate) fn refill(&self) {
        self.left.store(self.all, Ordering::Relaxed);
    }

    /// Whether the steps that were just done are within the budget.
    fn spend(&self, steps: u64) -> bool {
        // Subtracted only where enough is left: a counter that wraps around would allow everything.
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(steps));
        left.is_ok()
    }
}

/// Looks at the bytes of `file`, before SQLite does; errors name it `path`.
pub(crate) fn check_bytes(file: &Path, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io(path, error);
    check_journal(file, path)?;
    let mut file = File::open(file).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > FILE_MAX {
        let what = format!("it has more than {} GiB", FILE_MAX >> 30);
        return Err(StoreError::TooLarge { path: path.to_owned(), what });
    }
    let mut header = [0; VERSIONS.end];
    let whole = file.read_exact(&mut header).is_ok() && header.starts_with(b"SQLite format 3\0");
    // Anything else is refused by SQLite, also where a killed run left an empty file.
    if whole && header[VERSIONS] != [1, 1] {
        return Err(unexpected(path, "it has a write-ahead log"));
    }
    Ok(())
}

/// Refuses a rollback journal that is not the file owner's: SQLite writes it back into the file, whoever made it.
fn check_journal(file: &Path, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io(path, error);
    // Without following: a link is no journal that carat left.
    let journal = match std::fs::symlink_metadata(journal_path(file)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    let owner = std::fs::metadata(file).map_err(failed)?.uid();
    match journal.is_file() && journal.uid() == owner {
        true => Ok(()),
        false => Err(unexpected(path, "the journal beside it is not of the same owner")),
    }
}

/// The rollback journal that belongs to a file.
pub(crate) fn journal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

/// Bounds what SQLite does with a file of `size` bytes.
pub(crate) fn restrain(connection: &mut Connection, size: u64) -> rusqlite::Result<StepBudget> {
    // Functions in a schema run only if they are harmless (SQLite, Defense Against The Dark Arts).
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, TABLE_MAX),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 20),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    let all = STEPS.saturating_add(size.saturating_mul(STEPS_PER_BYTE));
    let budget = StepBudget { left: Arc::new(AtomicU64::new(all)), all };
    let spent = budget.clone();
    connection.progress_handler(
        STEPS_AT_ONCE as i32,
        Some(move || !spent.spend(u64::from(STEPS_AT_ONCE))),
    )?;
    // A damaged page is found when it is read, not after it was used.
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(budget)
}

/// Refuses a file whose tables are more than names, types and keys, or that has a view, a trigger or an index.
pub(crate) fn check_tables(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let all = definitions(connection).map_err(|error| StoreError::from_sqlite(path, error))?;
    for (name, sql) in all {
        // A text that cannot be split into plain words is no table of carat's.
        if !is_plain_table(&sql) {
            let name: String = name.chars().take(40).collect();
            return Err(unexpected(path, &format!("`{name}` is not a table as carat makes them")));
        }
    }
    Ok(())
}

/// Refuses a file with more rows than any experiment has.
pub(crate) fn check_rows(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    for (table, most) in [("variant", VARIANTS_MAX), ("trial", TRIALS_MAX)] {
        // The names are our own constants, so nothing of the file gets into the query.
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = connection
            .query_row(&count, [], |row| row.get(0))
            .map_err(|error| StoreError::from_sqlite(path, error))?;
        if rows > most {
            let what = format!("it has {rows} rows of `{table}`, and at most {most} are read");
            return Err(StoreError::TooLarge { path: path.to_owned(), what });
        }
    }
    Ok(())
}

/// The definitions of all tables by name, in one form.
pub(crate) fn tables(connection: &Connection) -> rusqlite::Result<Vec<(String, Vec<String>)>> {
    let all = definitions(connection)?.into_iter();
    // Word by word, so that blanks and comments make no difference.
    Ok(all.map(|(name, sql)| (name, words(&sql).unwrap_or_default())).collect())
}

/// Name and text of everything that a file defines. The indexes of keys have no text.
fn definitions(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL OR type <> 'index' ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default()))
    })?;
    rows.collect()
}

/// Whether a text is `CREATE TABLE` with nothing that SQLite would compute. The only check is `CHECK (only = 1)`.
fn is_plain_table(sql: &str) -> bool {
    const COMPUTED: [&str; 7] =
        ["as", "check", "collate", "default", "generated", "select", "virtual"];
    let Some(words) = words(sql) else { return false };
    // The only check of carat's tables is a constant, so it is taken out before the search.
    let text = words.join(" ").replace("check ( only = 1 )", "");
    text.starts_with("create table ")
        && text.split(' ').all(|word| word != "=" && !COMPUTED.contains(&word))
}

/// The words of a definition in lower case, and its brackets, commas and `=`, without comments. `None` if it has anything
/// else, such as a quotation.
fn words(sql: &str) -> Option<Vec<String>> {
    // A `--` within a quotation would end nothing, but a quotation is refused below.
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in lines.flat_map(|line| line.chars().chain(['\n'])) {
        let c = c.to_ascii_lowercase();
        match c {
            'a'..='z' | '0'..='9' | '_' if in_word => words.last_mut()?.push(c),
            'a'..='z' | '0'..='9' | '_' | '(' | ')' | ',' | '=' => words.push(c.to_string()),
            c if c.is_ascii_whitespace() => {}
            _ => return None,
        }
        in_word = c.is_ascii_alphanumeric() || c == '_';
    }
    Some(words)
}

fn unexpected(path: &Path, what: &str) -> StoreError {
    StoreError::Unexpected { path: path.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_files::own_user;

    #[test]
    fn a_journal_that_is_a_link_or_another_users_is_refused_and_one_of_the_same_owner_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.carat");
        std::fs::write(&file, "SQLite format 3\0").unwrap();
        let journal = journal_path(&file);
        check_bytes(&file, &file).unwrap();
        std::fs::write(&journal, "").unwrap();
        check_bytes(&file, &file).unwrap();
        if own_user() == 0 {
            std::os::unix::fs::chown(&journal, Some(65534), None).unwrap();
            check_bytes(&file, &file).unwrap_err();
        }
        std::fs::remove_file(&journal).unwrap();
        std::os::unix::fs::symlink(&file, &journal).unwrap();
        check_bytes(&file, &file).unwrap_err();
    }

    #[test]
    fn only_tables_of_names_types_and_keys_are_plain() {
        for (sql, plain) in [
            (
                "CREATE TABLE a (only INTEGER PRIMARY KEY CHECK (only = 1), b TEXT NOT NULL) STRICT",
                true,
            ),
            (
                "CREATE TABLE a (\n  b TEXT REFERENCES c (d), -- a comment\n  UNIQUE (b)\n) STRICT, WITHOUT ROWID",
                true,
            ),
            ("CREATE TABLE a (b CHECK (length(zeroblob(b)) > 0))", false),
            ("CREATE TABLE a (only CHECK (only = 1), b CHECK (only = 1 or hex(b)))", false),
            ("CREATE TABLE a (b, c AS (b || b))", false),
            ("CREATE TABLE a (b DEFAULT (randomblob(9)))", false),
            ("CREATE TABLE a (b COLLATE x)", false),
            ("CREATE TABLE \"a b\" (b)", false),
            ("CREATE VIEW a AS SELECT 1", false),
            ("CREATE VIRTUAL TABLE a USING x (b)", false),
            ("CREATE TRIGGER a AFTER INSERT ON b BEGIN SELECT 1; END", false),
            ("CREATE INDEX a ON b (c)", false),
            ("", false),
        ] {
            assert_eq!(is_plain_table(sql), plain, "{sql}");
        }
    }

    #[test]
    fn the_budget_of_an_operation_ends_and_is_refilled() {
        let mut connection = Connection::open_in_memory().unwrap();
        let budget = restrain(&mut connection, 0).unwrap();
        budget.left.store(1_000_000, Ordering::Relaxed);
        let endless =
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
        let error = connection.query_row(endless, [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
        budget.refill();
        connection.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).unwrap();
    }
}
