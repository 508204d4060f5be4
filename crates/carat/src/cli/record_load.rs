//! The load that `carat record` drives, so that growth can be told per request.

use crate::cli::Exit;
use crate::cli::recorder::Recorder;
use crate::config::ReadyCheck;
use crate::core::recording::{End, MarkerKind, RecordedLoad, Recording};
use crate::core::{HttpTable, LoadFlag, LoadReport, LoadSpec, Severity, Span};
use crate::load::target::resolve;
use crate::load::{Generator, net};
use crate::target::check_ready;
use anyhow::{Context, bail};
use clap::Args;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long one look may take: samples wait for it.
const PATIENCE: Duration = Duration::from_millis(100);
/// A load that ends with the recording, whenever that is.
const FOR_EVER: Span = Span::seconds(365 * 24 * 3600);

/// Options of `carat record` about load.
#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// GET this URL again and again as soon as it answers, and tell growth per request
    #[arg(long = "load", value_name = "URL")]
    url: Option<String>,
    /// Requests per second whatever the server does [default: as many as it answers]
    #[arg(long, value_name = "PER_SECOND", requires = "url")]
    rate: Option<f64>,
    /// Connections open at once [default: 8]
    #[arg(short, long, value_name = "N", requires = "url")]
    connections: Option<u32>,
    /// End after so many requests
    #[arg(short = 'n', long, value_name = "N", requires = "url")]
    requests: Option<u64>,
}

impl LoadOptions {
    /// What drives the load that these options ask for; `None` where they ask for none.
    ///
    /// # Errors
    /// Where the URL leads nowhere or the options contradict each other.
    pub(crate) fn driver(&self, limit: Option<Span>) -> anyhow::Result<Option<Driver>> {
        let Some(url) = &self.url else { return Ok(None) };
        let target = resolve(url)?;
        let (net::Address::Inet(address), None) = (target.address, target.tls_name) else {
            bail!("cannot drive load to {url}; write it as http://127.0.0.1:9292/path");
        };
        let base = url.strip_suffix(&target.path).unwrap_or(url).to_owned();
        let mut table = HttpTable { path: target.path.clone(), ..HttpTable::default() };
        table.requests = self.requests;
        table.rate = self.rate;
        table.connections = self.connections.unwrap_or(table.connections);
        let driver = Driver {
            url: url.clone(),
            ready: (ReadyCheck::Http(target.path), address),
            base,
            table,
            limit,
            state: State::Waiting,
        };
        driver.spec(Duration::ZERO).context("cannot drive this load")?;
        Ok(Some(driver))
    }
}

/// A load beside a recording: waits until the server answers, then sends.
pub(crate) struct Driver {
    url: String,
    ready: (ReadyCheck, SocketAddr),
    base: String,
    table: HttpTable,
    limit: Option<Span>,
    state: State,
}

enum State {
    Waiting,
    Sending(Generator),
    Over(Option<Box<LoadReport>>),
}

impl Driver {
    /// One short step; in words why the recording is over, where it is.
    pub(crate) fn step(&mut self, recorder: &mut Recorder) -> Option<String> {
        match &mut self.state {
            State::Waiting => self.begin(recorder),
            State::Sending(generator) => {
                recorder.requests = Some(generator.done());
                let polled = generator.poll();
                let (report, why) = match polled {
                    Ok(None) => return None,
                    Ok(Some(report)) => {
                        recorder.requests = Some(report.completed + report.errors);
                        (Some(Box::new(report)), "the load was over".to_owned())
                    }
                    Err(error) => (None, error.to_string()),
                };
                recorder.mark(MarkerKind::LoadEnds);
                self.state = State::Over(report);
                Some(why)
            }
            State::Over(_) => None,
        }
    }

    /// Whether requests are being sent.
    pub(crate) fn is_sending(&self) -> bool {
        matches!(self.state, State::Sending(_))
    }

    /// Ends the load, also before its time.
    pub(crate) fn end(self) -> RecordedLoad {
        let report = match self.state {
            State::Over(report) => report.map(|report| *report),
            State::Waiting | State::Sending(_) => None,
        };
        RecordedLoad { url: self.url, report }
    }

    fn begin(&mut self, recorder: &mut Recorder) -> Option<String> {
        let elapsed = recorder.elapsed();
        if let Err(not_ready) = check_ready(&self.ready.0, self.ready.1, Path::new(""), PATIENCE) {
            let within = READY_WITHIN.as_secs();
            return (elapsed > READY_WITHIN)
                .then(|| format!("after {within} s the server still {}", not_ready.0));
        }
        let exe = std::env::current_exe().map_err(|error| error.to_string());
        let spec = self.spec(elapsed).map_err(|error| error.to_string());
        let begun = exe.and_then(|exe| {
            Generator::spawn(&exe, &LoadSpec::Http(spec?)).map_err(|error| error.to_string())
        });
        match begun {
            Ok(generator) => {
                recorder.tree().exclude(generator.pid());
                recorder.mark(MarkerKind::LoadBegins);
                self.state = State::Sending(generator);
                None
            }
            Err(why) => Some(why),
        }
    }

    /// The load for what is left of the time.
    fn spec(
        &self,
        elapsed: Duration,
    ) -> Result<crate::core::load::HttpLoad, crate::core::load_table::LoadTableError> {
        let left = self.limit.map_or(FOR_EVER, |limit| {
            Span(limit.0.saturating_sub(elapsed).max(Duration::from_millis(1)))
        });
        let duration = self.table.requests.is_none().then_some(left);
        HttpTable { duration, ..self.table.clone() }.load(&self.base)
    }
}

/// What speaks against the load of a recording.
pub(crate) fn warnings(recording: &Recording, end: &End) -> Vec<String> {
    let Some(load) = &end.load else { return Vec::new() };
    match &load.report {
        Some(report) => report.flags.iter().map(|flag| format!("load: {}", flag.message)).collect(),
        None if recording.samples.iter().all(|sample| sample.answered.is_none()) => {
            vec![format!("no load was driven to {}: {}", load.url, end.ended)]
        }
        None => Vec::new(),
    }
}

/// How a recording ends: without answers its growth per request is worth nothing. A pace that was not kept costs it
/// nothing, because requests are counted.
pub(crate) fn exit(recording: &Recording) -> Exit {
    let Some(load) = recording.load() else { return Exit::Fine };
    let never_began = recording.samples.iter().all(|sample| sample.answered.is_none());
    let speaks_against =
        |flag: &LoadFlag| flag.severity == Severity::Fatal && flag.code != "rate-not-reached";
    let is_invalid = |report: &LoadReport| report.flags.iter().any(speaks_against);
    if never_began || load.report.as_ref().is_some_and(is_invalid) {
        Exit::Invalid
    } else {
        Exit::Fine
    }
}
