//! `CARAT_TEST_TIMES=FILE` adds a line to the file for each test: its seconds, the processor's seconds, and its name.
//!
//! The processor's seconds are those of this process and of what it started and waited for, so they are a test's own only where
//! one runs at a time (`--test-threads 1`). Elsewhere they are unknown: `-`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static FILE: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os("CARAT_TEST_TIMES")?;
    Some(OpenOptions::new().append(true).create(true).open(path).expect("the file for times"))
});

/// Runs a test. `alone` says that no other test runs meanwhile.
pub(crate) fn timed<T>(name: &str, alone: bool, test: impl FnOnce() -> T) -> T {
    let Some(mut file) = FILE.as_ref() else { return test() };
    let (began, before) = (Instant::now(), processor_time());
    let ended = test();
    let seconds = began.elapsed().as_secs_f64();
    let cpu = match alone {
        true => format!("{:.2}", (processor_time() - before).as_secs_f64()),
        false => "-".into(),
    };
    // One write, so that tests that end together do not mix.
    file.write_all(format!("{seconds:.2}\t{cpu}\t{name}\n").as_bytes())
        .expect("the file for times");
    ended
}

/// Processor time of this process and of its descendants that were waited for.
fn processor_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(used_by).sum()
}

fn used_by(who: libc::c_int) -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a buffer of the right type; zeros are a valid value of it, should the call fail.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let spent = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
    };
    spent(usage.ru_utime) + spent(usage.ru_stime)
}

#[test]
fn the_time_of_each_test_is_written_on_request_and_the_processors_where_it_ran_alone() {
    let folder = crate::support::Folder::new("times");
    let name = "tidy::circles::";
    for threads in ["1", "2"] {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([name, "--test-threads", threads]);
        let ran = command.env("CARAT_TEST_TIMES", folder.path("times.tsv")).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    let text = std::fs::read_to_string(folder.path("times.tsv")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| line[2].starts_with(name)), "{text}");
    assert!(lines[..2].iter().all(|line| line[1].parse::<f64>().is_ok()), "{text}");
    assert!(lines[2..].iter().all(|line| line[1] == "-"), "{text}");
}
