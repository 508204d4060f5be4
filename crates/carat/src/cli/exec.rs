//! `carat exec`: applies settings, then becomes the server.

use crate::cli::exec_format::{Format, write_environment};
use crate::cli::exec_verify::start_verifier;
use crate::settings::{ElfKind, Environment, Settings, StartContext, find_allocator, read_elf};
use crate::target::{Libraries, library::unpack_in_cache};
use anyhow::{Context, bail};
use carat_wire::env;
use clap::Args;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code when carat itself fails before the server, as of env(1).
const FAILED: u8 = 125;
/// Exit code when the command is there but cannot be run.
const NOT_EXECUTABLE: u8 = 126;
/// Exit code when there is no such command.
const NOT_FOUND: u8 = 127;

/// Arguments of `carat exec`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: the server's own; 125 if a setting cannot be applied, 126 if the command cannot be run,
127 if there is no such command. CARAT_OFF=1 runs the command as it is.

Examples:
  carat exec arena_max=2 -- bundle exec puma
  carat exec allocator=jemalloc malloc_conf=dirty_decay_ms:1000,narenas:2 --verify -- bin/rails server
  carat exec --profile balanced -- puma -w 4
  carat exec prepare_fork=warmup --print-env systemd -- puma -w 4")]
pub(crate) struct ExecArgs {
    /// Settings as NAME=VALUE; `--list` names them all
    #[arg(value_name = "SETTING")]
    settings: Vec<String>,
    /// One more setting as NAME=VALUE
    #[arg(short = 's', long = "set", value_name = "SETTING")]
    set: Vec<String>,
    /// A set of settings that were measured together: balanced or low-memory; single settings win over it
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// File whose [settings] table comes first [default: carat.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what would be set instead of starting anything
    #[arg(long, value_name = "FORMAT", value_enum)]
    print_env: Option<Format>,
    /// Check the server once it has started and report on stderr which settings were applied
    #[arg(long)]
    verify: bool,
    /// Leave LD_PRELOAD and RUBYOPT to the programs that the server starts
    #[arg(long)]
    no_scrub: bool,
    /// Print every setting, what it does, what it costs
    #[arg(long)]
    list: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Applies the settings and replaces this process; returns only an exit code of its own.
pub(crate) fn run(args: &ExecArgs, out: &mut impl Write, talk: &mut impl Write) -> u8 {
    match prepare_and_start(args, out, talk) {
        Ok(code) => code,
        Err(error) => {
            // Where even stderr is gone there is nobody to tell.
            let _ = writeln!(talk, "carat exec: {error:#}");
            FAILED
        }
    }
}

fn prepare_and_start(
    args: &ExecArgs,
    out: &mut impl Write,
    talk: &mut impl Write,
) -> anyhow::Result<u8> {
    if args.list {
        write!(out, "{}", crate::settings::manual())?;
        return Ok(0);
    }
    let Some(name) = args.command.first() else {
        bail!("no command is given; write `carat exec SETTINGS -- COMMAND`");
    };
    let switched_off = std::env::var_os(env::OFF).is_some_and(|off| off == "1");
    let settings = if switched_off { Settings::default() } else { chosen(args)? };
    let program = find_program(name, &search_path(&settings));
    let ruby = program.as_deref().and_then(interpreter);
    let start = Start::prepare(&settings, args, ruby.as_deref())?;
    for warning in &start.environment.warnings {
        writeln!(talk, "carat exec: {warning}")?;
    }
    if let Some(format) = args.print_env {
        write_environment(out, format, &start.environment.set, &args.command)?;
        return Ok(0);
    }
    if args.verify {
        start_verifier(&settings, &start)?;
    }
    Ok(replace(&args.command, &start.environment, talk))
}

/// What was made ready for the server.
pub(crate) struct Start {
    /// Variables, root, warnings.
    pub(crate) environment: Environment,
    /// The folder for shared pages; only with `--verify`.
    pub(crate) pages: Option<PathBuf>,
}

impl Start {
    fn prepare(settings: &Settings, args: &ExecArgs, ruby: Option<&Path>) -> anyhow::Result<Self> {
        let root = settings.root().unwrap_or(Path::new("/"));
        let libraries = unpacked_when_needed(settings, args)?;
        let runtime = libraries.as_ref().map_or(Path::new(""), |found| &found.runtime);
        let around = StartContext {
            runtime,
            find_allocator: &|name| find_allocator(root, name),
            inherited: &|name| std::env::var(name).ok(),
            ruby: ruby.and_then(kind_of),
        };
        let mut environment = settings.environment(&around)?;
        if !environment.preload.is_empty() {
            refuse_secure_execution(ruby)?;
            environment.warnings.extend(ruby.and_then(linked_allocator));
        }
        let mut start = Self { environment, pages: None };
        if let Some(libraries) = libraries {
            start.load(&libraries, args)?;
        }
        Ok(start)
    }

