//! The statements for the tables of Solid Queue and GoodJob.
//!
//! Sources: `queue_schema.rb` of Solid Queue 1, whose columns 0.3 to 1.2 have too, and the migrations of GoodJob 3.15 to 4.
//! Jobs are in the format of Active Job, `ActiveJob::Core#serialize`.

use crate::sql_queue::client::{SqlClient, literal};
use carat_model::load::QueueGem;
use serde_json::{Value, json};

/// A job to insert.
#[derive(Debug)]
pub(super) struct NewJob {
    pub(super) number: u64,
    pub(super) arguments: Vec<Value>,
    /// When it was due, in microseconds since 1970.
    pub(super) created_us: i64,
}

/// How many of the load's jobs have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JobCounts {
    pub(super) ended: u64,
    pub(super) failed: u64,
}

/// The tables of one load.
#[derive(Debug)]
pub(super) struct QueueTables {
    pub(super) gem: QueueGem,
    sqlite: bool,
    class: String,
    queue: String,
    /// All but the last twelve digits of the load's job ids, which have the form of a UUID.
    prefix: String,
}

/// Which gem's tables a database has.
///
/// # Errors
/// If it has none, or those of both and `wanted` does not choose, or those of GoodJob in SQLite.
pub(super) fn find_tables(
    client: &mut SqlClient,
    wanted: Option<QueueGem>,
) -> Result<QueueGem, String> {
    let mut has = |table: &str| -> Result<bool, String> {
        let statement = if client.is_sqlite() {
            format!(
                "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = {}",
                literal(table)
            )
        } else {
            // `to_regclass` follows the search path and returns NULL where nothing is found.
            format!("SELECT count(to_regclass({}))", literal(table))
        };
        Ok(client.rows(&statement)?.concat() == ["1"])
    };
    let (solid_queue, good_job) = (has("solid_queue_jobs")?, has("good_jobs")?);
    let found = match (wanted, solid_queue, good_job) {
        (Some(QueueGem::SolidQueue), true, _) | (None, true, false) => QueueGem::SolidQueue,
        (Some(QueueGem::GoodJob), _, true) | (None, false, true) => QueueGem::GoodJob,
        (None, true, true) => {
            return Err(
                "the database has the tables of Solid Queue and of GoodJob: set `gem`".to_owned()
            );
        }
        _ => {
            return Err("the database has no table `solid_queue_jobs` or `good_jobs`: run the gem's migrations, or correct the URL".to_owned());
        }
    };
    if found == QueueGem::GoodJob && client.is_sqlite() {
        return Err("GoodJob needs PostgreSQL".to_owned());
    }
    Ok(found)
}

