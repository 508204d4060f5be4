//! `carat exec`: applies settings, then becomes the server.

use crate::config::read_text_file;
use crate::run::{Verification, start_verifier};
use crate::target::install::{check_lasting, find_installed, find_libraries, prefix_of};
use crate::target::{
    FailingWrites, InjectError, InjectRequest, Injection, Libraries, LibraryError, ProgramSearch,
    ReplaceError, create_pages, inject, new_token, replace_process, search_path_with, set_tree,
};
use anyhow::{Context, bail};
use carat_files::is_trusted;
use carat_model::did_you_mean;
use carat_report::{EnvironmentFormat, shell_line, write_environment, write_start};
use carat_settings::{Scrub, Settings, list, manual};
use carat_wire::env;
use clap::Args;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Exit code if carat fails before the server starts, as for env(1).
const FAILED: u8 = 125;
/// Exit code if the command exists but cannot be run.
const NOT_EXECUTABLE: u8 = 126;
/// Exit code if the command does not exist.
const NOT_FOUND: u8 = 127;
/// Bytes of the largest `carat.toml` that is read without being named.
const CONFIG_MAX: u64 = 1 << 20;
/// The keys of `carat.toml`.
const CONFIG_KEYS: [&str; 2] = ["profile", "settings"];

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: the server's own; 125 if a setting cannot be applied, 126 if the command cannot be run,
127 if the command does not exist. CARAT_OFF=1 runs the command without any change. If there is no folder for
carat's libraries, the server runs without the settings that need them, and a line on stderr names these. If the
server cannot be verified, it runs all the same. carat.toml counts only if it belongs to this user or to root.

Examples:
  carat exec arena_max=2 -- bundle exec puma
  carat exec allocator=jemalloc malloc_conf=dirty_decay_ms:1000,narenas:2 --verify -- bin/rails server
  carat exec --profile prefork --verify -- puma -w 4 --preload
  carat exec prepare_fork=warmup --print-env systemd -- puma -w 4")]
