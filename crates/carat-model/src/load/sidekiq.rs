//! The options of a load of Sidekiq jobs, `[load.sidekiq]` or `carat load sidekiq`, and the load they describe.

use super::data::DataFile;
use super::http::Amount;
use super::options::{
    Arrivals, ConnectionOptions, ERRORS, LoadOptionError, MOST_SENDS, Pace, ProtocolOptions,
    TlsOptions, check_errors, check_most,
};
use crate::{Percent, Span};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Jobs that may be in the queue or running at once in a load that pushes all of them at once.
pub const ALL_AT_ONCE: u32 = u32::MAX;

/// Options of a load of Sidekiq jobs.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SidekiqOptions {
    /// URL of the jobs' Redis, with placeholders. The command line has it as an argument of its own.
    #[arg(skip = Self::default().redis)]
    pub redis: String,
    /// Class of the jobs
    #[arg(long, value_name = "CLASS")]
    pub class: String,
    /// Arguments of a job as a JSON array; `{number}` is the job's number, `{NAME}` a value of its row
    #[arg(long, value_name = "JSON", value_parser = JobArguments::parse)]
    pub args: Option<JobArguments>,
    /// File of comma-separated values; each job has the next row, whose values are its arguments unless --args names them
    #[arg(long, value_name = "FILE")]
    pub data: Option<String>,
    /// Queue
    #[arg(long, default_value_t = Self::default().queue)]
    pub queue: String,
    /// How often Sidekiq tries a failed job again
    #[arg(long, value_name = "N", default_value_t = Self::default().retry)]
    pub retry: u32,
    /// Number of jobs
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub jobs: Option<u64>,
    /// How long to push jobs at a rate
    #[arg(short, long, value_name = "SPAN", value_parser = Span::parse, requires = "rate")]
    pub duration: Option<Span>,
    /// Jobs that are pushed before the measured ones; a tenth of the load if absent.
    #[arg(skip)]
    pub warmup: Option<u64>,
    /// Jobs in the queue or running at once; without it and without --rate all are pushed at once
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub at_once: Option<u32>,
    /// Jobs per second, whatever Sidekiq does
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How a rate is spread
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Share of failed jobs above which the figures are invalid
    #[arg(long, value_name = "PERCENT", value_parser = Percent::parse, default_value_t = Self::default().errors)]
    pub errors: Percent,
    /// How long to wait for Redis' answer, and for the next job to begin or to end
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().timeout)]
    pub timeout: Span,
    /// Time between two readings of Redis' counters; no time of a job is finer
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().poll)]
    pub poll: Span,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = Self::default().seed)]
    pub seed: u64,
    /// Certificates (PEM) that may sign that of a Redis at `rediss://`, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
}

impl Default for SidekiqOptions {
    fn default() -> Self {
        Self {
            redis: "redis://127.0.0.1:{services.redis.port}".to_owned(),
            class: String::new(),
            args: None,
            data: None,
            queue: "default".to_owned(),
            retry: 0,
            jobs: None,
            duration: None,
            warmup: None,
            at_once: None,
            rate: None,
            arrivals: None,
            errors: ERRORS,
            timeout: Span::seconds(30),
            poll: Span::millis(5),
            seed: ConnectionOptions::default().seed,
            ca: None,
            insecure: false,
        }
    }
}

/// Arguments of a job, with placeholders.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobArguments(pub Vec<Value>);

impl JobArguments {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text)
            .map_err(|error| format!("{error}; write a JSON array such as `[1, \"a\"]`"))
    }
}

/// Jobs in Sidekiq's own format, pushed into Redis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SidekiqLoad {
    /// `redis://user:password@host:port/database`, `rediss://…` or `unix:/path/of.sock`. User and password can be
    /// placeholders of the environment.
    pub redis: String,
    /// Class of the jobs.
    pub class: String,
    /// Arguments of a job; a whole row of `data`, or none, if absent.
    pub args: Option<JobArguments>,
    /// File with the jobs' values.
    pub data: Option<DataFile>,
    /// Queue.
    pub queue: String,
    /// How often Sidekiq tries a failed job again.
    pub retry: u32,
    /// When to stop.
    pub amount: Amount,
    /// When a job is pushed; [`ALL_AT_ONCE`] in a closed load pushes all at once.
    pub pace: Pace,
    /// Seconds between two readings of Redis' counters.
    pub poll_s: f64,
    /// Options that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

