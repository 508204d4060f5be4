//! `carat record`: the memory of a process tree over time, and whether it grows.

use crate::analysis::growth::of_recording;
use crate::cli::record_load::{Driver, LoadOptions};
use crate::cli::record_view::RecordingView;
use crate::cli::recorder::Recorder;
use crate::cli::{Exit, output, record_load};
use crate::config::Span;
use crate::core::recording::{End, Entry, Head, RECORDING_SCHEMA, Recording};
use crate::observe::{SampleOptions, findings};
use crate::process::{ProcRoot, Tree};
use crate::report::{growth_text, ledger_text};
use crate::run::Interrupt;
use crate::store::recording::{Journal, read};
use crate::target::{
    LaunchSpec, PendingServer, Reaper, Server, library, make_run_directory, run_directory, stop,
};
use anyhow::{Context, bail};
use carat_wire::env::{PAGES, PROBE, TOKEN};
use clap::Args;
use rand::RngExt;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// How long a server may take to end after TERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// How long the last answers of a load may take that was to end when the recording does.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Arguments of `carat record`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat record -- puma -C config/puma.rb\n  \
    carat record --load http://127.0.0.1:9292/ -n 300000 -- puma -p 9292\n  \
    carat record --for 10m --pid 4312\n\nWhile it runs: m marks a moment, q or Ctrl-C ends.")]
pub(crate) struct RecordArgs {
    /// Record a server that runs already, and leave it running
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Leave out its children
    #[arg(long, requires = "pid")]
    alone: bool,
    /// Time from one sample to the next [default: 1s, with --load 250ms]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    every: Option<Span>,
    /// Stop after this time [default: when the server ends or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = Span::parse)]
    limit: Option<Span>,
    /// Share of one core that reading may take, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    budget: f64,
    /// Load to drive meanwhile
    #[command(flatten)]
    load: LoadOptions,
    /// File to write [default: the command's name with .recording.jsonl]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print the file, lines of JSON, instead of words
    #[arg(long)]
    json: bool,
    /// Program and arguments of the server
    #[arg(last = true, required_unless_present = "pid")]
    command: Vec<String>,
}

/// A server of ours, with everything that must go when it goes.
struct Started {
    server: Server,
    reaper: Reaper,
    // Removed last, after whatever still writes there.
    _directory: TempDir,
}

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<Exit> {
    let driver = args.load.driver(args.limit)?;
    let usual = if driver.is_some() { Span::millis(250) } else { Span::seconds(1) };
    let every = args.every.unwrap_or(usual).0;
    if every.is_zero() {
        bail!("--every must be longer than nothing; leave it out to sample once a second");
    }
    let path = free_path(args)?;
    let interrupt = Interrupt::on_signals().context("cannot listen for Ctrl-C")?;
    let options = SampleOptions { every, share: args.budget / 100.0 };
    let attached = args.pid.map(attach).transpose()?;
    let what = attached.as_ref().map_or_else(|| args.command.join(" "), |(_, what)| what.clone());
    let journal = begin(&path, &what)?;
    let (tree, mut started) = match attached {
        Some((tree, _)) => (if args.alone { tree.leader_only() } else { tree }, None),
        None => {
            let started = start(&args.command, &path.with_extension("log"));
            let (tree, started) = started.inspect_err(|_| {
                let _ = fs::remove_file(&path);
            })?;
            (tree, Some(started))
        }
    };
    output::print_message(&format!("recording {what} into {}", path.display()));
    let mut recorder = Recorder::new(ProcRoot::default(), tree, options, journal);
    let mut following = Following { limit: args.limit, started: started.as_mut(), driver };
    let ended = follow(&mut following, &mut recorder, &interrupt);
    let load = following.driver.map(Driver::end);
    recorder.finish();
    let left = started.as_mut().map(|started| end(started, &mut recorder, &interrupt));
    drop(started);
    let warnings = recorder.refusal().map(str::to_owned).into_iter().collect();
    let end = End { ended, load, cost: recorder.cost(), warnings };
    let mut journal = recorder.into_journal();
    let recording = conclude(&mut journal, &path, end)?;
    show(args, &recording, &path)?;
    if let Some((lines, error)) = journal.loss() {
        let path = path.display();
        bail!(
            "{lines} lines of {path} could not be written ({error}); the others are whole: use -o to record elsewhere"
        );
    }
    match left.unwrap_or_default() {
        left if left.is_empty() => Ok(record_load::exit(&recording)),
        left => bail!("these processes of the server survived: {}; end them", left.join(", ")),
    }
}