impl QueueTables {
    /// `token` are 20 random hexadecimal digits.
    pub(super) fn new(gem: QueueGem, sqlite: bool, names: (&str, &str), token: &str) -> Self {
        let (class, queue) = (names.0.to_owned(), names.1.to_owned());
        let prefix =
            // The form of a UUID of version 4 (RFC 9562, 5.4), which the columns require.
            format!("{}-{}-4{}-8{}", &token[..8], &token[8..12], &token[12..15], &token[15..18]);
        Self { gem, sqlite, class, queue, prefix }
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number:012x}", self.prefix)
    }

    /// The condition for the load's own jobs.
    fn own(&self) -> String {
        let (first, last) = (self.id(0), self.id(0xffff_ffff_ffff));
        // Ids ascend with the numbers, so a range of the index finds all jobs of the load.
        format!("active_job_id BETWEEN '{first}' AND '{last}'")
    }

    /// A moment as a literal.
    fn time(&self, micros: i64) -> String {
        let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        if self.sqlite {
            // As Active Record writes it.
            format!("strftime('%Y-%m-%d %H:%M:%S', {seconds}, 'unixepoch') || '.{rest:06}'")
        } else {
            format!("(to_timestamp({seconds}.{rest:06}) AT TIME ZONE 'UTC')")
        }
    }

    fn active_job(&self, job: &NewJob) -> String {
        let id = self.id(job.number);
        let job = json!({
            "job_class": self.class,
            "job_id": id,
            "provider_job_id": null,
            "queue_name": self.queue,
            "priority": null,
            "arguments": job.arguments.iter().map(active_job_argument).collect::<Vec<_>>(),
            "executions": 0,
            "exception_executions": {},
            "locale": "en",
            "timezone": "UTC",
            "enqueued_at": null,
            "scheduled_at": null,
        });
        literal(&job.to_string())
    }

    /// The statements that insert jobs, all or none.
    pub(super) fn insert(&self, jobs: &[NewJob]) -> Vec<String> {
        match self.gem {
            QueueGem::SolidQueue => self.insert_solid_queue(jobs),
            QueueGem::GoodJob => vec![self.insert_good_job(jobs)],
        }
    }

    fn insert_solid_queue(&self, jobs: &[NewJob]) -> Vec<String> {
        let (queue, class) = (literal(&self.queue), literal(&self.class));
        let rows = jobs.iter().map(|job| {
            let (id, time) = (self.id(job.number), self.time(job.created_us));
            format!(
                "({queue}, {class}, {}, 0, '{id}', {time}, {time}, {time})",
                self.active_job(job)
            )
        });
        let insert = format!(
            "INSERT INTO solid_queue_jobs (queue_name, class_name, arguments, priority, active_job_id, scheduled_at, created_at, updated_at) VALUES {}",
            rows.collect::<Vec<_>>().join(", ")
        );
        let ready = "INSERT INTO solid_queue_ready_executions (job_id, queue_name, priority, created_at) SELECT id, queue_name, priority, created_at";
        // SQLite has no CTE around an INSERT, so the rows are found again by their ids.
        if self.sqlite {
            let ids = jobs.first().zip(jobs.last());
            let (first, last) = ids.map_or((0, 0), |(first, last)| (first.number, last.number));
            let own = format!("'{}' AND '{}'", self.id(first), self.id(last));
            return vec![
                insert,
                format!(
                    "{ready} FROM solid_queue_jobs WHERE active_job_id BETWEEN {own} ORDER BY id"
                ),
            ];
        }
        vec![format!(
            // In one statement: a worker must not see a job without its ready execution.
            "WITH jobs AS ({insert} RETURNING id, queue_name, priority, created_at) {ready} FROM jobs ORDER BY id"
        )]
    }

    fn insert_good_job(&self, jobs: &[NewJob]) -> String {
        let (queue, class) = (literal(&self.queue), literal(&self.class));
        let rows = jobs.iter().map(|job| {
            let (id, time) = (self.id(job.number), self.time(job.created_us));
            format!(
                "('{id}', '{id}', {queue}, {class}, 0, {}::jsonb, {time}, {time}, {time})",
                self.active_job(job)
            )
        });
        // GoodJob's processes listen, and otherwise look every ten seconds.
        let message = literal(&json!({ "queue_name": self.queue }).to_string());
        format!(
            "WITH jobs AS (INSERT INTO good_jobs (id, active_job_id, queue_name, job_class, priority, serialized_params, scheduled_at, created_at, updated_at) VALUES {} RETURNING 1) SELECT pg_notify('good_job', {message}) FROM (SELECT count(*) FROM jobs) AS counted",
            rows.collect::<Vec<_>>().join(", ")
        )
    }

    /// Reads how many of `inserted` jobs have ended.
    ///
    /// # Errors
    /// What the database says.
    pub(super) fn count(&self, client: &mut SqlClient, inserted: u64) -> Result<JobCounts, String> {
        let own = self.own();
        let statement = match self.gem {
            QueueGem::SolidQueue => format!(
                "SELECT (SELECT count(*) FROM solid_queue_jobs WHERE {own}), (SELECT count(*) FROM solid_queue_jobs WHERE {own} AND finished_at IS NOT NULL), (SELECT count(*) FROM solid_queue_failed_executions WHERE job_id IN (SELECT id FROM solid_queue_jobs WHERE {own}))"
            ),
            QueueGem::GoodJob => format!(
                "SELECT count(*), count(finished_at), count(CASE WHEN finished_at IS NOT NULL AND error IS NOT NULL THEN 1 END) FROM good_jobs WHERE {own}"
            ),
        };
        let values = client.rows(&statement)?.concat();
        // Everything must be a number; a missing one would count jobs as deleted.
        let numbers: Option<Vec<u64>> = values.iter().map(|value| value.parse().ok()).collect();
        let Some(&[there, finished, failed]) = numbers.as_deref() else {
            return Err("the database does not count its jobs".to_owned());
        };
        // A gem that is set to delete finished jobs leaves none.
        let deleted = inserted.saturating_sub(there);
        let failed_apart = if self.gem == QueueGem::SolidQueue { failed } else { 0 };
        Ok(JobCounts { ended: deleted + finished + failed_apart, failed })
    }

    /// Reads the seconds from the time at which each job was due until it ended, and until it began where the tables have it.
    ///
    /// # Errors
    /// What the database says.
    pub(super) fn times(&self, client: &mut SqlClient) -> Result<(Vec<f64>, Vec<f64>), String> {
        let (table, begun) = match self.gem {
            QueueGem::SolidQueue => ("solid_queue_jobs", None),
            QueueGem::GoodJob => ("good_jobs", Some("performed_at")),
        };
        let seconds = |column: &str| {
            if self.sqlite {
                format!("(julianday({column}) - julianday(created_at)) * 86400.0")
            } else {
                format!("extract(epoch FROM {column} - created_at)")
            }
        };
        let columns: Vec<String> =
            std::iter::once("finished_at").chain(begun).map(seconds).collect();
        let statement = format!(
            "SELECT {} FROM {table} WHERE {} AND finished_at IS NOT NULL",
            columns.join(", "),
            self.own()
        );
        let rows = client.rows(&statement)?;
        let column = |at: usize| {
            rows.iter().filter_map(|row| row.get(at)?.parse::<f64>().ok()).collect::<Vec<f64>>()
        };
        Ok((column(0), column(1)))
    }

    /// Reads the failed jobs: class and first message of the exception, and their number.
    ///
    /// # Errors
    /// What the database says.
    pub(super) fn failures(
        &self,
        client: &mut SqlClient,
    ) -> Result<Vec<(String, String, u64)>, String> {
        let own = self.own();
        let statement = match (self.gem, self.sqlite) {
            (QueueGem::SolidQueue, true) => format!(
                // Line breaks would end the row in psql's output, and SQLite's are made alike.
                "SELECT json_extract(error, '$.exception_class') AS c, min(replace(substr(json_extract(error, '$.message'), 1, 200), char(10), ' ')), count(*) FROM solid_queue_failed_executions WHERE job_id IN (SELECT id FROM solid_queue_jobs WHERE {own}) GROUP BY c ORDER BY 3 DESC LIMIT 100"
            ),
            (QueueGem::SolidQueue, false) => format!(
                "SELECT error::json->>'exception_class', min(translate(left(error::json->>'message', 200), E'\\n\\r', '  ')), count(*) FROM solid_queue_failed_executions WHERE job_id IN (SELECT id FROM solid_queue_jobs WHERE {own}) GROUP BY 1 ORDER BY 3 DESC LIMIT 100"
            ),
            (QueueGem::GoodJob, _) => format!(
                "SELECT split_part(error, ': ', 1), min(translate(substr(error, length(split_part(error, ': ', 1)) + 3, 200), E'\\n\\r', '  ')), count(*) FROM good_jobs WHERE {own} AND error IS NOT NULL AND finished_at IS NOT NULL GROUP BY 1 ORDER BY 3 DESC LIMIT 100"
            ),
        };
        let rows = client.rows(&statement)?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [class, message, count] = <[String; 3]>::try_from(row).ok()?;
                Some((class, message, count.parse().ok()?))
            })
            .collect())
    }
}

