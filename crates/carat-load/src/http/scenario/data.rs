//! The users' values, from a file of comma-separated values.

use crate::LoadContent;
use carat_model::is_placeholder_name;
use carat_model::load::DataFile;
use std::path::Path;

/// Rows of values. Without a file there is one row without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRows {
    /// Names in the first line of a CSV file, or the keys of its JSON objects.
    pub columns: Vec<String>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Default for DataRows {
    fn default() -> Self {
        Self { columns: Vec::new(), rows: vec![Vec::new()] }
    }
}

impl DataRows {
    /// Whether every row has a value of every column.
    pub fn is_rectangular(&self) -> bool {
        self.rows.iter().all(|row| row.len() == self.columns.len())
    }

    /// # Errors
    /// If the file cannot be read, has another content than the plan names, or is malformed; the message names it.
    pub fn read(data: &DataFile) -> Result<Self, String> {
        let content = LoadContent::read_planned(Path::new(data.file()), data.sha256())?;
        read_rows(&content.bytes).map_err(|what| format!("{}: {what}", data.file()))
    }
}

/// Reads a line of names, then rows of as many values.
///
/// # Errors
/// If a row has another length, a name is not one of a placeholder, or there is no row.
pub fn read_rows(text: &[u8]) -> Result<DataRows, String> {
    let mut reader = csv::Reader::from_reader(text);
    let header = reader.headers().map_err(|error| error.to_string())?;
    let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    for (at, column) in columns.iter().enumerate() {
        // `{user}` is the number of a user, and a dot belongs to `{env.NAME}`.
        if !is_placeholder_name(column) || column.contains('.') || column == "user" {
            return Err(format!(
                "column `{column}` cannot be a placeholder: a name begins with a lower-case letter, has letters, digits, `_` and `-`, and is not `user`"
            ));
        }
        if columns[..at].contains(column) {
            return Err(format!("two columns are called `{column}`: rename one"));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        rows.push(record.iter().map(str::to_owned).collect());
    }
    if rows.is_empty() {
        return Err("it has no rows below the line of names: add one".to_owned());
    }
    Ok(DataRows { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_values_of_their_columns() {
        let data = read_rows(b"name, pass\r\nann,\"a,1\"\nbob,b\n").unwrap();
        assert_eq!(data.columns, ["name", "pass"]);
        assert_eq!(data.rows, [["ann", "a,1"], ["bob", "b"]]);
    }

    #[test]
    fn malformed_files_are_refused_with_a_reason() {
        for (text, expected) in [
            (&b""[..], "no rows"),
            (b"a,b\n", "no rows"),
            (b"a,b\n1\n", "found record with"),
            (b"a,b\n1,2,3\n", "found record with"),
            (b"a,A\n1,2\n", "column `A` cannot be a placeholder"),
            (b"a,user\n1,2\n", "column `user` cannot"),
            (b"a,\n1,2\n", "column `` cannot"),
            (b"a,a\n1,2\n", "two columns"),
            (b"a\n\xff\n", "UTF-8"),
        ] {
            let error = read_rows(text).unwrap_err();
            assert!(error.contains(expected), "{}: {error}", text.escape_ascii());
        }
        let missing = DataRows::read(&DataFile::Named("/no/such.csv".to_owned())).unwrap_err();
        assert!(missing.starts_with("cannot read /no/such.csv"), "{missing}");
    }
}
