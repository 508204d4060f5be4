//! The environment of `carat exec`, in the formats of the files that configure servers.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format of a file that configures a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EnvironmentFormat {
    /// `export` lines of a shell
    Shell,
    /// `ENV` lines of a Dockerfile
    Dockerfile,
    /// `Environment=` lines of a systemd unit
    Systemd,
    /// One line of a Procfile, with the command
    Procfile,
    /// The `env` section of Kamal's deploy.yml
    Kamal,
    /// The `env` of a container in a manifest of Kubernetes
    Kubernetes,
}

/// Writes the variables in a format.
pub fn write_environment(
    out: &mut impl Write,
    format: EnvironmentFormat,
    set: &BTreeMap<String, String>,
    command: &[String],
) -> io::Result<()> {
    let head = match format {
        // A Procfile has no place for variables, so `env` sets them for the command.
        EnvironmentFormat::Procfile => "web: env",
        EnvironmentFormat::Kamal => "env:\n  clear:\n",
        EnvironmentFormat::Kubernetes => "env:\n",
        _ => "",
    };
    write!(out, "{head}")?;
    for (name, value) in set {
        match format {
            EnvironmentFormat::Shell => writeln!(out, "export {name}={}", shell_word(value))?,
            // Docker expands `$NAME` in ENV as well (Dockerfile reference).
            EnvironmentFormat::Dockerfile => {
                writeln!(out, "ENV {name}=\"{}\"", escape(value, &['\\', '"', '$']))?;
            }
            // systemd.exec(5) expands `%`; systemd.syntax(7) unquotes as C does.
            EnvironmentFormat::Systemd => {
                let value = escape(value, &['\\', '"']).replace('%', "%%");
                writeln!(out, "Environment=\"{name}={value}\"")?;
            }
            EnvironmentFormat::Procfile => write!(out, " {name}={}", shell_word(value))?,
            EnvironmentFormat::Kamal => writeln!(out, "    {name}: {}", quoted(value))?,
            EnvironmentFormat::Kubernetes => {
                writeln!(out, "  - name: {name}\n    value: {}", kubernetes_word(value))?;
            }
        }
    }
    if format == EnvironmentFormat::Procfile {
        command.iter().try_for_each(|word| write!(out, " {}", shell_word(word)))?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a line in which carat starts the server, for settings that variables alone cannot apply. A shell gets none:
/// there the command is run, not configured.
pub fn write_start(
    out: &mut impl Write,
    format: EnvironmentFormat,
    command: &[String],
) -> io::Result<()> {
    let words = |written: fn(&str) -> String, between: &str| {
        command.iter().map(|word| written(word)).collect::<Vec<_>>().join(between)
    };
    let line = match format {
        EnvironmentFormat::Shell => return Ok(()),
        EnvironmentFormat::Dockerfile => format!("CMD [{}]", words(quoted, ", ")),
        EnvironmentFormat::Kubernetes => format!("command: [{}]", words(kubernetes_word, ", ")),
        EnvironmentFormat::Systemd => format!("ExecStart={}", words(systemd_word, " ")),
        EnvironmentFormat::Procfile => format!("web: {}", shell_line(command)),
        EnvironmentFormat::Kamal => {
            format!("servers:\n  web:\n    cmd: {}", quoted(&shell_line(command)))
        }
    };
    writeln!(out, "{line}")
}

/// A command as one line of a shell.
pub fn shell_line(command: &[String]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// A word of `ExecStart=`: systemd expands `%` and `$` also within quotes (systemd.service(5)).
fn systemd_word(word: &str) -> String {
    // Doubled first: escaping must not see what it has added.
    let expanded = word.replace('%', "%%").replace('$', "$$");
    if is_plain(word) { expanded } else { quoted(&expanded) }
}

/// A string of YAML in which Kubernetes expands nothing: it reads `$(NAME)` as a variable and `$$` as one dollar sign.
fn kubernetes_word(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// A text in double quotes, in which a backslash escapes: of JSON, of YAML, of systemd.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escape(text, &['\\', '"']))
}

fn shell_word(word: &str) -> String {
    // Nothing is special in single quotes but the quote itself.
    if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Whether a shell takes a word literally. An empty one needs quotes to be a word at all.
fn is_plain(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,=+@%".contains(letter);
    !word.is_empty() && word.chars().all(is_plain)
}

fn escape(text: &str, special: &[char]) -> String {
    text.chars().fold(String::new(), |mut escaped, letter| {
        if special.contains(&letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_quotes_its_special_characters_and_all_but_a_shell_can_start_the_server() {
        let set = BTreeMap::from([("A".to_owned(), "it's \"5%\" $HOME".to_owned())]);
        let words = ["carat", "exec", "prepare_fork=full", "--", "sh", "-c", "a \"$B\" 5%"];
        let command = words.map(str::to_owned);
        for (format, environment, start) in [
            (EnvironmentFormat::Shell, "export A='it'\\''s \"5%\" $HOME'\n", ""),
            (
                EnvironmentFormat::Dockerfile,
                "ENV A=\"it's \\\"5%\\\" \\$HOME\"\n",
                "CMD [\"carat\", \"exec\", \"prepare_fork=full\", \"--\", \"sh\", \"-c\", \"a \\\"$B\\\" 5%\"]\n",
            ),
            (
                EnvironmentFormat::Systemd,
                "Environment=\"A=it's \\\"5%%\\\" $HOME\"\n",
                "ExecStart=carat exec prepare_fork=full -- sh -c \"a \\\"$$B\\\" 5%%\"\n",
            ),
            (
                EnvironmentFormat::Procfile,
                "web: env A='it'\\''s \"5%\" $HOME' carat exec prepare_fork=full -- sh -c 'a \"$B\" 5%'\n",
                "web: carat exec prepare_fork=full -- sh -c 'a \"$B\" 5%'\n",
            ),
            (
                EnvironmentFormat::Kamal,
                "env:\n  clear:\n    A: \"it's \\\"5%\\\" $HOME\"\n",
                "servers:\n  web:\n    cmd: \"carat exec prepare_fork=full -- sh -c 'a \\\"$B\\\" 5%'\"\n",
            ),
            (
                EnvironmentFormat::Kubernetes,
                "env:\n  - name: A\n    value: \"it's \\\"5%\\\" $$HOME\"\n",
                "command: [\"carat\", \"exec\", \"prepare_fork=full\", \"--\", \"sh\", \"-c\", \"a \\\"$$B\\\" 5%\"]\n",
            ),
        ] {
            let (mut written, mut started) = (Vec::new(), Vec::new());
            write_environment(&mut written, format, &set, &command).unwrap();
            write_start(&mut started, format, &command).unwrap();
            let found = [written, started].map(|text| String::from_utf8(text).unwrap());
            assert_eq!(found, [environment, start], "{format:?}");
        }
    }
}