fn free_path(args: &RecordArgs) -> anyhow::Result<PathBuf> {
    let name = match (args.pid, args.command.first()) {
        (Some(pid), _) => pid.to_string(),
        (None, Some(program)) => {
            let file = Path::new(program).file_name().unwrap_or_default();
            file.to_string_lossy().into_owned()
        }
        (None, None) => bail!("give a command after `--`, or --pid"),
    };
    if let Some(path) = &args.output {
        if path.exists() {
            bail!("{} exists already; name another file with -o", path.display());
        }
        return Ok(path.clone());
    }
    let numbered = (2..).map(|number| format!("{name}-{number}.recording.jsonl"));
    std::iter::once(format!("{name}.recording.jsonl"))
        .chain(numbered)
        .map(PathBuf::from)
        .find(|path| !path.exists())
        .context("no name is free here; give one with -o")
}

fn attach(pid: u32) -> anyhow::Result<(Tree, String)> {
    let root = ProcRoot::default();
    let cannot = || format!("cannot record process {pid}");
    let leader = root.identify(pid).with_context(cannot)?;
    // Who it is anybody may know; what it holds, its own user only.
    root.read(pid, "maps").with_context(cannot)?;
    let title = root.read(pid, "cmdline").unwrap_or_default();
    let what = String::from_utf8_lossy(&title).replace('\0', " ").trim().to_owned();
    Ok((Tree::new(root, leader, ""), what))
}

fn start(command: &[String], log: &Path) -> anyhow::Result<(Tree, Started)> {
    let libraries = library::unpack_in_cache()?;
    let token = format!("{:016x}", rand::rng().random::<u64>());
    let directory = make_run_directory(&run_directory(&std::env::temp_dir(), &token))
        .context("cannot make a private directory; set TMPDIR to a folder that can be written")?;
    let pages = directory.path().join("pages");
    fs::create_dir(&pages).context("cannot make a folder for the probe's pages")?;
    let own = output::variable("RUBYOPT").unwrap_or_default();
    let rubyopt = format!("{own} -r{}", libraries.shim.display()).trim().to_owned();
    let env = BTreeMap::from([
        (TOKEN.to_owned(), token.clone()),
        (PAGES.to_owned(), pages.display().to_string()),
        (PROBE.to_owned(), libraries.probe.display().to_string()),
        ("RUBYOPT".to_owned(), rubyopt),
    ]);
    let dir = std::env::current_dir().context("cannot tell the working directory")?;
    let log = dir.join(log);
    let mut reaper = Reaper::start(&token, directory.path()).context("cannot start the reaper")?;
    let spec = LaunchSpec { command: command.to_vec(), dir, env, log, root: None };
    let held = PendingServer::start(reaper.exe(), &spec)?;
    reaper.register([held.identity()]);
    let tree = Tree::new(ProcRoot::default(), held.identity(), token)
        .with_subreaper(std::process::id(), [reaper.pid()]);
    let server = held.exec()?;
    Ok((tree, Started { server, reaper, _directory: directory }))
}

/// What is watched beside the samples.
struct Following<'a> {
    limit: Option<Span>,
    started: Option<&'a mut Started>,
    driver: Option<Driver>,
}

