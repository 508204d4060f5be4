//! The options of a load of jobs in a database, `[load.sql_queue]` or `carat load sql-queue`, and the load they describe.

use super::data::DataFile;
use super::http::Amount;
use super::options::{
    Arrivals, ConnectionOptions, ERRORS, LoadOptionError, MOST_SENDS, Pace, ProtocolOptions,
    TlsOptions, check_errors, check_most,
};
use super::sidekiq::{ALL_AT_ONCE, JobArguments};
use crate::{Percent, Span};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// Options of a load of jobs in the tables of Solid Queue or GoodJob.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SqlQueueOptions {
    /// URL of the jobs' database, with placeholders. The command line has it as an argument of its own.
    #[arg(skip)]
    pub database: String,
    /// Whose tables; needed if the database has those of both
    #[arg(long, value_enum)]
    pub gem: Option<QueueGem>,
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
    /// Number of jobs
    #[arg(short = 'n', long, value_name = "N")]
    pub jobs: Option<u64>,
    /// Jobs that are inserted before the measured ones; a tenth of the load if absent.
    #[arg(skip)]
    pub warmup: Option<u64>,
    /// Jobs that wait or run at once; without it and without --rate all are inserted at once
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub at_once: Option<u32>,
    /// Jobs per second, whatever the workers do
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How a rate is spread
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Share of failed jobs above which the figures are invalid
    #[arg(long, value_name = "PERCENT", value_parser = Percent::parse, default_value_t = Self::default().errors)]
    pub errors: Percent,
    /// How long to wait for the database's answer, and for the next job to end
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().timeout)]
    pub timeout: Span,
    /// Time between two counts of the jobs that have ended
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().poll)]
    pub poll: Span,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = Self::default().seed)]
    pub seed: u64,
}

impl Default for SqlQueueOptions {
    fn default() -> Self {
        Self {
            database: String::new(),
            gem: None,
            class: String::new(),
            args: None,
            data: None,
            queue: "default".to_owned(),
            jobs: None,
            warmup: None,
            at_once: None,
            rate: None,
            arrivals: None,
            errors: ERRORS,
            timeout: Span::seconds(30),
            poll: Span::millis(100),
            seed: ConnectionOptions::default().seed,
        }
    }
}

/// A gem that keeps its jobs in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueGem {
    /// Solid Queue, in PostgreSQL or SQLite
    #[value(name = "solid_queue")]
    SolidQueue,
    /// GoodJob, in PostgreSQL
    #[value(name = "good_job")]
    GoodJob,
}

/// Jobs in the tables of Solid Queue or GoodJob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqlQueueLoad {
    /// `postgresql://user:password@host:port/database` or `sqlite:FILE`. User and password can be placeholders of the
    /// environment.
    pub database: String,
    /// Whose tables; those that are there if absent.
    pub gem: Option<QueueGem>,
    /// Class of the jobs.
    pub class: String,
    /// Arguments of a job; a whole row of `data`, or none, if absent.
    pub args: Option<JobArguments>,
    /// File with the jobs' values.
    pub data: Option<DataFile>,
    /// Queue.
    pub queue: String,
    /// When to stop; a number of jobs.
    pub amount: Amount,
    /// When a job is inserted; [`ALL_AT_ONCE`] in a closed load inserts all at once.
    pub pace: Pace,
    /// Seconds between two counts.
    pub poll_s: f64,
    /// Options that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

impl SqlQueueOptions {
    /// The load on the database at `url`.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn load(&self, url: &str) -> Result<SqlQueueLoad, LoadOptionError> {
        Self { database: url.to_owned(), ..self.clone() }.validate()
    }
}

impl ProtocolOptions for SqlQueueOptions {
    type Load = SqlQueueLoad;

