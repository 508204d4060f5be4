//! `carat record`: the memory of a process tree over time, and whether it grows.

use crate::cli::Exit;
use crate::input::parse_pid;
use crate::run::recording::{LookPace, RecordingLoad, RecordingRequest};
use crate::work::{RecordedServer, read_scenarios, record};
use anyhow::bail;
use carat_model::load::{ReplayFormat, ReplayPace};
use carat_model::{HttpOptions, Percent, Span};
use carat_proc::observe::SampleOptions;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;

/// Readings from outside more often than this would load the server.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("server").required(true).args(["pid", "command"])))]
#[command(after_help = "Examples:\n  carat record -- puma -C config/puma.rb\n  \
    carat record --load http://127.0.0.1:9292/ -n 300000 -- puma -p 9292\n  \
    carat record --load http://127.0.0.1:9292/ --replay access.log -n 9000 -- puma -p 9292\n  \
    carat record --for 10m --pid 4312\n  carat record --look 60s --pid 4312     which classes grow\n\nWhile it runs: m sets a marker, q or Ctrl-C ends it.")]
pub(crate) struct RecordArgs {
    /// Record a running server, and leave it running
    #[arg(long, value_name = "PID", value_parser = parse_pid)]
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
    /// Sample for this time, from the first request or else from the start on, which class is allocated at which line
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    allocations: Option<Span>,
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
    #[arg(last = true)]
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
    let server = RecordedServer {
        pid: args.pid,
        alone: args.alone,
        command: args.command.clone(),
        details: args.details,
        json: args.json,
    };
    let recording = request(args, &server)?;
    record(&server, recording)
}

fn request(args: &RecordArgs, server: &RecordedServer) -> anyhow::Result<RecordingRequest> {
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
    if args.look.is_some_and(|look| look.0 < SHORTEST_LOOK) {
        bail!("--look must be one second or longer; a reading takes about 0.2 s for 100 MB");
    }
    let look = match (args.no_look, args.look) {
        (true, _) => None,
        (false, None) => Some(LookPace::ByCost),
        (false, Some(span)) => Some(LookPace::Every(span)),
    };
    let path = server.new_file(args.output.as_deref())?;
    let sampling = SampleOptions { every, share: args.budget / 100.0 };
    let (limit, allocations) = (args.limit, args.allocations);
    Ok(RecordingRequest { path, sampling, limit, load, look, allocations })
}
