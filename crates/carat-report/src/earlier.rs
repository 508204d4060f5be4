//! What earlier output is recognised by, so that a command replaces that and no other file.

use crate::exports::{CSV_COLUMNS, schema_of};
use crate::markdown::MARKER;
use crate::page::PAGE_START;

/// A form of output that is written under a name that a user gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    Page,
    Markdown,
    /// JSON whose schema has this name, such as `carat.results`.
    Json(&'static str),
    /// JSON of a period of a store of `carat watch`, which names no schema.
    Period,
    Csv,
    Openmetrics,
    /// Text for people: nothing in it tells it from other text.
    Text,
}

impl OutputForm {
    /// Whether Carat wrote this content, in this form. Unknown is no.
    pub fn wrote(self, content: &[u8]) -> bool {
        let begins = |start: &str| content.starts_with(start.as_bytes());
        match self {
            Self::Page => begins(PAGE_START),
            Self::Markdown => begins(MARKER),
            Self::Json(name) => std::str::from_utf8(content)
                .ok()
                .and_then(|text| schema_of(text).ok())
                .is_some_and(|schema| schema.split('/').next() == Some(name)),
            Self::Period => begins("{\n  \"from_ms\": "),
            Self::Csv => begins(&CSV_COLUMNS.join(",")),
            Self::Openmetrics => begins("# TYPE carat_"),
            Self::Text => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PageOptions, html};
    use crate::testing::{results, trial};
    use crate::{csv, figures, json, markdown, openmetrics};
    use carat_model::watch::WatchedPeriod;
    use carat_redact::Audience;

    #[test]
    fn every_form_recognises_its_own_output_and_no_other() {
        let mut first = trial(1, "a");
        first.metrics.insert("memory.rss.final".to_owned(), 1e6);
        let results = results(&["a", "b"], vec![first]);
        let own = Audience::Own;
        let period = serde_json::to_string_pretty(&WatchedPeriod::default()).unwrap();
        let all = [
            (OutputForm::Page, html(&results, &PageOptions::default())),
            (OutputForm::Markdown, markdown(&results, own)),
            (OutputForm::Json("carat.results"), json(&results, own).unwrap()),
            (OutputForm::Json("carat.figures"), figures(&results, own).unwrap()),
            (OutputForm::Period, period),
            (OutputForm::Csv, csv(&results, own)),
            (OutputForm::Openmetrics, openmetrics(&results, own)),
        ];
        for (form, _) in &all {
            for (other, content) in &all {
                assert_eq!(form.wrote(content.as_bytes()), form == other, "{form:?} {other:?}");
            }
            let mine =
                ["<!DOCTYPE html><html><body>", "{}", "# Notes\n", "SQLite format 3\0", "a,b\n"];
            for mine in mine {
                assert!(!form.wrote(mine.as_bytes()), "{form:?} {mine}");
            }
        }
    }
}