    const ABOUT: &'static str =
        "Insert jobs into the tables of Solid Queue or GoodJob and follow them to their end";
    const URL_HELP: &'static str =
        "`postgresql://[user:password@]host:port/database` or `sqlite:FILE`";
    const SCHEMES: [&'static str; 2] = ["postgresql", "postgresql"];

    fn validate(&self) -> Result<SqlQueueLoad, LoadOptionError> {
        let missing = |what: &str| Err(LoadOptionError::SqlQueue(what.to_owned()));
        if self.class.is_empty() || self.queue.is_empty() || self.database.is_empty() {
            return missing("needs `database`, its URL, and `class`, the name of a job's class");
        }
        if self.at_once == Some(0) {
            return Err(LoadOptionError::Zero("sql_queue.at_once"));
        }
        if self.at_once.is_some() && self.rate.is_some() {
            return missing("has `rate` and `at_once`, which exclude each other: keep one");
        }
        // Counting without a pause would keep the database busy with nothing else.
        if self.poll.0.is_zero() {
            return Err(LoadOptionError::Zero("sql_queue.poll"));
        }
        let jobs = match self.jobs {
            Some(0) => return Err(LoadOptionError::Zero("sql_queue.jobs")),
            Some(jobs) => jobs,
            None => return missing("needs `jobs`: say how many"),
        };
        check_most([("sql_queue.jobs", jobs, MOST_SENDS)])?;
        Ok(SqlQueueLoad {
            database: self.database.clone(),
            gem: self.gem,
            class: self.class.clone(),
            args: self.args.clone(),
            data: self.data.clone().map(DataFile::Named),
            queue: self.queue.clone(),
            amount: Amount::Requests(jobs),
            pace: Pace::new(self.rate, self.arrivals, self.at_once.unwrap_or(ALL_AT_ONCE))?,
            poll_s: self.poll.as_seconds(),
            options: ConnectionOptions {
                timeout_s: self.timeout.as_seconds(),
                seed: self.seed,
                errors: check_errors(self.errors)?,
                ..ConnectionOptions::default()
            },
        })
    }

    /// The database has a URL of its own.
    fn at(load: SqlQueueLoad, _base: &str) -> SqlQueueLoad {
        load
    }

    fn set_url(&mut self, url: &str) {
        url.clone_into(&mut self.database);
    }

    fn set_url_path(&mut self, _path: &str) {}

    fn tls_options(&self) -> TlsOptions<'_> {
        TlsOptions { tls: false, ca: None, insecure: false }
    }

    fn warmup(&self, load: &SqlQueueLoad) -> Option<SqlQueueLoad> {
        let jobs = match (self.warmup, load.amount) {
            (Some(0), _) | (None, Amount::Requests(..10)) => return None,
            (Some(jobs), _) => jobs,
            (None, Amount::Requests(jobs)) => jobs / 10,
            (None, Amount::Seconds(_)) => return None,
        };
        Some(SqlQueueLoad { amount: Amount::Requests(jobs), ..load.clone() })
    }

    fn requests(&self) -> Option<u64> {
        self.jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SqlQueueLoad, LoadOptionError> {
        toml::from_str::<SqlQueueOptions>(text).unwrap().validate()
    }

    #[test]
    fn the_smallest_table_inserts_all_jobs_at_once() {
        let load = parse("database = 'sqlite:q.sqlite3'\nclass = 'A'\njobs = 7").unwrap();
        assert_eq!((load.amount, load.gem), (Amount::Requests(7), None));
        assert_eq!(load.pace, Pace::Closed { at_once: ALL_AT_ONCE });
        let load = parse("database = 'x'\nclass = 'A'\njobs = 7\ngem = 'good_job'").unwrap();
        assert_eq!(load.gem, Some(QueueGem::GoodJob));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused_with_what_to_do() {
        for (text, expected) in [
            ("class = 'A'\njobs = 1", "needs `database`"),
            ("database = 'x'\njobs = 1", "and `class`"),
            ("database = 'x'\nclass = 'A'", "needs `jobs`"),
            ("database = 'x'\nclass = 'A'\njobs = 0", "load.sql_queue.jobs must be more"),
            ("database = 'x'\nclass = 'A'\njobs = 1\nat_once = 0", "at_once must be more"),
            ("database = 'x'\nclass = 'A'\njobs = 1\npoll = '0s'", "poll must be more"),
            (
                "database = 'x'\nclass = 'A'\njobs = 1\nrate = 5.0\nat_once = 2",
                "exclude each other",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
