//! What Puma's configuration says of its processes. It is a program: what its lines say is read, and nothing of it is run.

use crate::input::app::text::{argument, literal, statements};

/// Puma's first version that loads the app before it forks, unless it is told otherwise.
const PRELOADS_BY_ITSELF: u32 = 5;

/// A configuration of Puma.
#[derive(Debug, Clone)]
pub(super) struct PumaConfig {
    /// Where it is, relative to the folder.
    pub(super) name: &'static str,
    pub(super) text: String,
}

impl PumaConfig {
    /// The last statement that begins with a method, with its argument: it is the one in effect.
    fn last(&self, method: &str) -> Option<&str> {
        statements(&self.text).filter_map(|line| argument(line, method)).last()
    }

    fn has(&self, word: &str) -> bool {
        statements(&self.text).any(|line| line.starts_with(word))
    }

    /// Whether it says what to serve, so that no config.ru is needed.
    pub(super) fn names_app(&self) -> bool {
        ["rackup", "app"].iter().any(|method| self.last(method).is_some())
    }

    /// Whether it forks workers, as far as its text says: the number can be the program's.
    pub(super) fn forks(&self) -> bool {
        self.last("workers").is_some_and(|number| last_number(number) != Some(0))
    }

    /// Whether workers are forked with the app loaded before; `workers` is their number where it is known otherwise.
    pub(super) fn preloads(&self, version: Option<&str>, workers: Option<u32>) -> bool {
        if workers.is_none() && !self.forks() {
            return false;
        }
        if self.has("preload_app!") {
            return !self.last("preload_app!").is_some_and(|answer| answer.starts_with("false"));
        }
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        let several = workers.or_else(|| self.last("workers").and_then(last_number)) != Some(1);
        major.is_some_and(|major| major >= PRELOADS_BY_ITSELF)
            && several
            && !self.has("fork_worker")
            && !self.has("prune_bundler")
    }

    /// Whether the variable `PIDFILE` says where the pid is written.
    pub(super) fn pid_file_is_variable(&self) -> bool {
        self.last("pidfile").is_some_and(|place| place.contains("PIDFILE"))
    }

    /// A file that every Puma with this configuration writes, also one that serves already.
    pub(super) fn fixed_file(&self) -> Option<&str> {
        ["pidfile", "state_path"].iter().find_map(|method| literal(self.last(method)?))
    }
}

/// The last number of the argument of `workers`, which is its default: `ENV.fetch("WEB_CONCURRENCY") { 2 }`.
fn last_number(argument: &str) -> Option<u32> {
    // What stands behind `if` is a condition.
    let value = argument.split(" if ").next()?.split(" unless ").next()?;
    let words = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puma(text: &str) -> PumaConfig {
        PumaConfig { name: "config/puma.rb", text: text.into() }
    }

    #[test]
    fn workers_are_forked_if_their_number_is_not_certainly_zero() {
        for (text, forks) in [
            ("workers 2", true),
            ("workers(2)", true),
            ("workers ENV.fetch(\"WEB_CONCURRENCY\") { 2 }", true),
            ("workers Integer(ENV['W2'] || 0)", false),
            ("workers ENV.fetch('WEB_CONCURRENCY', 0)", false),
            ("  workers worker_count if worker_count > 0", true),
            ("# workers 2", false),
            ("workers 2\nworkers 0", false),
            ("worker_timeout 3600", false),
            ("threads 5, 5", false),
        ] {
            assert_eq!(puma(text).forks(), forks, "{text}");
        }
    }

    #[test]
    fn puma_5_loads_the_app_before_it_forks_several_workers_unless_it_is_told_otherwise() {
        for (text, version, preloads) in [
            ("workers 2\npreload_app!", Some("4.3.12"), true),
            ("workers 2", Some("4.3.12"), false),
            ("workers 2", Some("6.4.2"), true),
            ("workers 2", None, false),
            ("workers 1", Some("6.4.2"), false),
            ("workers 2\npreload_app! false", Some("6.4.2"), false),
            ("workers 2\nfork_worker", Some("6.4.2"), false),
            ("preload_app!", Some("6.4.2"), false),
        ] {
            assert_eq!(puma(text).preloads(version, None), preloads, "{text} on {version:?}");
        }
    }

    #[test]
    fn a_file_that_every_puma_writes_is_known_and_one_by_a_variable_is_not_fixed() {
        let generated = puma("pidfile ENV.fetch(\"PIDFILE\") { \"tmp/pids/server.pid\" }");
        assert!(generated.pid_file_is_variable() && generated.fixed_file().is_none());
        assert_eq!(puma("state_path 'tmp/puma.state'").fixed_file(), Some("tmp/puma.state"));
    }
}