pub(crate) struct ExecArgs {
    /// Settings as NAME=VALUE; `--list` shows all of them
    #[arg(value_name = "SETTING")]
    settings: Vec<String>,
    /// Another setting as NAME=VALUE
    #[arg(short = 's', long = "set", value_name = "SETTING")]
    set: Vec<String>,
    /// A set of settings: balanced, low-memory, and for preloaded clusters prefork or prefork-max; single settings override it
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// File with `profile` and a [settings] table, which the other options override [default: carat.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the environment instead of starting the command, for another user and after the next boot
    #[arg(long, value_name = "FORMAT", value_enum)]
    print_env: Option<EnvironmentFormat>,
    /// With --print-env: where `carat install` put the libraries [default: next to carat, /usr/local or /usr]
    #[arg(long, value_name = "DIR", requires = "print_env")]
    prefix: Option<PathBuf>,
    /// Check the processes that serve, whoever started them, and report on stderr which settings were applied
    #[arg(long)]
    verify: bool,
    /// Let every program that the server starts inherit the settings, not only a server that a launcher starts
    #[arg(long)]
    no_scrub: bool,
    /// Print a line for every setting and every profile
    #[arg(long)]
    list: bool,
    /// With --list: everything about them, also what each costs and how it is verified
    #[arg(long, requires = "list")]
    details: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Applies the settings and replaces this process. Returns only the exit code of a failure.
pub(crate) fn run(args: &ExecArgs, out: &mut impl Write, messages: &mut impl Write) -> u8 {
    match prepare_and_start(args, out, messages) {
        Ok(code) => code,
        Err(error) => {
            // If stderr is closed, the exit code remains.
            let _ = writeln!(messages, "carat exec: {error:#}");
            FAILED
        }
    }
}

fn prepare_and_start(
    args: &ExecArgs,
    out: &mut impl Write,
    messages: &mut impl Write,
) -> anyhow::Result<u8> {
    if args.list {
        write!(out, "{}", if args.details { manual() } else { list() })?;
        return Ok(0);
    }
    let Some(program) = args.command.first() else {
        bail!("no command is given; write `carat exec SETTINGS -- COMMAND`");
    };
    let switched_off = std::env::var_os(env::OFF).is_some_and(|off| off == "1");
    let settings = if switched_off { Settings::default() } else { chosen(args, messages)? };
    let ruby = find_ruby(program, &settings);
    if let Some(format) = args.print_env {
        return Printing { args, settings: &settings, format }.print(
            ruby.as_deref(),
            out,
            messages,
        );
    }
    let scrub = if args.no_scrub { Scrub::Nothing } else { Scrub::Lasting };
    let request = InjectRequest {
        settings: &settings,
        given: BTreeMap::new(),
        inherited: &|name| std::env::var(name).ok(),
        ruby: ruby.as_deref(),
        probe: false,
        scrub,
    };
    let failing_writes = FailingWrites::begin();
    let injection = injected(&request, args.verify, messages)?;
    drop(failing_writes);
    warn(&injection, messages)?;
    let error = replace_process(&args.command, &injection);
    let _ = writeln!(messages, "carat exec: {error}");
    Ok(match error {
        ReplaceError::Root { .. } => FAILED,
        ReplaceError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        ReplaceError::Exec { .. } => NOT_EXECUTABLE,
    })
}

/// The libraries, if the server can load them.
fn libraries(settings: &Settings) -> Result<Libraries, LibraryError> {
    match settings.root() {
        Some(root) => Err(LibraryError::OutsideRoot(root.to_owned())),
        None => find_libraries(),
    }
}

/// What the server is started with. If it cannot be verified, it is started all the same, with a message.
fn injected(
    request: &InjectRequest<'_>,
    verify: bool,
    messages: &mut impl Write,
) -> anyhow::Result<Injection> {
    let hindrance = match verify.then(|| inject_verified(request)) {
        Some(Ok(injection)) => return Ok(injection),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let injection = match inject(request, || libraries(request.settings)) {
        Err(InjectError::Library(error)) => {
            return inject_without_libraries(request, verify, &error, messages);
        }
        found => found?,
    };
    if let Some(error) = hindrance {
        writeln!(messages, "carat verify: not verified: {error:#}")?;
    }
    Ok(injection)
}

/// Injects what verifying needs besides, and starts the verifier.
fn inject_verified(request: &InjectRequest<'_>) -> anyhow::Result<Injection> {
    let scrub = match request.scrub {
        Scrub::Nothing => Scrub::Verifier,
        _ => Scrub::Everything,
    };
    let request = InjectRequest { given: BTreeMap::new(), probe: true, scrub, ..*request };
    let mut injection = inject(&request, || libraries(request.settings))?;
    verify(request.settings, &mut injection)?;
    Ok(injection)
}

/// Leaves out what needs carat's libraries, because a server without it is better than none.
fn inject_without_libraries(
    request: &InjectRequest<'_>,
    verify: bool,
    error: &LibraryError,
    messages: &mut impl Write,
) -> anyhow::Result<Injection> {
    let mut settings = request.settings.clone();
    let mut missing = settings.remove_runtime();
    if verify {
        missing.push("--verify".to_owned());
    }
    if settings.preloads() && request.scrub.has_settings() {
        missing.push("keeping LD_PRELOAD from the server's programs".to_owned());
    }
    writeln!(messages, "carat exec: without {}: {error}", missing.join(", "))?;
    let request = InjectRequest {
        settings: &settings,
        given: request.given.clone(),
        probe: false,
        scrub: Scrub::Nothing,
        ..*request
    };
    Ok(inject(&request, || Err(LibraryError::NoCandidate))?)
}

fn warn(injection: &Injection, messages: &mut impl Write) -> io::Result<()> {
    let mut warnings = injection.applied.warnings.iter();
    warnings.try_for_each(|warning| writeln!(messages, "carat exec: {warning}"))
}

/// `--print-env`: what a file that configures a server needs. It is read by another user and after a boot, so it names only
/// files that last.
struct Printing<'a> {
    args: &'a ExecArgs,
    settings: &'a Settings,
    format: EnvironmentFormat,
}

impl Printing<'_> {
    fn print(
        &self,
        ruby: Option<&Path>,
        out: &mut impl Write,
        messages: &mut impl Write,
    ) -> anyhow::Result<u8> {
        self.check_paths()?;
        let installed = find_installed(self.args.prefix.as_deref());
        let lacks_libraries = self.settings.needs_runtime() && installed.is_none();
        if self.beyond_variables().is_some() || lacks_libraries {
            return self.print_start(out, messages);
        }
        let scrub = !self.args.no_scrub && installed.is_some();
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
        injection.applied.preload.iter().try_for_each(|library| named_in_file(library))?;
        warn(&injection, messages)?;
        self.comment(&self.notes(&injection, installed.as_ref()), out, messages)?;
        write_environment(out, self.format, &injection.env, &self.args.command)?;
        Ok(0)
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
        if self.settings.preloads() && !loaded && !self.args.no_scrub {
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
    fn print_start(&self, out: &mut impl Write, messages: &mut impl Write) -> anyhow::Result<u8> {
        let why = match (self.beyond_variables(), &self.args.prefix) {
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
        let program = std::env::current_exe().ok().filter(|program| check_lasting(program).is_ok());
        let program = program.filter(|_| !self.is_for_image());
        let mut words = vec![
            program.as_ref().map_or("carat".to_owned(), |program| program.display().to_string()),
            "exec".to_owned(),
        ];
        let chosen = self.settings.describe();
        words.extend(chosen.into_iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(self.args.no_scrub.then(|| "--no-scrub".to_owned()));
        words.push("--".to_owned());
        words.extend(self.args.command.iter().cloned());
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
        Ok(0)
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

/// The program that runs the command, as seen from here: Ruby, if the command is a Ruby script.
fn find_ruby(program: &str, settings: &Settings) -> Option<PathBuf> {
    let path = search_path_with(settings, std::env::var("PATH").ok());
    // In another root the server begins in that root's top folder.
    let (root, dir) = settings.root().map_or((Path::new("/"), Path::new("")), |root| (root, root));
    ProgramSearch { path: &path, root, dir }.ruby(program)
}

/// Starts a process that reports on stderr which settings are in effect.
fn verify(settings: &Settings, injection: &mut Injection) -> anyhow::Result<()> {
    let pages = create_pages().with_context(|| {
        let folder = std::env::temp_dir();
        format!("cannot write in {}; set TMPDIR to a folder that can be written", folder.display())
    })?;
    // Below the token of a run that this server may be part of.
    let outer = std::env::var(env::TOKEN).map(|token| format!("{token}/")).unwrap_or_default();
    let token = format!("{outer}{}", new_token());
    set_tree(&mut injection.env, &token, &pages);
    let started = start_verifier(settings, &injection.applied, &token, |found| {
        print_findings(found);
        let _ = std::fs::remove_dir_all(&pages);
    });
    if started.is_err() {
        let _ = std::fs::remove_dir_all(&pages);
    }
    started.context("cannot start the verifier")
}

fn print_findings(found: &Verification) {
    let mut messages = io::stderr();
    if let Verification::Unknown(why) = found {
        let _ = writeln!(messages, "carat verify: not verified: {why}");
    }
    for check in found.checks() {
        let _ = writeln!(messages, "carat verify: {check}");
    }
}

/// The settings of the file, of `CARAT_SET` and of the command line. Later ones override earlier ones.
fn chosen(args: &ExecArgs, messages: &mut impl Write) -> anyhow::Result<Settings> {
    let mut settings = read_config(args.config.as_deref(), messages)?;
    if let Ok(set) = std::env::var(env::SET) {
        let pairs = set.split(';').filter(|pair| !pair.trim().is_empty());
        settings.overlay(&Settings::from_pairs(pairs).context(env::SET)?);
    }
    let profile = args.profile.iter().map(|name| format!("profile={name}"));
    let pairs: Vec<String> =
        profile.chain(args.settings.iter().chain(&args.set).cloned()).collect();
    settings.overlay(&Settings::from_pairs(pairs.iter().map(String::as_str))?);
    Ok(settings)
}

/// The settings of a file. Without a named file, that of `carat.toml`, if it exists.
fn read_config(named: Option<&Path>, messages: &mut impl Write) -> anyhow::Result<Settings> {
    let path = named.unwrap_or(Path::new("carat.toml"));
    let text = match named {
        Some(_) => Some(read_text_file(path)),
        None => read_unnamed(path, messages)?.map(Ok),
    };
    let Some(text) = text else { return Ok(Settings::default()) };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let table: toml::Table =
        text.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    if named.is_none() && table.contains_key("variant") {
        // An experiment file often has this name. It is not about the server that starts here.
        return Ok(Settings::default());
    }
    read_config_table(&table).with_context(|| path.display().to_string())
}

/// The text of a file that nobody named: it counts only if it is a file of this user or of root. Anything else, such as a pipe
/// or a file of somebody who shares the folder, is left out with a message, so that it cannot keep the server from starting.
fn read_unnamed(path: &Path, messages: &mut impl Write) -> io::Result<Option<String>> {
    let why = match open_regular(path) {
        Ok(mut file) => match file.metadata() {
            Ok(found) if is_trusted(found.uid()) => {
                let mut text = String::new();
                match file.read_to_string(&mut text) {
                    Ok(_) => return Ok(Some(text)),
                    Err(error) => error.to_string(),
                }
            }
            Ok(_) => "it belongs to another user".to_owned(),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => error.to_string(),
    };
    writeln!(messages, "carat exec: without {}: {why}; name it with --config", path.display())?;
    Ok(None)
}

/// Opens a regular file and nothing else, without waiting for the other end of a pipe. A link is not followed: who shares the
/// folder could let it lead to any file of root.
fn open_regular(path: &Path) -> io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    match found.len() <= CONFIG_MAX {
        true => Ok(file),
        false => Err(io::Error::other(format!("it has more than {CONFIG_MAX} bytes"))),
    }
}

/// The settings of `profile` under those of `[settings]`.
fn read_config_table(table: &toml::Table) -> anyhow::Result<Settings> {
    if let Some(key) = table.keys().find(|key| !CONFIG_KEYS.contains(&key.as_str())) {
        let hint = did_you_mean(key, CONFIG_KEYS.iter().copied());
        bail!("unknown key `{key}`{hint}; write `profile` and [settings]");
    }
    let mut settings = Settings::default();
    match table.get("profile") {
        Some(toml::Value::String(profile)) => settings.set("profile", profile)?,
        Some(_) => bail!("`profile` must be the name of a profile"),
        None => {}
    }
    match table.get("settings") {
        Some(toml::Value::Table(single)) => settings.overlay(&Settings::parse(single)?),
        Some(_) => bail!("`settings` must be a table"),
        None => {}
    }
    Ok(settings)
}