/// An argument as Active Job serialises it: an object says that its keys are strings.
fn active_job_argument(value: &Value) -> Value {
    match value {
        Value::Array(parts) => parts.iter().map(active_job_argument).collect(),
        Value::Object(fields) => {
            // Active Job refuses an object that does not say which of its keys were symbols.
            let own = fields.iter().map(|(name, part)| (name.clone(), active_job_argument(part)));
            own.chain([("_aj_symbol_keys".to_owned(), json!([]))]).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TOKEN: &str = "0123456789abcdef0123";

    fn tables(gem: QueueGem, sqlite: bool) -> QueueTables {
        QueueTables::new(gem, sqlite, ("A", "it's"), TOKEN)
    }

    fn job(number: u64) -> NewJob {
        NewJob { number, arguments: vec![json!({ "a": [1] })], created_us: 1_500_000 }
    }

    #[test]
    fn an_id_has_the_form_of_a_uuid_and_sorts_by_number() {
        let tables = tables(QueueGem::GoodJob, false);
        assert_eq!(tables.id(255), "01234567-89ab-4cde-8f01-0000000000ff");
        assert!(tables.id(9) < tables.id(16));
    }

    #[test]
    fn a_job_is_written_as_active_job_reads_it() {
        let text = tables(QueueGem::SolidQueue, false).active_job(&job(1));
        let json: Value =
            serde_json::from_str(&text.trim_matches('\'').replace("''", "'")).unwrap();
        assert_eq!((&json["job_class"], &json["queue_name"]), (&"A".into(), &"it's".into()));
        assert_eq!(json["arguments"], json!([{ "a": [1], "_aj_symbol_keys": [] }]));
    }

    #[test]
    fn statements_have_every_row_and_escape_their_texts() {
        for gem in [QueueGem::SolidQueue, QueueGem::GoodJob] {
            let statements = tables(gem, false).insert(&[job(1), job(2)]);
            let [statement] = &statements[..] else { panic!("{statements:?}") };
            for part in ["'it''s'", "8f01-000000000001'", "8f01-000000000002'", "(1.500000)"] {
                assert!(statement.contains(part), "{part}: {statement}");
            }
        }
    }

    #[test]
    fn a_database_without_the_tables_says_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = format!("sqlite:{}", file.path().display());
        let mut client = SqlClient::open(&url, Duration::from_secs(1)).unwrap();
        let error = find_tables(&mut client, None).unwrap_err();
        assert!(error.contains("run the gem's migrations"), "{error}");
        client.execute(&["CREATE TABLE good_jobs (id)".to_owned()]).unwrap();
        assert_eq!(find_tables(&mut client, None).unwrap_err(), "GoodJob needs PostgreSQL");
        client.execute(&["CREATE TABLE solid_queue_jobs (id)".to_owned()]).unwrap();
        assert!(find_tables(&mut client, None).unwrap_err().contains("set `gem`"));
        let wanted = Some(QueueGem::SolidQueue);
        assert_eq!(find_tables(&mut client, wanted), Ok(QueueGem::SolidQueue));
    }
}
