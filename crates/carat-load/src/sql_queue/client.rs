//! A connection to the jobs' database.

use crate::sql_queue::psql::Psql;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::time::Duration;

/// The database of a load.
#[derive(Debug)]
pub(super) enum SqlClient {
    Postgres(Psql),
    Sqlite(Connection),
}

impl SqlClient {
    /// # Errors
    /// If the URL is neither of PostgreSQL nor of a file, or the file cannot be opened.
    pub(super) fn open(url: &str, timeout: Duration) -> Result<Self, String> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            // Not created: a new file would have no tables.
            let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
                .map_err(|error| format!("cannot open {file}: {error}"))?;
            // A worker may hold the lock for a moment; without a timeout that would be an error.
            connection.busy_timeout(timeout).map_err(|error| error.to_string())?;
            return Ok(Self::Sqlite(connection));
        }
        if url.starts_with("postgresql://") || url.starts_with("postgres://") {
            return Psql::open(url, timeout).map(Self::Postgres);
        }
        Err("the database of a load is `postgresql://…` or `sqlite:FILE`".to_owned())
    }

    pub(super) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// The rows of one statement; for SQLite also of none.
    ///
    /// # Errors
    /// What the database says.
    pub(super) fn rows(&mut self, statement: &str) -> Result<Vec<Vec<String>>, String> {
        match self {
            Self::Postgres(psql) => psql.rows(statement),
            Self::Sqlite(connection) => {
                sqlite_rows(connection, statement).map_err(|error| error.to_string())
            }
        }
    }

    /// Executes statements in one transaction.
    ///
    /// # Errors
    /// What the database says; then nothing is changed.
    pub(super) fn execute(&mut self, statements: &[String]) -> Result<(), String> {
        match self {
            Self::Postgres(psql) => statements.iter().try_for_each(|one| psql.rows(one).map(drop)),
            Self::Sqlite(connection) => {
                // `IMMEDIATE` locks at once: raising a read lock later can fail as busy.
                let text = format!("BEGIN IMMEDIATE; {}; COMMIT", statements.join("; "));
                connection.execute_batch(&text).map_err(|error| {
                    // A failed COMMIT may leave it open; an error here means that it is gone.
                    let _ = connection.execute_batch("ROLLBACK");
                    error.to_string()
                })
            }
        }
    }
}

fn sqlite_rows(connection: &Connection, statement: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut prepared = connection.prepare(statement)?;
    let columns = prepared.column_count();
    let mut rows = prepared.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut values = Vec::new();
        for column in 0..columns {
            values.push(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) | ValueRef::Blob(text) => {
                    String::from_utf8_lossy(text).into_owned()
                }
            });
        }
        found.push(values);
    }
    Ok(found)
}

/// A text as a literal of SQL.
pub(super) fn literal(text: &str) -> String {
    // PostgreSQL has no zero character in a text.
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_keeps_its_quotes() {
        assert_eq!(literal("it's; \\ -- x\0"), "'it''s; \\ -- x'");
    }

    #[test]
    fn sqlite_statements_change_everything_or_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = format!("sqlite:{}", file.path().display());
        let mut client = SqlClient::open(&url, Duration::from_secs(1)).unwrap();
        client.execute(&["CREATE TABLE t (a, b)".to_owned()]).unwrap();
        let insert = "INSERT INTO t VALUES (1, 'x'), (2.5, NULL)".to_owned();
        client.execute(&[insert.clone(), "no sql".to_owned()]).unwrap_err();
        assert_eq!(client.rows("SELECT * FROM t").unwrap(), Vec::<Vec<String>>::new());
        client.execute(&[insert]).unwrap();
        assert_eq!(client.rows("SELECT * FROM t").unwrap(), [["1", "x"], ["2.5", ""]]);
    }

    #[test]
    fn a_database_that_is_not_there_is_named() {
        for (url, expected) in [
            ("sqlite:/no/such/file", "cannot open /no/such/file"),
            ("mysql://h/d", "`postgresql://…` or `sqlite:FILE`"),
        ] {
            let error = SqlClient::open(url, Duration::from_secs(1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
