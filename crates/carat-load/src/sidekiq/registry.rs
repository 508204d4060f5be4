//! The Sidekiq processes that Redis knows, and how many of their threads take jobs of a queue.

use crate::sidekiq::resp::RedisReply;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Processes that are looked at.
const PROCESSES_MAX: usize = 200;
/// Queues that an explanation names.
const QUEUES_SHOWN: usize = 5;

/// The processes of one look.
#[derive(Debug)]
pub(super) struct Registry {
    queue: String,
    threads: u64,
    others: BTreeSet<String>,
}

/// What a process says about itself; Sidekiq 5 to 8 write these keys.
#[derive(Debug, Deserialize)]
struct ProcessInfo {
    concurrency: u64,
    #[serde(default)]
    queues: Vec<String>,
}

impl Registry {
    pub(super) fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), threads: 0, others: BTreeSet::new() }
    }

    pub(super) fn clear(&mut self) {
        self.threads = 0;
    }

    /// The identities in the set `processes`.
    pub(super) fn identities(reply: &RedisReply) -> Vec<&[u8]> {
        let RedisReply::List(members) = reply else { return Vec::new() };
        // A set from a foreign server: without a limit it decides how much is asked.
        members.iter().take(PROCESSES_MAX).map(RedisReply::text).collect()
    }

    /// Adds a process. One that has ended without a farewell has no description after a minute.
    pub(super) fn add(&mut self, info: &[u8]) {
        // Expired descriptions are nil, which is no JSON.
        let Ok(info) = serde_json::from_slice::<ProcessInfo>(info) else { return };
        if info.queues.contains(&self.queue) {
            self.threads = self.threads.saturating_add(info.concurrency);
        } else if self.others.len() < QUEUES_SHOWN {
            self.others.extend(info.queues.into_iter().take(QUEUES_SHOWN));
        }
    }

    /// Threads that take jobs of the queue.
    pub(super) fn threads(&self) -> u64 {
        self.threads
    }

    /// Why there are none, and what to do.
    pub(super) fn explain(&self, server: &str, database: u32) -> String {
        let queue = &self.queue;
        if self.others.is_empty() {
            return format!(
                "no Sidekiq process is registered in database {database} of the Redis at {server}: start one, or correct the URL"
            );
        }
        let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
        format!(
            "no Sidekiq process takes jobs of the queue `{queue}`; there are {}: start Sidekiq with `-q {queue}`, or set `queue`",
            others.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_queues_own_processes_count() {
        let mut registry = Registry::new("default");
        registry.add(br#"{"concurrency":25,"queues":["default","low"],"pid":1}"#);
        registry.add(br#"{"concurrency":5,"queues":["default"]}"#);
        registry.add(br#"{"concurrency":7,"queues":["mail"]}"#);
        registry.add(b"");
        assert_eq!(registry.threads(), 30);
        registry.clear();
        assert_eq!(registry.threads(), 0);
    }

    #[test]
    fn the_explanation_names_the_queues_that_are_served() {
        let mut registry = Registry::new("default");
        assert!(
            registry.explain("h:1", 2).contains("registered in database 2 of the Redis at h:1")
        );
        registry.add(br#"{"concurrency":7,"queues":["mail"]}"#);
        assert!(registry.explain("h:1", 0).contains("`default`; there are mail: start Sidekiq"));
    }
}
