//! Jobs in the format that Sidekiq documents for clients in other languages.
//!
//! Source: <https://sidekiq.org/wiki/Job-Format>. Times are seconds with a fraction, which Sidekiq 8 reads as well as the whole
//! milliseconds that it writes itself.

use crate::jobs::ArgumentMaker;
use carat_model::load::SidekiqLoad;
use serde::Deserialize;
use serde_json::json;

/// Makes the jobs of a load.
#[derive(Debug)]
pub(super) struct JobMaker {
    class: String,
    queue: String,
    retry: u32,
    arguments: ArgumentMaker,
}

impl JobMaker {
    /// # Errors
    /// If the data cannot be read, or an argument has an unknown placeholder; the message names it.
    pub(super) fn new(load: &SidekiqLoad) -> Result<Self, String> {
        let arguments = ArgumentMaker::new(load.args.as_ref(), load.data.as_ref())?;
        let (class, queue, retry) = (load.class.clone(), load.queue.clone(), load.retry);
        Ok(Self { class, queue, retry, arguments })
    }

    /// The job of that number, from 1 on, created at `now` in seconds since 1970.
    pub(super) fn payload(&self, number: u64, jid: &str, now: f64) -> Vec<u8> {
        let job = json!({
            "class": self.class,
            "args": self.arguments.arguments(number),
            "queue": self.queue,
            "jid": jid,
            "retry": self.retry,
            "created_at": now,
            "enqueued_at": now,
        });
        job.to_string().into_bytes()
    }
}

/// What a failed job has in the sets `retry` and `dead`.
#[derive(Debug, Deserialize)]
pub(super) struct FailedJob {
    pub(super) jid: String,
    #[serde(default)]
    pub(super) error_class: Option<String>,
    #[serde(default)]
    pub(super) error_message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::load::SidekiqOptions;
    use serde_json::Value;

    #[test]
    fn a_job_has_every_field_that_sidekiq_needs() {
        let (class, jobs) = ("A".to_owned(), Some(1));
        let options = SidekiqOptions { class, jobs, retry: 2, ..SidekiqOptions::default() };
        let maker = JobMaker::new(&options.load("redis://127.0.0.1:1").unwrap()).unwrap();
        let text = String::from_utf8(maker.payload(1, "00ff", 1_764_000_000.0)).unwrap();
        // With its fraction, because Sidekiq 8 reads a whole number as milliseconds.
        assert!(text.contains("\"created_at\":1764000000.0"), "{text}");
        let job: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&job["class"], &job["queue"]), (&"A".into(), &"default".into()));
        assert_eq!((&job["jid"], &job["retry"]), (&"00ff".into(), &2.into()));
        assert_eq!(job["args"], json!([]));
    }
}
