//! What a file that configures a server needs: variables, or a line in which carat starts it.

use crate::target::install::{check_lasting, find_installed, prefix_of};
use crate::target::{InjectRequest, Injection, Libraries, LibraryError, inject};
use crate::work::injected::warn;
use anyhow::{Context, bail};
use carat_report::{EnvironmentFormat, shell_line, write_environment, write_start};
use carat_settings::{Scrub, Settings};
use carat_wire::env;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// `--print-env`: what a file that configures a server needs. It is read by another user and after a boot, so it names only
/// files that last.
#[derive(Debug)]
pub(crate) struct Printing<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) format: EnvironmentFormat,
    /// Where the libraries were installed.
    pub(crate) prefix: Option<&'a Path>,
    /// Whether every program that the server starts inherits the settings.
    pub(crate) no_scrub: bool,
    pub(crate) command: &'a [String],
}

impl Printing<'_> {
    /// Prints it.
    ///
    /// # Errors
    /// Where a setting cannot be applied or a path does not last.
    pub(crate) fn print(
        &self,
        ruby: Option<&Path>,
        out: &mut impl Write,
        messages: &mut impl Write,
    ) -> anyhow::Result<()> {
        self.check_paths()?;
        let installed = find_installed(self.prefix);
        let lacks_libraries = self.settings.needs_runtime() && installed.is_none();
        if self.beyond_variables().is_some() || lacks_libraries {
            return self.print_start(out, messages);
        }
        // What removes variables is a library, which must be installed for that.
        let scrub = !self.no_scrub && installed.is_some();
        let request = InjectRequest {
            settings: self.settings,
            given: BTreeMap::new(),
            inherited: &|name| self.inherited(name),
            ruby,
            probe: false,
            scrub: if scrub { Scrub::Lasting } else { Scrub::Nothing },
        };
        let libraries = installed.clone().ok_or(LibraryError::NoCandidate);
        let injection = inject(&request, || libraries)?;
        // An allocator, too, must be there after the next boot.
        injection.applied.preload.iter().try_for_each(|library| named_in_file(library))?;
        warn(&injection, messages)?;
        self.comment(&self.notes(&injection, installed.as_ref()), out, messages)?;
        write_environment(out, self.format, &injection.env, self.command)?;
        Ok(())
    }

    /// Checks the paths among the values of settings.
    fn check_paths(&self) -> anyhow::Result<()> {
        let chosen = self.settings.describe();
        let paths = ["allocator", "ruby", "root"].into_iter().filter_map(|name| chosen.get(name));
        let mut paths = paths.map(Path::new).filter(|path| path.is_absolute());
        paths.try_for_each(named_in_file)
    }

    /// A variable that the server inherits. A file configures a server of its own, which has neither this shell's libraries
    /// nor its options of Ruby, nor folders that only this user can read.
    fn inherited(&self, name: &str) -> Option<String> {
        let value = std::env::var(name).ok()?;
        match name {
            _ if self.format == EnvironmentFormat::Shell => Some(value),
            "LD_PRELOAD" | "RUBYOPT" => None,
            "PATH" => {
                let folders =
                    value.split(':').filter(|folder| check_lasting(Path::new(folder)).is_ok());
                Some(folders.collect::<Vec<_>>().join(":"))
            }
            _ => Some(value),
        }
    }

    fn notes(&self, injection: &Injection, installed: Option<&Libraries>) -> Vec<String> {
        let loaded = injection.env.contains_key(env::RUNTIME);
        let prefix = installed.filter(|_| self.is_for_image() && loaded).and_then(prefix_of);
        if let Some(prefix) = prefix {
            let prefix = prefix.display();
            return vec![format!(
                "the image needs the libraries too: RUN carat install --prefix {prefix}"
            )];
        }
        if self.settings.preloads() && !loaded && !self.no_scrub {
            return vec![
                "programs that the server starts inherit LD_PRELOAD; after `carat install` they do not"
                    .to_owned(),
            ];
        }
        Vec::new()
    }

    /// What the settings change that variables cannot.
    fn beyond_variables(&self) -> Option<&'static str> {
        match self.settings.root() {
            Some(_) => Some("the root"),
            None => self.settings.limits_main_stack().then_some("the limit of the main stack"),
        }
    }

    /// Prints a line in which carat starts the server, because variables alone cannot apply the settings.
    fn print_start(&self, out: &mut impl Write, messages: &mut impl Write) -> anyhow::Result<()> {
        let why = match (self.beyond_variables(), self.prefix) {
            (Some(what), _) => {
                format!("variables cannot change {what}, so carat starts the server")
            }
            (None, prefix) => {
                let prefix =
                    prefix.as_ref().map(|prefix| format!(" --prefix {}", prefix.display()));
                let prefix = prefix.unwrap_or_default();
                format!(
                    "this version of carat's libraries is not installed for every user (`carat install{prefix}`), so carat starts the server"
                )
            }
        };
        // A program in a home folder cannot be named in a file for another user.
        let program = std::env::current_exe().ok().filter(|program| check_lasting(program).is_ok());
        let program = program.filter(|_| !self.is_for_image());
        let mut words = vec![
            program.as_ref().map_or("carat".to_owned(), |program| program.display().to_string()),
            "exec".to_owned(),
        ];
        let chosen = self.settings.describe();
        words.extend(chosen.into_iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(self.no_scrub.then(|| "--no-scrub".to_owned()));
        words.push("--".to_owned());
        words.extend(self.command.iter().cloned());
        // A shell evaluates what is printed for its variables, so it must not start a server.
        if self.format == EnvironmentFormat::Shell {
            bail!("{why}: `{}`", shell_line(&words));
        }
        let place = match (self.is_for_image(), program) {
            (true, _) => Some("the image needs carat in a folder of PATH"),
            (false, None) => Some("put carat where every user can run it, such as /usr/local/bin"),
            (false, Some(_)) => None,
        };
        let notes: Vec<String> =
            [Some(why), place.map(str::to_owned)].into_iter().flatten().collect();
        self.comment(&notes, out, messages)?;
        write_start(out, self.format, &words)?;
        Ok(())
    }

    /// Whether the file describes a container image, which has files of its own.
    fn is_for_image(&self) -> bool {
        use EnvironmentFormat::{Dockerfile, Kamal, Kubernetes};
        matches!(self.format, Dockerfile | Kamal | Kubernetes)
    }

    /// Writes comments. A Procfile has none, so they are messages there.
    fn comment(
        &self,
        notes: &[String],
        out: &mut impl Write,
        messages: &mut impl Write,
    ) -> io::Result<()> {
        for note in notes {
            match self.format {
                EnvironmentFormat::Procfile => writeln!(messages, "carat exec: {note}")?,
                _ => writeln!(out, "# {note}")?,
            }
        }
        Ok(())
    }
}

/// Checks that a file that configures a server can name this path.
fn named_in_file(path: &Path) -> anyhow::Result<()> {
    check_lasting(path).context(
        "the output would name a file that another user cannot load or a reboot removes; \
         move the file, for example to /usr/local/lib",
    )
}
