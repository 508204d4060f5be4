//! The environment that `carat exec` would set, written for the place where a server is configured.

use carat_wire::env;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Where the text will stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
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
}

/// Writes the variables in that format.
pub(crate) fn write_environment(
    out: &mut impl Write,
    format: Format,
    set: &BTreeMap<String, String>,
    command: &[String],
) -> io::Result<()> {
    if set.contains_key(env::RUNTIME) && format != Format::Procfile {
        writeln!(
            out,
            "# carat's libraries must be at these paths; `carat exec` puts them there itself"
        )?;
    }
    match format {
        Format::Shell => {
            for (name, value) in set {
                writeln!(out, "export {name}={}", shell_word(value))?;
            }
        }
        Format::Dockerfile => {
            for (name, value) in set {
                writeln!(out, "ENV {name}=\"{}\"", escape(value, &['\\', '"', '$']))?;
            }
        }
        Format::Systemd => {
            for (name, value) in set {
                // systemd.exec(5) expands `%`; systemd.syntax(7) unquotes as C does.
                let value = escape(value, &['\\', '"']).replace('%', "%%");
                writeln!(out, "Environment=\"{name}={value}\"")?;
            }
        }
        Format::Procfile => {
            let words = set.iter().map(|(name, value)| format!("{name}={}", shell_word(value)));
            let command = command.iter().map(|word| shell_word(word));
            let line: Vec<String> = words.chain(command).collect();
            writeln!(out, "web: env {}", line.join(" "))?;
        }
        Format::Kamal => {
            writeln!(out, "env:\n  clear:")?;
            for (name, value) in set {
                writeln!(out, "    {name}: \"{}\"", escape(value, &['\\', '"']))?;
            }
        }
    }
    Ok(())
}

fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,=+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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
    fn every_format_quotes_what_it_would_otherwise_interpret() {
        let set = BTreeMap::from([("A".to_owned(), "it's \"5%\" $HOME".to_owned())]);
        for (format, text) in [
            (Format::Shell, "export A='it'\\''s \"5%\" $HOME'\n"),
            (Format::Dockerfile, "ENV A=\"it's \\\"5%\\\" \\$HOME\"\n"),
            (Format::Systemd, "Environment=\"A=it's \\\"5%%\\\" $HOME\"\n"),
            (Format::Procfile, "web: env A='it'\\''s \"5%\" $HOME' puma -w 2\n"),
            (Format::Kamal, "env:\n  clear:\n    A: \"it's \\\"5%\\\" $HOME\"\n"),
        ] {
            let mut out = Vec::new();
            let command = ["puma".to_owned(), "-w".to_owned(), "2".to_owned()];
            write_environment(&mut out, format, &set, &command).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text, "{format:?}");
        }
    }
}