impl Following<'_> {
    /// How a server of ours ended; `None` while it runs, and of somebody else's.
    fn server_ended(&mut self) -> Option<ExitStatus> {
        self.started.as_mut().and_then(|started| started.server.ended())
    }

    /// Whether the time is over; a load that is bounded by it may finish.
    fn is_over(&self, elapsed: Duration) -> bool {
        let late = if self.driver.as_ref().is_some_and(Driver::is_sending) {
            LAST_ANSWERS
        } else {
            Duration::ZERO
        };
        self.limit.is_some_and(|limit| elapsed >= limit.0 + late)
    }
}

/// Samples until the tree ends, the load or the time is over, or the user asks; in words, which.
fn follow(following: &mut Following<'_>, recorder: &mut Recorder, interrupt: &Interrupt) -> String {
    const STEP: Duration = Duration::from_millis(50);
    let mut view = RecordingView::new(following.limit.map(|limit| limit.0));
    loop {
        if interrupt.requested() || view.handle_keys(recorder) {
            return "stopped by the user".into();
        }
        if following.is_over(recorder.elapsed()) {
            return "the time was over".into();
        }
        if let Some(why) = following.driver.as_mut().and_then(|driver| driver.step(recorder)) {
            return why;
        }
        let status = following.server_ended();
        if recorder.wait().is_zero() {
            let members = recorder.sample();
            if members.is_empty() {
                let status = status.or_else(|| following.server_ended());
                let how = status.map(|status| format!(" with {status}")).unwrap_or_default();
                return format!("the server ended by itself{how}");
            }
            if let Some(started) = &mut following.started {
                started.reaper.register(members);
            }
            view.show(recorder);
        }
        sleep(recorder.wait().clamp(Duration::from_millis(1), STEP));
    }
}

fn end(started: &mut Started, recorder: &mut Recorder, interrupt: &Interrupt) -> Vec<String> {
    let grace = if interrupt.requested_again() { Duration::ZERO } else { GRACE };
    let server = &mut started.server;
    let stopped = stop(recorder.tree(), grace, || {
        server.ended();
    });
    stopped.survivors
}

fn begin(path: &Path, what: &str) -> anyhow::Result<Journal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_ms = now.as_millis() as u64;
    let head = Head { schema: RECORDING_SCHEMA.into(), what: what.into(), started_ms };
    Journal::create(path, &head).with_context(|| {
        let path = path.display();
        format!("cannot write {path}; check the folder and the free space, or use -o")
    })
}

/// What was written down, and what follows from it.
fn conclude(journal: &mut Journal, path: &Path, mut end: End) -> anyhow::Result<Recording> {
    let mut recording = read(path)?;
    recording.growth = of_recording(&recording);
    end.warnings.extend(warnings(&recording, &end));
    journal.append(&Entry::Growth(recording.growth.clone()));
    journal.append(&Entry::End(Box::new(end.clone())));
    recording.end = Some(end);
    Ok(recording)
}

fn warnings(recording: &Recording, end: &End) -> Vec<String> {
    let mut warnings = Vec::new();
    let partial = recording.samples.iter().filter(|sample| sample.partial).count();
    if partial > 0 {
        warnings.push(format!("{partial} samples are partial: a process ended while it was read"));
    }
    if end.cost.late > 0 {
        let late = end.cost.late;
        warnings.push(format!("{late} samples were late or left out; give a longer --every"));
    }
    warnings.extend(record_load::warnings(recording, end));
    warnings
}

fn show(args: &RecordArgs, recording: &Recording, path: &Path) -> anyhow::Result<()> {
    if args.json {
        output::print_data(&fs::read_to_string(path)?)?;
    } else {
        if let Some(ledger) = &recording.ledger {
            output::print_data(&ledger_text(ledger, &findings(ledger)))?;
        }
        output::print_data(&growth_text(recording))?;
    }
    for warning in recording.end.iter().flat_map(|end| &end.warnings) {
        output::print_message(&format!("note: {warning}"));
    }
    output::print_message(&format!("\nrecording  {}", path.display()));
    Ok(())
}
