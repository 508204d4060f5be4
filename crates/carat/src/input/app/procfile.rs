//! The processes of a Procfile, and their commands.

use carat_report::shell_line;

/// What makes a line of a Procfile one for a shell.
const SHELL: [char; 14] = ['|', '&', ';', '<', '>', '(', ')', '`', '*', '~', '\\', '$', '"', '\''];

/// A process of an app: what names it, and the line that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppProcess {
    pub(super) name: String,
    pub(super) line: String,
}

impl AppProcess {
    /// The command that measures it, and what describes its load.
    pub(super) fn measured_by(&self) -> (String, &'static str) {
        let words: Vec<String> = match needs_shell(&self.line) {
            true => ["sh", "-c", &self.line].map(str::to_owned).to_vec(),
            false => self.line.split_whitespace().map(str::to_owned).collect(),
        };
        let record = ["carat", "record", "--"].map(str::to_owned);
        let how = match self.line.contains("sidekiq") {
            true => "under a load of jobs: docs/how-to/sidekiq.md",
            false => "under a load: docs/reference/load.md",
        };
        (shell_line(&[&record[..], &words].concat()), how)
    }
}

/// What a Procfile starts: `NAME: COMMAND`, one a line. `release` is none of it: it runs once, before a version is deployed.
pub(super) fn processes(procfile: &str) -> Vec<AppProcess> {
    let lines = procfile.lines().filter_map(|line| line.trim().split_once(':'));
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    lines
        .map(|(name, line)| AppProcess { name: name.to_owned(), line: line.trim().to_owned() })
        .filter(|one| is_name(&one.name) && one.name != "release" && !one.line.is_empty())
        .collect()
}

/// The words of a line of a Procfile, with carat's port; a shell runs what needs one.
pub(super) fn procfile_words(line: &str) -> Vec<String> {
    let line = without_braces(line);
    match needs_shell(&line) {
        true => ["sh".to_owned(), "-c".to_owned(), replacing_the_shell(&line)].to_vec(),
        false => line.split_whitespace().map(str::to_owned).collect(),
    }
}

/// The line with `exec` before its last command, so that the signals of carat reach the server and not the shell.
fn replacing_the_shell(line: &str) -> String {
    // A pipe or a job needs the shell; what is in parentheses or quotes is not taken apart.
    if line.replace("&&", "").contains(['|', '&', '(', '`', '"', '\'']) {
        return line.to_owned();
    }
    let after = |separator: &str| line.rfind(separator).map(|at| at + separator.len());
    let (before, last) = line.split_at(after("&&").max(after(";")).unwrap_or(0));
    let last = last.trim_start();
    let gap = if before.is_empty() { "" } else { " " };
    // The shell's `exec` takes no assignments.
    let env = if has_variable_first(last) { "env " } else { "" };
    format!("{before}{gap}exec {env}{last}")
}

fn needs_shell(line: &str) -> bool {
    line.contains(SHELL) || has_variable_first(line)
}

fn has_variable_first(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| word.contains('='))
}

/// `$PORT`, `${PORT}` and `${PORT:-3000}` become carat's port. Other variables lose their braces, which are carat's: one with a
/// default becomes a command that prints it.
fn without_braces(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        let after = &rest[at + 1..];
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (inner, tail) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(both) => both,
            None => after.split_at(after.find(|c| !is_of_name(c)).unwrap_or(after.len())),
        };
        let (name, operator) =
            inner.split_at(inner.find(|c| !is_of_name(c)).unwrap_or(inner.len()));
        let default = operator.strip_prefix(":-").or_else(|| operator.strip_prefix('-'));
        out += &match (name, operator, default) {
            ("PORT", ..) => "{port}".to_owned(),
            (_, _, Some(value)) => {
                format!("$(test -n \"${name}\" && echo \"${name}\" || echo \"{value}\")")
            }
            // Quotes end the name.
            (_, "", _) if tail.starts_with(is_of_name) => format!("\"${name}\""),
            (_, "", _) => format!("${name}"),
            // Carat refuses the file and names it, which is better than a server that is started otherwise.
            _ => format!("${{{inner}}}"),
        };
        rest = tail;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_runs_the_line_as_a_platform_would_and_is_replaced_by_the_server() {
        let wants_two = r#"$(test -n "$N" && echo "$N" || echo "2")"#;
        for (line, expected) in [
            ("puma -p $PORT", "puma -p {port}".to_owned()),
            ("A=1 B=2 puma -p ${PORT:-3000}", "exec env A=1 B=2 puma -p {port}".to_owned()),
            ("bin/migrate && A=1 puma", "bin/migrate && exec env A=1 puma".to_owned()),
            ("cd app; puma -e $RACK_ENV", "cd app; exec puma -e $RACK_ENV".to_owned()),
            ("puma | tee x", "puma | tee x".to_owned()),
            ("puma -w ${N:-2}", format!("puma -w {wants_two}")),
            ("puma -t ${N}x", "puma -t \"$N\"x".to_owned()),
        ] {
            let words = procfile_words(line);
            let shown = match words.as_slice() {
                [sh, c, script] if sh == "sh" && c == "-c" => script.clone(),
                words => words.join(" "),
            };
            assert_eq!(shown, expected, "{line}");
        }
    }

    #[test]
    fn the_words_that_a_shell_makes_of_a_line_are_those_of_the_line() {
        for (line, variable, expected) in [
            ("A=1 sh -c 'echo $A'", "", "1\n"),
            ("true && A=1 printenv A", "", "1\n"),
            ("echo ${N:-2} x", "", "2 x\n"),
            ("echo ${N:-2} x", "3", "3 x\n"),
            ("echo ${N}y", "3", "3y\n"),
        ] {
            let words = procfile_words(line);
            let output = Command::new(&words[0]).args(&words[1..]).env("N", variable).output();
            let output = output.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{line}: {words:?}");
        }
    }
}
