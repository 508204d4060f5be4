//! Watches until it is interrupted.

use crate::cli::watch::args::WatchRunArgs;
use crate::cli::watch::rules::ArmedRules;
use crate::cli::watch::store::store_path;
use crate::cli::{Exit, output};
use crate::run::Interrupt;
use anyhow::{Context, bail};
use carat_proc::process::ProcRoot;
use carat_watch::follow::{FollowOptions, Moment};
use carat_watch::listen::MetricsListener;
use carat_watch::recorder::{Kernel, Recorder, WatchOptions};
use carat_watch::store::StoreBounds;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rounds more often than this would load the host, and the longest wait without a look at the request to stop.
const SHORTEST: Duration = Duration::from_millis(200);
const SLICE: Duration = Duration::from_millis(250);

/// The two clocks.
struct Clock(Instant);

impl Clock {
    fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Moment { since: self.0.elapsed(), wall_ms }
    }
}

pub(super) fn run(args: &WatchRunArgs) -> anyhow::Result<Exit> {
    if args.every.0 < SHORTEST {
        bail!("--every {} is too often; give at least 200ms", args.every);
    }
    if !(args.budget > 0.0 && args.budget <= 100.0) {
        bail!("--budget {} is no share of a core; give more than 0 and at most 100", args.budget);
    }
    let path = store_path(args.store.as_deref())?;
    let root = ProcRoot::default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let follow = FollowOptions {
        matching: args.matching.clone(),
        every: args.every.0,
        share: args.budget / 100.0,
        boot: boot.map(|boot| boot.trim().to_owned()),
    };
    let bounds = StoreBounds { keep: args.keep.0, most: args.max };
    let options = WatchOptions { follow, bounds, owners: args.owners };
    let mut rules = ArmedRules::new(&args.rules)?;
    let listener = args.listen.as_ref().map(MetricsListener::start).transpose();
    let listener =
        listener.context("cannot serve metrics; choose another address with --listen")?;
    let interrupt = Interrupt::on_signals().context("cannot handle signals")?;
    let clock = Clock(Instant::now());
    let (mut recorder, says) = Recorder::begin(&root, &path, options, clock.now())?;
    output::print_lines(says.iter().map(String::as_str));
    let until = args.limit.map(|limit| limit.0);
    if let Some(listener) = &listener {
        output::print_message(&format!("metrics are at {}", listener.place()));
    }
    let served = listener.as_ref().map(|listener| (listener, args.classes));
    let rounds = watch(&mut recorder, (&clock, &interrupt), until, served, &mut rules);
    let says = recorder.finish(clock.now());
    output::print_lines(says.iter().map(String::as_str));
    output::print_message(&format!(
        "{} in {}; `carat watch last` shows the last end",
        carat_report::count(rounds, "round"),
        path.display()
    ));
    Ok(Exit::Fine)
}

/// Rounds until the user stops it or the time is over; returns how many.
fn watch(
    recorder: &mut Recorder<Kernel>,
    (clock, interrupt): (&Clock, &Interrupt),
    until: Option<Duration>,
    served: Option<(&MetricsListener, usize)>,
    rules: &mut ArmedRules,
) -> u64 {
    let is_over = || until.is_some_and(|until| clock.now().since >= until);
    let mut rounds = 0;
    while !interrupt.requested() && !is_over() {
        let began = clock.now().since;
        let round = recorder.round(clock.now());
        output::print_lines(round.says.iter().map(String::as_str));
        let says = rules.act(recorder, clock.now());
        output::print_lines(says.iter().map(String::as_str));
        if let Some((listener, classes)) = served {
            listener.serve(recorder.metrics(classes));
        }
        if rounds == 0 {
            greet(recorder);
        }
        rounds += 1;
        loop {
            let passed = clock.now().since.saturating_sub(began);
            let left = round.next.saturating_sub(passed);
            if left.is_zero() || interrupt.requested() || is_over() {
                break;
            }
            // The end of a process wakes it, so that the figures are those of that moment.
            let slice = left.min(SLICE);
            let waited = Instant::now();
            recorder.follower().senses().wait(slice);
            let woken = waited.elapsed() + Duration::from_millis(5) < slice;
            if woken && passed >= round.soonest {
                break;
            }
            if woken {
                std::thread::sleep(slice);
            }
        }
    }
    rounds
}

/// Says what is followed, and where.
fn greet(recorder: &Recorder<Kernel>) {
    let number = recorder.follower().current().count();
    let followed = carat_report::count(number, "Ruby process");
    output::print_message(&format!(
        "{followed} followed; the store is {}; Ctrl-C ends it",
        recorder.store().path().display()
    ));
}