    /// Lets Ruby load the shim, and through it the libraries.
    fn load(&mut self, libraries: &Libraries, args: &ExecArgs) -> anyhow::Result<()> {
        let set = &mut self.environment.set;
        if !args.no_scrub {
            let asked = set.remove(env::SETTINGS).map(|asked| asked + ";").unwrap_or_default();
            set.insert(env::SETTINGS.into(), format!("{asked}scrub=on"));
            set.insert(env::RUNTIME.into(), libraries.runtime.display().to_string());
            for (now, before) in
                [("LD_PRELOAD", env::INHERITED_PRELOAD), ("RUBYOPT", env::INHERITED_RUBYOPT)]
            {
                set.extend(std::env::var(now).ok().map(|value| (before.to_owned(), value)));
            }
        }
        if args.verify {
            let pages = tempfile::Builder::new()
                .prefix("carat-pages-")
                .permissions(PermissionsExt::from_mode(0o700))
                .tempdir()?
                .keep();
            set.insert(env::PROBE.into(), libraries.probe.display().to_string());
            set.insert(env::PAGES.into(), pages.display().to_string());
            self.pages = Some(pages);
        }
        let own = set.get("RUBYOPT").cloned().or_else(|| std::env::var("RUBYOPT").ok());
        let (own, shim) = (own.unwrap_or_default(), format!("-r{}", libraries.shim.display()));
        let others = own.split_ascii_whitespace().filter(|word| *word != shim);
        let all: Vec<&str> = others.chain([shim.as_str()]).collect();
        set.insert("RUBYOPT".into(), all.join(" "));
        Ok(())
    }
}

/// Carat's libraries, unless nothing would be loaded or scrubbed.
fn unpacked_when_needed(settings: &Settings, args: &ExecArgs) -> anyhow::Result<Option<Libraries>> {
    let scrub_preload = settings.preloads() && !args.no_scrub;
    if !scrub_preload && !settings.needs_runtime() && !args.verify {
        return Ok(None);
    }
    let libraries = unpack_in_cache()?;
    Ok(Some(libraries))
}

/// The file's settings, those of `CARAT_SET`, those of the command line; the later win.
fn chosen(args: &ExecArgs) -> anyhow::Result<Settings> {
    let mut settings = read_config(args.config.as_deref())?;
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

/// The `[settings]` table of a file; of `carat.toml`, where it exists and has one, if none is named.
fn read_config(named: Option<&Path>) -> anyhow::Result<Settings> {
    let path = named.unwrap_or(Path::new("carat.toml"));
    let text = match std::fs::read_to_string(path) {
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Settings::default());
        }
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let table: toml::Table =
        text.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    match table.get("settings") {
        Some(toml::Value::Table(settings)) => {
            Settings::parse(settings).with_context(|| path.display().to_string())
        }
        Some(_) => bail!("{}: `settings` must be a table", path.display()),
        None => Ok(Settings::default()),
    }
}

fn search_path(settings: &Settings) -> OsString {
    let mut path = OsString::new();
    if let Some(folder) = settings.ruby_directory() {
        path.push(folder);
        path.push(":");
    }
    path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
    path
}

fn find_program(name: &str, path: &OsString) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The program that the kernel would start for a file: the one behind its `#!`, or itself.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(program).ok()?.take(256).read_to_end(&mut head).ok()?;
    let Some(line) = head.strip_prefix(b"#!") else { return Some(program.to_owned()) };
    let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next()?).into_owned();
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if first.ends_with("/env") {
        let path = std::env::var_os("PATH")?;
        return find_program(words.find(|word| !word.starts_with('-'))?, &path);
    }
    Some(PathBuf::from(first))
}

fn kind_of(program: &Path) -> Option<ElfKind> {
    read_elf(program).ok().flatten()
}

/// The loader drops LD_PRELOAD without a word where a program gains rights by being started (ld.so(8)).
fn refuse_secure_execution(ruby: Option<&Path>) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let Some(ruby) = ruby else { return Ok(()) };
    let Ok(file) = std::fs::metadata(ruby) else { return Ok(()) };
    let mut capabilities = [0u8; 64];
    let gains = file.mode() & 0o6000 != 0
        || rustix::fs::getxattr(ruby, "security.capability", &mut capabilities[..]).is_ok();
    if gains {
        bail!(
            "{} is setuid or has file capabilities, so the loader ignores LD_PRELOAD; give the rights \
             to the service instead (AmbientCapabilities in systemd)",
            ruby.display()
        );
    }
    Ok(())
}

/// A warning where the Ruby brings an allocator of its own.
fn linked_allocator(ruby: &Path) -> Option<String> {
    let program = std::fs::read(ruby).ok()?;
    ["libjemalloc.so", "libmimalloc.so", "libtcmalloc"]
        .into_iter()
        .find(|name| program.windows(name.len()).any(|part| part == name.as_bytes()))
        .map(|name| {
            format!("{} is itself linked to {name}; two allocators may mix", ruby.display())
        })
}

/// Becomes the command; returns only where that fails.
fn replace(command: &[String], environment: &Environment, talk: &mut impl Write) -> u8 {
    if let Some(root) = &environment.root
        && let Err(error) =
            std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"))
    {
        let _ = writeln!(talk, "carat exec: cannot make {} the root: {error}", root.display());
        return FAILED;
    }
    let set: &BTreeMap<String, String> = &environment.set;
    let error = Command::new(&command[0]).args(&command[1..]).envs(set).exec();
    let _ = writeln!(talk, "carat exec: cannot run `{}`: {error}", command[0]);
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}
