//! The test harness: the standard one's options and output, but a test can end as skipped, with a reason.
//!
//! A test states what it needs with `require!`. If that is missing, the test is reported as ignored, never as ok;
//! with `CARAT_REQUIRE_ALL=1`, as in CI, it fails, except for a root that is made by name only.

use crate::needs::{Need, TestRuby};
use crate::times::timed;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// The functions of a test.
#[derive(Clone, Copy)]
pub(crate) enum TestBody {
    /// One test.
    Once(fn()),
    /// One test per Ruby.
    EachRuby(fn(TestRuby)),
}

/// A test as `#[test]` registers it.
pub(crate) struct Registration {
    pub(crate) name: &'static str,
    pub(crate) is_ignored: bool,
    pub(crate) body: TestBody,
}

inventory::collect!(Registration);

/// The payload with which a skipped test unwinds.
struct Skipped(String);

/// Number of skipped tests by reason.
static SKIPPED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Ends the test as skipped; with `CARAT_REQUIRE_ALL`, fails it.
pub(crate) fn skip(reason: &str) -> ! {
    assert!(std::env::var_os("CARAT_REQUIRE_ALL").is_none(), "this test requires more: {reason}");
    end_as_skipped(reason)
}

/// Ends the test as skipped; with `CARAT_REQUIRE_ALL`, fails it unless CI does without what it needs.
pub(crate) fn skip_without(need: Need, reason: &str) -> ! {
    if need.is_in_ci() { skip(reason) } else { end_as_skipped(reason) }
}

fn end_as_skipped(reason: &str) -> ! {
    // Unlike a panic, this prints nothing.
    resume_unwind(Box::new(Skipped(reason.to_owned())))
}

/// Skips the test unless everything it names is there: `require!(Ruby, Roots("trixie"))`.
macro_rules! require {
    ($($need:ident $(($argument:expr))?),+ $(,)?) => {
        $(
            let need = $crate::needs::Need::$need$(($argument))?;
            if let Err(reason) = need.check() {
                $crate::harness::skip_without(need, &reason);
            }
        )+
    };
}

/// What takes minutes, and begins first: else everything would wait for it alone at the end.
const LONGEST: [&str; 2] = ["report_page::", "tune_run::the_planted_settings"];

/// Runs the tests that the arguments select.
pub(crate) fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Tests wait about half of their time: for a server, a load at a given rate, the disk.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let alone = *arguments.test_threads.get_or_insert(2 * cores) == 1;
    let all = inventory::iter::<Registration>();
    let mut trials: Vec<Trial> = all.flat_map(|test| trials(test, alone)).collect();
    let is_short = |trial: &Trial| !LONGEST.iter().any(|name| trial.name().starts_with(name));
    trials.sort_by_cached_key(|trial| (is_short(trial), trial.name().to_owned()));
    // `#[ignore]` marks what another command runs, so it does not count as skipped.
    let shows_ignored = arguments.ignored || arguments.include_ignored || arguments.list;
    trials.retain(|trial| shows_ignored || !trial.has_ignored_flag());
    let conclusion = libtest_mimic::run(&arguments, trials);
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    for (reason, count) in skipped.iter() {
        // On stderr, so that the last line of stdout is the result, as with the standard harness.
        let _ = writeln!(std::io::stderr(), "skipped {count}: {reason}");
    }
    conclusion.exit_code()
}

fn trials(test: &Registration, alone: bool) -> Vec<Trial> {
    // Without the name of the crate, as in the standard harness.
    let name = test.name.split_once("::").map_or(test.name, |(_, name)| name);
    match test.body {
        TestBody::Once(body) => vec![trial(name.to_owned(), test, alone, body)],
        TestBody::EachRuby(body) => TestRuby::ALL
            .map(|ruby| {
                trial(format!("{name}::{}", ruby.label()), test, alone, move || {
                    require!(RubyOf(ruby));
                    body(ruby);
                })
            })
            .into(),
    }
}

fn trial(
    name: String,
    test: &Registration,
    alone: bool,
    body: impl FnOnce() + Send + 'static,
) -> Trial {
    let timed_name = name.clone();
    let body = std::panic::AssertUnwindSafe(body);
    let run = move || match timed(&timed_name, alone, || catch_unwind(body)) {
        Ok(()) => Ok(Completion::Completed),
        Err(payload) => completion(payload.as_ref()),
    };
    Trial::ignorable_test(name, run).with_ignored_flag(test.is_ignored)
}

/// The result of a test that unwound.
fn completion(payload: &(dyn Any + Send)) -> Result<Completion, Failed> {
    if let Some(Skipped(reason)) = payload.downcast_ref() {
        let mut skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
        *skipped.entry(reason.clone()).or_default() += 1;
        return Ok(Completion::ignored_with(reason));
    }
    let message = payload.downcast_ref::<String>().map(String::as_str);
    Err(message.or(payload.downcast_ref::<&str>().copied()).unwrap_or("it panicked").into())
}

#[test]
fn a_test_whose_need_is_missing_is_skipped_with_the_reason_or_fails_if_all_is_required() {
    let reason = "no `ruby` in PATH: run bin/setup";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "probe::the_kill_switch_loads_nothing"]).env("PATH", "");
    // In a quick run the need would be left out before it is looked for.
    command.env_remove("CARAT_TEST_QUICK");
    let skipped = command.env_remove("CARAT_REQUIRE_ALL").output().unwrap();
    let stdout = String::from_utf8_lossy(&skipped.stdout);
    assert!(skipped.status.success(), "{stdout}");
    assert!(stdout.contains("test result: ok. 0 passed; 0 failed; 1 ignored"), "{stdout}");
    assert!(stdout.contains(reason), "{stdout}");
    assert_eq!(String::from_utf8_lossy(&skipped.stderr), format!("skipped 1: {reason}\n"));
    let failed = command.env("CARAT_REQUIRE_ALL", "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&failed.stdout);
    assert!(!failed.status.success() && stdout.contains("1 failed"), "{stdout}");
    assert!(stdout.contains(reason), "{stdout}");
}

#[test]
fn what_ci_does_without_is_skipped_there_too() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.env_remove("CARAT_TEST_QUICK");
    command.args(["--exact", "puma_plugin::settings_survive_restarts_of_puma_8"]);
    command.env("CARAT_REQUIRE_ALL", "1").env("CARAT_ROOTS", "/nowhere");
    let skipped = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&skipped.stdout);
    assert!(skipped.status.success() && stdout.contains("1 ignored"), "{stdout}");
    assert!(stdout.contains("bin/roots sid"), "{stdout}");
}
