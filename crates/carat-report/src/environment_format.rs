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
    let (head, line): (&str, fn(&str, &str) -> String) = match format {
        EnvironmentFormat::Shell => {
            ("", |name, value| format!("export {name}={}\n", shell_word(value)))
        }
        // Docker expands `$NAME` in ENV as well (Dockerfile reference).
        EnvironmentFormat::Dockerfile => {
            ("", |name, value| format!("ENV {name}=\"{}\"\n", escape(value, &['\\', '"', '$'])))
        }
        // systemd.exec(5) expands `%`; systemd.syntax(7) unquotes as C does.
        EnvironmentFormat::Systemd => ("", |name, value| {
            let value = escape(value, &['\\', '"']).replace('%', "%%");
            format!("Environment=\"{name}={value}\"\n")
        }),
        // A Procfile has no place for variables, so `env` sets them for the command.
        EnvironmentFormat::Procfile => {
            ("web: env", |name, value| format!(" {name}={}", shell_word(value)))
        }
        // YAML in double quotes reads backslashes as escapes.
        EnvironmentFormat::Kamal => ("env:\n  clear:\n", |name, value| {
            format!("    {name}: \"{}\"\n", escape(value, &['\\', '"']))
        }),
        EnvironmentFormat::Kubernetes => ("env:\n", |name, value| {
            format!("  - name: {name}\n    value: {}\n", kubernetes_word(value))
        }),
    };
    write!(out, "{head}")?;
    set.iter().try_for_each(|(name, value)| write!(out, "{}", line(name, value)))?;
    match format {
        EnvironmentFormat::Procfile => {
            command.iter().try_for_each(|word| write!(out, " {}", shell_word(word)))?;
            writeln!(out)
        }
        _ => Ok(()),
    }
}

/// Writes a line in which carat starts the server, for settings that variables alone cannot apply. A shell gets none:
/// there the command is run, not configured.
pub fn write_start(
    out: &mut impl Write,
    format: EnvironmentFormat,
    command: &[String],
) -> io::Result<()> {
    let words = |quoted: fn(&str) -> String| {
        command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    };
    match format {
        EnvironmentFormat::Shell => Ok(()),
        EnvironmentFormat::Dockerfile => {
            let list: Vec<String> =
                command.iter().map(|word| format!("\"{}\"", escape(word, &['\\', '"']))).collect();
            writeln!(out, "CMD [{}]", list.join(", "))
        }
        EnvironmentFormat::Kubernetes => {
            let list: Vec<String> = command.iter().map(|word| kubernetes_word(word)).collect();
            writeln!(out, "command: [{}]", list.join(", "))
        }
        EnvironmentFormat::Systemd => writeln!(out, "ExecStart={}", words(systemd_word)),
        EnvironmentFormat::Procfile => writeln!(out, "web: {}", words(shell_word)),
        EnvironmentFormat::Kamal => {
            let line = escape(&words(shell_word), &['\\', '"']);
            writeln!(out, "servers:\n  web:\n    cmd: \"{line}\"")
        }
    }
}

/// A command as one line of a shell.
pub fn shell_line(command: &[String]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// A word of `ExecStart=`: systemd expands `%` and `$` also within quotes (systemd.service(5)).
fn systemd_word(word: &str) -> String {
    // Doubled first: escaping must not see what it has added.
    let expanded = word.replace('%', "%%").replace('$', "$$");
    // An empty word needs quotes to be a word at all.
    if !word.is_empty() && word.chars().all(is_plain) {
        return expanded;
    }
    format!("\"{}\"", escape(&expanded, &['\\', '"']))
}

/// A string of YAML in which Kubernetes expands nothing: it reads `$(NAME)` as a variable and `$$` as one dollar sign.
fn kubernetes_word(word: &str) -> String {
    format!("\"{}\"", escape(&word.replace('$', "$$"), &['\\', '"']))
}

fn shell_word(word: &str) -> String {
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // Nothing is special in single quotes but the quote itself.
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a shell takes this character literally.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-./:,=+@%".contains(letter)
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
    fn every_format_quotes_its_special_characters() {
        let set = BTreeMap::from([("A".to_owned(), "it's \"5%\" $HOME".to_owned())]);
        for (format, text) in [
            (EnvironmentFormat::Shell, "export A='it'\\''s \"5%\" $HOME'\n"),
            (EnvironmentFormat::Dockerfile, "ENV A=\"it's \\\"5%\\\" \\$HOME\"\n"),
            (EnvironmentFormat::Systemd, "Environment=\"A=it's \\\"5%%\\\" $HOME\"\n"),
            (EnvironmentFormat::Procfile, "web: env A='it'\\''s \"5%\" $HOME' puma -w 2\n"),
            (EnvironmentFormat::Kamal, "env:\n  clear:\n    A: \"it's \\\"5%\\\" $HOME\"\n"),
            (
                EnvironmentFormat::Kubernetes,
                "env:\n  - name: A\n    value: \"it's \\\"5%\\\" $$HOME\"\n",
            ),
        ] {
            let mut out = Vec::new();
            let command = ["puma".to_owned(), "-w".to_owned(), "2".to_owned()];
            write_environment(&mut out, format, &set, &command).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text, "{format:?}");
        }
    }

    #[test]
    fn every_format_but_the_shell_has_a_line_in_which_carat_starts_the_server() {
        let words = ["carat", "exec", "prepare_fork=full", "--", "sh", "-c", "a \"$B\" 5%"];
        let command = words.map(str::to_owned);
        for (format, text) in [
            (EnvironmentFormat::Shell, ""),
            (
                EnvironmentFormat::Dockerfile,
                "CMD [\"carat\", \"exec\", \"prepare_fork=full\", \"--\", \"sh\", \"-c\", \"a \\\"$B\\\" 5%\"]\n",
            ),
            (
                EnvironmentFormat::Kubernetes,
                "command: [\"carat\", \"exec\", \"prepare_fork=full\", \"--\", \"sh\", \"-c\", \"a \\\"$$B\\\" 5%\"]\n",
            ),
            (
                EnvironmentFormat::Systemd,
                "ExecStart=carat exec prepare_fork=full -- sh -c \"a \\\"$$B\\\" 5%%\"\n",
            ),
            (
                EnvironmentFormat::Procfile,
                "web: carat exec prepare_fork=full -- sh -c 'a \"$B\" 5%'\n",
            ),
            (
                EnvironmentFormat::Kamal,
                "servers:\n  web:\n    cmd: \"carat exec prepare_fork=full -- sh -c 'a \\\"$B\\\" 5%'\"\n",
            ),
        ] {
            let mut out = Vec::new();
            write_start(&mut out, format, &command).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text, "{format:?}");
        }
    }
}
