//! `carat record`: the memory of a process tree over time, and whether it grows.

use crate::cli::{Exit, output};
use crate::run::Interrupt;
use crate::run::recording::{
    ActiveRecording, LookPace, RecordingLoad, RecordingRequest, RecordingSubject, is_invalid,
};
use crate::view::RecordingView;
use crate::work::read_scenarios;
use anyhow::{Context, bail};
use carat_analysis::findings_beside_growth;
use carat_model::load::{ReplayFormat, ReplayPace};
use carat_model::recording::{ClassGrowth, Recording};
use carat_model::{HttpOptions, LoadReport, Percent, Span};
use carat_proc::observe::SampleOptions;
use carat_report::{count, growth_text, ledger_text, recording_html, shell_line};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Readings from outside more often than this would load the server.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat record -- puma -C config/puma.rb\n  \
    carat record --load http://127.0.0.1:9292/ -n 300000 -- puma -p 9292\n  \
    carat record --load http://127.0.0.1:9292/ --replay access.log -n 9000 -- puma -p 9292\n  \
    carat record --for 10m --pid 4312\n  carat record --look 60s --pid 4312     which classes grow\n\nWhile it runs: m sets a marker, q or Ctrl-C ends it.")]
pub(crate) struct RecordArgs {
    /// Record a running server, and leave it running
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Exclude its children
    #[arg(long, requires = "pid")]
    alone: bool,
    /// Time from one sample to the next [default: 1s, with --load 250ms]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    every: Option<Span>,
    /// Stop after this time [default: when the server ends or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = Span::parse)]
    limit: Option<Span>,
    /// Share of one core that sampling may take, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    budget: f64,
    /// Read what Ruby keeps, and which classes become more, from outside once in this time [default: as often as 2% of a core allow, more often at first]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    look: Option<Span>,
    /// Do not read the memory of the server: only what the kernel and a probe tell
    #[arg(long, conflicts_with = "look")]
    no_look: bool,
    #[command(flatten)]
    load: RecordLoadArgs,
    /// File to write [default: the command's name with .recording.jsonl]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print the whole ledger of the memory too: parts, processes, Ruby's heap, the arenas of malloc, what to try
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print the file, lines of JSON, instead of text
    #[arg(long)]
    json: bool,
    /// Program and arguments of the server
    #[arg(last = true, required_unless_present = "pid")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct RecordLoadArgs {
    /// GET this URL again and again as soon as it answers, and report growth per request
    #[arg(long = "load", value_name = "URL")]
    url: Option<String>,
    /// Requests per second, whatever the server does [default: as many as it answers]
    #[arg(long, value_name = "PER_SECOND", requires = "url")]
    rate: Option<f64>,
    /// Connections open at once [default: 8]
    #[arg(short, long, value_name = "N", requires = "url")]
    connections: Option<u32>,
    /// End after this number of requests
    #[arg(short = 'n', long, value_name = "N", requires = "url")]
    requests: Option<u64>,
    /// File with scenarios, or an experiment file: sessions of several steps instead of the URL alone
    #[arg(long, value_name = "FILE", requires = "url")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    replay: RecordReplayArgs,
    /// Share of requests without a correct response above which the recording is invalid [default: 1%]
    #[arg(long, value_name = "PERCENT", requires = "url", value_parser = Percent::parse)]
    errors: Option<Percent>,
}

/// The options of a replay, as `carat load http` has them.
#[derive(Debug, Args)]
struct RecordReplayArgs {
    /// Access log, HAR or OpenAPI file whose requests are sent instead of the URL alone
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with_all = ["scenario", "urls"])]
    replay: Option<String>,
    /// List of paths or URLs that are requested instead: one per line, a method before it, a weight after it
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with = "scenario")]
    urls: Option<String>,
    /// Format of the replayed file, if its content does not show it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "replay")]
    replay_format: Option<ReplayFormat>,
    /// Send at the recorded times: `recorded`, or a factor such as `2x` [default: as fast as the connections allow]
    #[arg(long, value_name = "PACE", value_parser = ReplayPace::parse, requires = "replay", conflicts_with = "rate")]
    pace: Option<ReplayPace>,
    /// Also replay requests that may change data, not only GET and HEAD
    #[arg(long)]
    all_methods: bool,
    /// Also replay the cookies and other private headers of a HAR
    #[arg(long)]
    private_headers: bool,
}

impl RecordReplayArgs {
    fn options(&self) -> HttpOptions {
        HttpOptions {
            replay: self.replay.clone(),
            urls: self.urls.clone(),
            replay_format: self.replay_format,
            pace: self.pace,
            all_methods: self.all_methods,
            private_headers: self.private_headers,
            ..HttpOptions::default()
        }
    }
}

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<Exit> {
    let request = request(args)?;
    let path = request.path.clone();
    let interrupt = Interrupt::on_signals().context("cannot listen for Ctrl-C")?;
    let mut subject = match args.pid {
        Some(pid) => RecordingSubject::running(pid, args.alone)?,
        None => RecordingSubject::command(&args.command, &log_path(&path))?,
    };
    let title = subject.title();
    let mut active = ActiveRecording::start(request, &mut subject, interrupt)?;
    output::print_message(&format!("recording {title} into {}", path.display()));
    let mut view = RecordingView::new(args.limit.map(|limit| limit.0));
    let ended = active.follow(&mut view);
    // The terminal must be back to normal before anything is printed.
    drop(view);
    let finished = active.finish(ended)?;
    drop(subject);
    print(args, &finished.recording, &path)?;
    if let Some((lines, error)) = finished.loss {
        let path = path.display();
        bail!(
            "{} of {path} could not be written ({error}); the others are complete: use -o to record elsewhere",
            count(lines, "line")
        );
    }
    if !finished.survivors.is_empty() {
        let survivors = finished.survivors.join(", ");
        bail!("these processes of the server survived: {survivors}; end them");
    }
    Ok(if is_invalid(&finished.recording) { Exit::Invalid } else { Exit::Fine })
}

