//! Arguments of jobs, with the job's number and the values of a row of data.

use crate::http::scenario::DataRows;
use carat_model::load::{DataFile, JobArguments};
use carat_model::{TextPart, text_parts, unknown_placeholder};
use serde_json::Value;

/// Placeholder of a job's number, from 1 on.
const NUMBER: &str = "number";

/// Makes the arguments of a load's jobs.
#[derive(Debug)]
pub(crate) struct ArgumentMaker {
    args: Vec<Value>,
    rows: Option<DataRows>,
}

impl ArgumentMaker {
    /// # Errors
    /// If the data cannot be read, or an argument has an unknown placeholder; the message names it.
    pub(crate) fn new(
        args: Option<&JobArguments>,
        data: Option<&DataFile>,
    ) -> Result<Self, String> {
        let rows = data.map(DataRows::read).transpose()?;
        let columns = rows.as_ref().map_or(&[][..], |rows| &rows.columns);
        let args = match args {
            Some(JobArguments(args)) => args.clone(),
            // Data without `args`: the columns are the arguments, in their order.
            None => columns.iter().map(|name| Value::String(format!("{{{name}}}"))).collect(),
        };
        args.iter().try_for_each(|value| check_placeholders(value, columns))?;
        Ok(Self { args, rows })
    }

    /// The arguments of the job of that number, from 1 on.
    pub(crate) fn arguments(&self, number: u64) -> Vec<Value> {
        let row = self.row(number);
        self.args.iter().map(|value| self.filled(value, number, row)).collect()
    }

    /// The values of a job; after the last row comes the first.
    fn row(&self, number: u64) -> &[String] {
        let Some(rows) = &self.rows else { return &[] };
        let at = number.saturating_sub(1) % rows.rows.len().max(1) as u64;
        rows.rows.get(at as usize).map_or(&[], Vec::as_slice)
    }

    fn filled(&self, value: &Value, number: u64, row: &[String]) -> Value {
        match value {
            Value::String(text) => self.filled_text(text, number, row),
            Value::Array(parts) => {
                parts.iter().map(|part| self.filled(part, number, row)).collect()
            }
            Value::Object(fields) => fields
                .iter()
                .map(|(name, part)| (name.clone(), self.filled(part, number, row)))
                .collect(),
            other => other.clone(),
        }
    }

    /// A text that is one placeholder becomes its value, a number where it is one; in a longer text it stays a text.
    fn filled_text(&self, text: &str, number: u64, row: &[String]) -> Value {
        let parts = text_parts(text);
        // One placeholder alone keeps its type, because a job may require a number.
        if let [TextPart::Placeholder(name)] = parts[..] {
            return if name == NUMBER { number.into() } else { typed(self.value_of(name, row)) };
        }
        let mut filled = String::with_capacity(text.len());
        for part in parts {
            match part {
                TextPart::Literal(literal) => filled.push_str(literal),
                TextPart::Placeholder(NUMBER) => filled.push_str(&number.to_string()),
                TextPart::Placeholder(name) => filled.push_str(self.value_of(name, row)),
            }
        }
        Value::String(filled)
    }

    /// The value of a column, which [`ArgumentMaker::new`] has found.
    fn value_of<'a>(&self, name: &str, row: &'a [String]) -> &'a str {
        let columns = self.rows.as_ref().map_or(&[][..], |rows| &rows.columns);
        let at = columns.iter().position(|column| column == name);
        at.and_then(|at| row.get(at)).map_or("", String::as_str)
    }
}

/// A number or truth value of JSON as such, anything else as text.
fn typed(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => Value::String(text.to_owned()),
    }
}

fn check_placeholders(value: &Value, columns: &[String]) -> Result<(), String> {
    match value {
        Value::String(text) => {
            for part in text_parts(text) {
                if let TextPart::Placeholder(name) = part
                    && name != NUMBER
                    && !columns.iter().any(|column| column == name)
                {
                    let known = [NUMBER].into_iter().chain(columns.iter().map(String::as_str));
                    return Err(format!("`args` of a job: {}", unknown_placeholder(name, known)));
                }
            }
            Ok(())
        }
        Value::Array(parts) => parts.iter().try_for_each(|part| check_placeholders(part, columns)),
        Value::Object(fields) => {
            fields.values().try_for_each(|part| check_placeholders(part, columns))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;
    use std::path::Path;

    fn maker(args: Option<&str>, data: Option<&Path>) -> Result<ArgumentMaker, String> {
        let args = args.map(|text| JobArguments(serde_json::from_str(text).unwrap()));
        let data = data.map(|file| DataFile::Named(file.display().to_string()));
        ArgumentMaker::new(args.as_ref(), data.as_ref())
    }

    fn csv(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn arguments_have_the_jobs_number_and_the_values_of_its_row() {
        let file = csv("id,name\n7,ann\n8,007\n");
        let whole = maker(None, Some(file.path())).unwrap();
        assert_eq!(whole.arguments(1), [json!(7), json!("ann")]);
        assert_eq!(whole.arguments(2), [json!(8), json!("007")]);
        assert_eq!(whole.arguments(3), [json!(7), json!("ann")]);
        let args = r#"["{number}", "job {number} of {name}", {"a": ["{id}", "{ x }"]}, null]"#;
        let some = maker(Some(args), Some(file.path())).unwrap();
        let expected = json!([2, "job 2 of 007", { "a": [8, "{ x }"] }, null]);
        assert_eq!(Value::Array(some.arguments(2)), expected);
    }

    #[test]
    fn what_cannot_be_filled_in_is_named_before_the_load() {
        let error = maker(Some("[[\"{nubmer}\"]]"), None).unwrap_err();
        let expected = "`args` of a job: unknown placeholder {nubmer} (did you mean {number}?); known here: {number}";
        assert_eq!(error, expected);
        let file = csv("a,b\n1\n");
        let error = maker(None, Some(file.path())).unwrap_err();
        assert!(error.contains("found record with 1 field"), "{error}");
        let error = maker(None, Some(Path::new("/no/such.csv"))).unwrap_err();
        assert!(error.starts_with("cannot read /no/such.csv"), "{error}");
    }
}