impl SidekiqOptions {
    /// The load on the Redis at `base`, such as `redis://127.0.0.1:6379`.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn load(&self, base: &str) -> Result<SidekiqLoad, LoadOptionError> {
        // A path stands for "the server of the URL", see `at`.
        let own = Self { redis: "/".to_owned(), ..self.clone() };
        own.validate().map(|load| Self::at(load, base))
    }

    fn amount(&self) -> Result<Amount, LoadOptionError> {
        let jobs = |what: &str| Err(LoadOptionError::Jobs(what.to_owned()));
        match (self.jobs, self.duration, self.rate) {
            (Some(_), Some(_), _) => {
                jobs("has `jobs` and `duration`, which exclude each other: keep one")
            }
            (Some(0), None, _) => Err(LoadOptionError::Zero("sidekiq.jobs")),
            (Some(number), None, _) => Ok(Amount::Requests(number)),
            // Without a rate jobs are pushed as fast as possible, which no duration ends sensibly.
            (None, Some(_), None) => jobs("has a `duration` and no `rate`: say how many `jobs`"),
            (None, Some(duration), Some(_)) if duration.0.is_zero() => {
                Err(LoadOptionError::Zero("sidekiq.duration"))
            }
            // A rate without an end runs for ten seconds, as an HTTP load does.
            (None, duration, Some(_)) => {
                Ok(Amount::Seconds(duration.map_or(10.0, Span::as_seconds)))
            }
            (None, None, None) => jobs("needs `jobs`, or a `rate`: say how much work there is"),
        }
    }

    fn check(&self) -> Result<(), LoadOptionError> {
        if self.class.is_empty() || self.queue.is_empty() {
            let message = "needs `class`, the name of a job's class, and a queue that is not empty";
            return Err(LoadOptionError::Jobs(message.to_owned()));
        }
        if self.rate.is_some() && self.at_once.is_some() {
            let message = "has `rate` and `at_once`, which exclude each other: keep one";
            return Err(LoadOptionError::Jobs(message.to_owned()));
        }
        if self.at_once == Some(0) {
            return Err(LoadOptionError::Zero("sidekiq.at_once"));
        }
        check_most([("sidekiq.jobs", self.jobs.unwrap_or_default(), MOST_SENDS)])?;
        // Reading without a pause would make Redis the bottleneck.
        if self.poll.0.is_zero() {
            return Err(LoadOptionError::Zero("sidekiq.poll"));
        }
        Ok(())
    }
}

impl ProtocolOptions for SidekiqOptions {
    type Load = SidekiqLoad;

    const ABOUT: &'static str = "Push jobs into a Sidekiq's Redis and follow them to their end";
    const URL_HELP: &'static str =
        "`redis://[user:password@]host:port/database`, `rediss://…` or `unix:/path/of.sock`";
    const SCHEMES: [&'static str; 2] = ["redis", "rediss"];

    fn validate(&self) -> Result<SidekiqLoad, LoadOptionError> {
        self.check()?;
        Ok(SidekiqLoad {
            redis: self.redis.clone(),
            class: self.class.clone(),
            args: self.args.clone(),
            data: self.data.clone().map(DataFile::Named),
            queue: self.queue.clone(),
            retry: self.retry,
            amount: self.amount()?,
            pace: Pace::new(self.rate, self.arrivals, self.at_once.unwrap_or(ALL_AT_ONCE))?,
            poll_s: self.poll.as_seconds(),
            options: ConnectionOptions {
                timeout_s: self.timeout.as_seconds(),
                seed: self.seed,
                ca: self.ca.clone(),
                insecure: self.insecure,
                errors: check_errors(self.errors)?,
                ..ConnectionOptions::default()
            },
        })
    }

    /// The Redis of an experiment has a URL of its own; that of the command line is a path until it gets its server here.
    fn at(load: SidekiqLoad, base: &str) -> SidekiqLoad {
        let redis = match load.redis.as_str() {
            "/" => base.to_owned(),
            path if path.starts_with('/') => format!("{base}{path}"),
            // A whole URL is that of an experiment, which has its own server.
            _ => return load,
        };
        SidekiqLoad { redis, ..load }
    }

    fn set_url_path(&mut self, path: &str) {
        path.clone_into(&mut self.redis);
    }

    fn tls_options(&self) -> TlsOptions<'_> {
        let tls = self.redis.starts_with("rediss:");
        TlsOptions { tls, ca: self.ca.as_deref(), insecure: self.insecure }
    }

