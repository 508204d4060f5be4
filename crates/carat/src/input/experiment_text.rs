//! The text of an experiment file that a person will read and edit: small, in one order, with its reasons as comments.

use carat_model::plain;
use std::fmt::Write;

/// A variant: its name, one line of what it needs, and what it sets, as a line of TOML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VariantText {
    pub name: String,
    pub comment: Option<String>,
    pub line: Option<String>,
}

/// What is known of an experiment.
#[derive(Debug, Clone, Default)]
pub(super) struct ExperimentText {
    /// Comments before everything, one a line.
    pub comments: Vec<String>,
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Where the server runs, if that is not the folder of the file.
    pub dir: Option<String>,
    /// The path that answers when the server is ready; `None` waits for its port.
    pub ready: Option<String>,
    /// How long it may take to be ready, such as `120s`; `None` for the default.
    pub within: Option<String>,
    /// The table of the load.
    pub load: String,
    pub variants: Vec<VariantText>,
    /// The metric that decides.
    pub primary: &'static str,
    /// The one that must not become worse, by more than this.
    pub guard: (&'static str, &'static str),
}

impl ExperimentText {
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for comment in &self.comments {
            // TOML forbids control characters in comments too, and a comment can quote a file of the app.
            writeln!(out, "# {}", plain(comment))?;
        }
        writeln!(out, "name = {}\n\n[server]", quoted(&self.name))?;
        let command = self.command.iter().map(|word| quoted(word)).collect();
        writeln!(out, "command = {}", toml::Value::Array(command))?;
        if let Some(dir) = &self.dir {
            writeln!(out, "dir     = {}", quoted(dir))?;
        }
        let variables = self.environment.iter();
        let variables: Vec<String> =
            variables.map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        writeln!(out, "env     = {{ {} }}", variables.join(", "))?;
        let within = self.within.as_ref().map(|time| format!(", within = {}", quoted(time)));
        let within = within.unwrap_or_default();
        match &self.ready {
            Some(path) => writeln!(out, "ready   = {{ http = {}{within} }}", quoted(path))?,
            None => writeln!(out, "ready   = {{ tcp = true{within} }}")?,
        }
        write!(out, "\n{}", self.load)?;
        for variant in &self.variants {
            writeln!(out, "\n[[variant]]\nname = {}", quoted(&variant.name))?;
            if let Some(comment) = &variant.comment {
                writeln!(out, "# {comment}")?;
            }
            if let Some(line) = &variant.line {
                writeln!(out, "{line}")?;
            }
        }
        let (metric, limit) = self.guard;
        writeln!(out, "\n[measure]\nprimary = \"{}\"", self.primary)?;
        writeln!(out, "guards  = {{ \"{metric}\" = \"{limit}\" }}")
    }
}

/// A text in the quotes of TOML.
pub(super) fn quoted(text: &str) -> toml::Value {
    toml::Value::String(text.to_owned())
}
