//! Watches until it is interrupted.

use crate::input::since_boot;
use crate::run::Interrupt;
use crate::view::output;
use crate::work::exit::Exit;
use crate::work::watch::rules::{ArmedRules, RuleRequest};
use crate::work::watch::store::store_path;
use anyhow::{Context, bail};
use carat_model::Span;
use carat_proc::process::ProcRoot;
use carat_watch::follow::{FollowOptions, Moment};
use carat_watch::listen::{ListenAddress, MetricsListener};
use carat_watch::recorder::{Kernel, Recorder, WatchOptions};
use carat_watch::store::StoreBounds;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rounds more often than this would load the host, and the longest wait without a look at the request to stop.
const SHORTEST: Duration = Duration::from_millis(200);
const SLICE: Duration = Duration::from_millis(250);

/// One call of `carat watch`.
#[derive(Debug)]
pub(crate) struct WatchRequest {
    /// The store; without it the usual one.
    pub(crate) store: Option<PathBuf>,
    /// Texts of which a tree must have one in its name or a command line.
    pub(crate) matching: Vec<String>,
    /// From one round to the next.
    pub(crate) every: Duration,
    pub(crate) bounds: StoreBounds,
    /// Share of one core that watching may take, in percent.
    pub(crate) budget: f64,
    /// Whether readings say how much of malloc the objects of each class hold.
    pub(crate) owners: bool,
    /// Where metrics are served, with so many classes of each process.
    pub(crate) listen: Option<ListenAddress>,
    pub(crate) classes: usize,
    pub(crate) rules: RuleRequest,
    /// The time after which it stops by itself.
    pub(crate) limit: Option<Duration>,
}

/// The two clocks, the first of which also goes on while the machine sleeps, as the other one does: by their difference it is known
/// that a clock was set.
struct Clock(Duration);

impl Clock {
    fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Moment { since: since_boot().saturating_sub(self.0), wall_ms }
    }
}

/// Watches until it is interrupted or the time is over.
///
/// # Errors
/// Where an argument is out of range, or the store, the listener or the signals cannot be had.
pub(crate) fn watch(request: &WatchRequest) -> anyhow::Result<Exit> {
    if request.every < SHORTEST {
        bail!("--every {} is too often; give at least 200ms", Span(request.every));
    }
    if !(request.budget > 0.0 && request.budget <= 100.0) {
        bail!(
            "--budget {} is no share of a core; give more than 0 and at most 100",
            request.budget
        );
    }
    let path = store_path(request.store.as_deref())?;
    let root = ProcRoot::default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let follow = FollowOptions {
        matching: request.matching.clone(),
        every: request.every,
        share: request.budget / 100.0,
        boot: boot.map(|boot| boot.trim().to_owned()),
    };
    let options = WatchOptions { follow, bounds: request.bounds, owners: request.owners };
    let mut rules = ArmedRules::new(&request.rules)?;
    let listener = request.listen.as_ref().map(MetricsListener::start).transpose();
    let listener =
        listener.context("cannot serve metrics; choose another address with --listen")?;
    let interrupt = Interrupt::on_signals().context("cannot handle signals")?;
    let clock = Clock(since_boot());
    let (mut recorder, says) = Recorder::begin(&root, &path, options, clock.now())?;
    output::print_lines(says.iter().map(String::as_str));
    let until = request.limit;
    if let Some(listener) = &listener {
        output::print_message(&format!("metrics are at {}", listener.place()));
    }
    let served = listener.as_ref().map(|listener| (listener, request.classes));
    let rounds = rounds(&mut recorder, (&clock, &interrupt), until, served, &mut rules);
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
fn rounds(
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