    fn warmup(&self, load: &SidekiqLoad) -> Option<SidekiqLoad> {
        let amount = match (self.warmup, load.amount) {
            // A tenth of fewer than ten jobs is none.
            (Some(0), _) | (None, Amount::Requests(..10)) => return None,
            (Some(jobs), _) => Amount::Requests(jobs),
            (None, Amount::Requests(jobs)) => Amount::Requests(jobs / 10),
            (None, Amount::Seconds(seconds)) => Amount::Seconds(seconds / 10.0),
        };
        Some(SidekiqLoad { amount, ..load.clone() })
    }

    fn requests(&self) -> Option<u64> {
        self.jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SidekiqLoad, LoadOptionError> {
        toml::from_str::<SidekiqOptions>(text).unwrap().validate()
    }

    #[test]
    fn the_smallest_table_pushes_all_jobs_at_once_into_the_service_redis() {
        let load = parse("class = 'A'\njobs = 7").unwrap();
        assert_eq!(load.redis, "redis://127.0.0.1:{services.redis.port}");
        assert_eq!((load.amount, load.queue.as_str()), (Amount::Requests(7), "default"));
        assert_eq!(load.pace, Pace::Closed { at_once: ALL_AT_ONCE });
        assert_eq!(load.poll_s, 0.005);
    }

    #[test]
    fn arguments_are_json_or_toml() {
        let load = parse("class = 'A'\njobs = 1\nargs = [1, 'a', { x = [true] }]").unwrap();
        let json = JobArguments::parse("[1, \"a\", {\"x\": [true]}]").unwrap();
        assert_eq!(load.args, Some(json));
        assert!(JobArguments::parse("{}").unwrap_err().contains("a JSON array"));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused_with_what_to_do() {
        for (text, expected) in [
            ("jobs = 1", "needs `class`"),
            ("class = 'A'", "needs `jobs`"),
            ("class = 'A'\njobs = 0", "load.sidekiq.jobs must be more than 0"),
            ("class = 'A'\njobs = 1\nat_once = 0", "load.sidekiq.at_once must be more than 0"),
            ("class = 'A'\njobs = 1\npoll = '0s'", "load.sidekiq.poll must be more than 0"),
            ("class = 'A'\nduration = '1s'", "no `rate`"),
            ("class = 'A'\njobs = 1\nduration = '1s'", "exclude each other"),
            ("class = 'A'\nrate = 5.0\nduration = '0s'", "load.sidekiq.duration must be"),
            ("class = 'A'\njobs = 1\nrate = 5.0\nat_once = 2", "exclude each other"),
            ("class = 'A'\njobs = 1\nrate = 0.0", "load.rate must be more than 0"),
            ("class = 'A'\njobs = 1\narrivals = 'poisson'", "add `rate`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_redis_of_the_command_line_replaces_that_of_an_experiment() {
        let mut options = SidekiqOptions { class: "A".into(), jobs: Some(1), ..Default::default() };
        for (path, expected) in [("/", "redis://h:1"), ("/3", "redis://h:1/3")] {
            options.set_url_path(path);
            let load = SidekiqOptions::at(options.validate().unwrap(), "redis://h:1");
            assert_eq!(load.redis, expected);
        }
        assert_eq!(options.load("unix:/r.sock").unwrap().redis, "unix:/r.sock");
    }

    #[test]
    fn the_warm_up_is_a_tenth_unless_it_is_given() {
        for (text, expected) in [
            ("jobs = 50", Some(Amount::Requests(5))),
            ("jobs = 9", None),
            ("jobs = 9\nwarmup = 3", Some(Amount::Requests(3))),
            ("jobs = 50\nwarmup = 0", None),
            ("rate = 2.0\nduration = '20s'", Some(Amount::Seconds(2.0))),
        ] {
            let options: SidekiqOptions = toml::from_str(&format!("class = 'A'\n{text}")).unwrap();
            let load = options.validate().unwrap();
            assert_eq!(options.warmup(&load).map(|warmup| warmup.amount), expected, "{text}");
        }
    }
}