fn request(args: &RecordArgs) -> anyhow::Result<RecordingRequest> {
    let RecordLoadArgs { url, rate, connections, requests, scenario, replay, errors } = &args.load;
    let scenarios = match scenario {
        Some(file) => Some((read_scenarios(file)?, file.display().to_string())),
        None => None,
    };
    let load = url.clone().map(|url| RecordingLoad {
        url,
        rate: *rate,
        connections: *connections,
        requests: *requests,
        scenarios,
        replay: replay.options(),
        errors: *errors,
    });
    let default = if load.is_some() { Span::millis(250) } else { Span::seconds(1) };
    let every = args.every.unwrap_or(default).0;
    if every.is_zero() {
        bail!("--every must be longer than zero; leave it out to sample once a second");
    }
    let sampling = SampleOptions { every, share: args.budget / 100.0 };
    if args.look.is_some_and(|look| look.0 < SHORTEST_LOOK) {
        bail!("--look must be one second or longer; a reading takes about 0.2 s for 100 MB");
    }
    let look = match (args.no_look, args.look) {
        (true, _) => None,
        (false, None) => Some(LookPace::ByCost),
        (false, Some(span)) => Some(LookPace::Every(span)),
    };
    let (path, limit) = (output_path(args)?, args.limit);
    Ok(RecordingRequest { path, sampling, limit, load, look })
}

fn output_path(args: &RecordArgs) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.output {
        if path.exists() {
            bail!("{} exists already; name another file with -o", path.display());
        }
        return Ok(path.clone());
    }
    let name = match (args.pid, args.command.first()) {
        (Some(pid), _) => pid.to_string(),
        (None, Some(program)) => {
            let file = Path::new(program).file_name().unwrap_or_default();
            file.to_string_lossy().into_owned()
        }
        (None, None) => bail!("give a command after `--`, or --pid"),
    };
    let numbered = (2..).map(|number| format!("{name}-{number}.recording.jsonl"));
    std::iter::once(format!("{name}.recording.jsonl"))
        .chain(numbered)
        .map(PathBuf::from)
        .find(|path| !path.exists())
        .context("every name is taken; give one with -o")
}

fn print(args: &RecordArgs, recording: &Recording, path: &Path) -> anyhow::Result<()> {
    if args.json {
        output::print_data(&fs::read_to_string(path)?)?;
    } else {
        output::print_text(&growth_text(recording))?;
        if let Some(ledger) = recording.ledger.as_ref().filter(|_| args.details) {
            output::print_text(&format!(
                "\n{}",
                ledger_text(ledger, &findings_beside_growth(ledger, &recording.growth))
            ))?;
        }
    }
    for warning in recording.end.iter().flat_map(|end| &end.warnings) {
        output::print_message(&format!("note: {warning}"));
    }
    let report = recording.load().and_then(|load| load.report.as_ref());
    for note in report.into_iter().flat_map(|report| &report.flags).filter(|f| f.code == "replay") {
        output::print_message(&format!("note: replay: {}", note.message));
    }
    for failure in report.into_iter().flat_map(LoadReport::wrong_bodies) {
        output::print_message(&format!("note: load: {failure}"));
    }
    output::print_message(&format!("\nrecording  {}", path.display()));
    if args.pid.is_none() {
        output::print_message(&format!("log        {}", log_path(path).display()));
    }
    output::print_message(&write_recording_page(recording, path));
    if let Some(pid) = args.pid {
        output::print_message(&format!("next       {}", next_command(pid, recording)));
    }
    Ok(())
}

/// Who keeps the class whose growth is known best; strings and arrays that belong to it vary more than it does.
fn next_command(pid: u32, recording: &Recording) -> String {
    let classes = recording.end.iter().flat_map(|end| &end.classes);
    let width = |class: &&ClassGrowth| (class.interval.1 - class.interval.0) / class.rate;
    let best = classes.min_by(|one, other| width(one).total_cmp(&width(other)));
    let who = best.map(|class| ["--who".to_owned(), class.class.clone()]);
    let words = ["carat".to_owned(), "explain".to_owned(), pid.to_string()];
    shell_line(&words.into_iter().chain(who.into_iter().flatten()).collect::<Vec<_>>())
}

/// Writes the page beside the recording and returns a line about it. The recording is complete without its page.
fn write_recording_page(recording: &Recording, path: &Path) -> String {
    let page = path.with_extension("html");
    if page.exists() {
        return format!(
            "note: {} exists already; `carat report -o` writes the page elsewhere",
            page.display()
        );
    }
    let html = recording_html(recording, &output::page_options(false));
    match output::write_page_beside(&page, &html) {
        Ok(()) => format!("page       {}", page.display()),
        Err(error) => format!("note: {error:#}"),
    }
}

/// What the server prints.
fn log_path(recording: &Path) -> PathBuf {
    recording.with_extension("log")
}
