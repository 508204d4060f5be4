//! `exec --verify`: a process beside the server that checks whether the settings are in effect where it serves.

use crate::run::Interrupt;
use crate::run::sampled_tree::{SampledTree, TreeOptions};
use crate::run::{SettingsLook, look_at_settings};
use carat_proc::observe::SampleOptions;
use carat_proc::process::{ProcRoot, ServingBy, Tree};
use carat_settings::{Environment, SettingCheck, SettingStatus, Settings};
use std::collections::BTreeSet;
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// How long settings that act after booting may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server may boot before its settings are reported.
const MINIMUM: Duration = Duration::from_secs(3);
/// How long the same processes must serve before settings that are not in effect are reported, and before a Ruby that does not
/// listen counts as the server: a launcher starts its server sooner.
const SETTLED: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(250);

/// What the verifier found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verification {
    /// The settings of the processes that serve.
    Checked(Vec<SettingCheck>),
    /// Why it cannot say anything.
    Unknown(String),
}

impl Verification {
    /// The settings, if any was checked.
    pub(crate) fn checks(&self) -> &[SettingCheck] {
        match self {
            Self::Checked(checks) => checks,
            Self::Unknown(_) => &[],
        }
    }

    fn unknown(why: &str) -> Self {
        Self::Unknown(why.to_owned())
    }
}

/// Starts the verifier for this process, which is about to become the server and whose environment will carry `token`. The
/// verifier calls `report` with its findings. It is an orphan in its own session, so that the server has no child that it did
/// not fork.
///
/// # Errors
/// If the kernel allows no further process. Nothing is left of the verifier then.
pub(crate) fn start_verifier(
    settings: &Settings,
    applied: &Environment,
    token: &str,
    report: impl FnOnce(&Verification),
) -> io::Result<()> {
    let server = std::process::id();
    match fork()? {
        None => {}
        Some(child) => return wait_for(child),
    }
    // SAFETY: takes and changes no memory.
    unsafe { libc::setsid() };
    match fork() {
        Ok(None) => {}
        Ok(Some(_)) => exit(0),
        Err(error) => exit(error.raw_os_error().unwrap_or(libc::EAGAIN)),
    }
    let found = verify_until_applied(server, settings, applied, token);
    report(&found.unwrap_or_else(|error| Verification::Unknown(error.to_string())));
    exit(0)
}

/// The child's pid in the parent, `None` in the child.
fn fork() -> io::Result<Option<libc::pid_t>> {
    // SAFETY: this process has one thread, so the child may call any function.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// Ends this process without running the exit handlers of the process it was forked from.
fn exit(code: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Waits for the intermediate process, whose exit code is 0 or the number of its error.
fn wait_for(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: writes the status of a child of this process, which exits at once.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, error) => Err(io::Error::from_raw_os_error(error)),
        (false, _) => Err(io::Error::other("its process was ended by a signal")),
    }
}

/// Checks the settings until all are in effect, the server ends or the time is over.
fn verify_until_applied(
    server: u32,
    settings: &Settings,
    applied: &Environment,
    token: &str,
) -> io::Result<Verification> {
    let options = TreeOptions {
        sampling: SampleOptions::default(),
        // Every look scans anew, because a launcher can start its server at any moment.
        rescan_after: Duration::ZERO,
        longest_pause: INTERVAL,
        full_at_requests: Vec::new(),
    };
    let mut tree = SampledTree::new(options, Interrupt::default(), None)?;
    let leader = ProcRoot::default().identify(server).map_err(io::Error::other)?;
    tree.attach(Tree::new(ProcRoot::default(), leader, token));
    let mut watch = Watch::default();
    while tree.elapsed() < PATIENCE {
        sleep(INTERVAL);
        let members = tree.members();
        if members.is_empty() {
            return Ok(watch.conclude(tree.elapsed(), true));
        }
        let look = look_at_settings(tree.root(), &members, settings, applied);
        watch.add(look, tree.elapsed());
        if watch.is_decided(tree.elapsed()) {
            break;
        }
    }
    Ok(watch.conclude(tree.elapsed(), false))
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Watch {
    latest: Option<SettingsLook>,
    /// The programs that serve, and since when it is these.
    programs: BTreeSet<u64>,
    since: Duration,
    /// Programs beside others that served: launchers.
    bystanders: BTreeSet<u64>,
}

impl Watch {
    /// Takes a further look. What a server leaves behind when it ends, such as its launcher, is not the server.
    fn add(&mut self, look: SettingsLook, at: Duration) {
        let had_server = self.latest.as_ref().is_some_and(|look| look.by == ServingBy::Listening);
        if had_server && look.by != ServingBy::Listening {
            return;
        }
        self.bystanders.extend(look.bystanders());
        // What stood beside a server before is a launcher, and does not become the server now.
        let is_launcher = look.by == ServingBy::Working
            && look.programs().iter().all(|program| self.bystanders.contains(program));
        let look = if is_launcher { look.without_server() } else { look };
        let programs = look.programs();
        if programs != self.programs {
            (self.programs, self.since) = (programs, at);
        }
        // Other programs begin a new period, as when a launcher has handed on to its server.
        self.latest = Some(match &self.latest {
            Some(earlier) => look.after(earlier),
            None => look,
        });
    }

    fn lasts(&self, now: Duration, long: Duration) -> bool {
        now.saturating_sub(self.since) >= long
    }

    fn is_decided(&self, now: Duration) -> bool {
        let Some(look) = &self.latest else { return false };
        let checks = look.checks();
        match look.by {
            ServingBy::Nothing => false,
            // A worker that loads the application itself shows it only after the server listens.
            ServingBy::Listening if checks.iter().all(|check| check.status.is_final()) => {
                self.lasts(now, MINIMUM)
            }
            // A setting that waits for its moment keeps the answer open.
            _ => self.lasts(now, SETTLED) && !checks.iter().any(is_pending),
        }
    }

    /// The findings while the server runs, or once it has ended.
    fn conclude(self, now: Duration, has_ended: bool) -> Verification {
        // A launcher ends sooner.
        let has_worked = self.lasts(now, if has_ended { MINIMUM } else { SETTLED });
        match self.latest {
            Some(look) if look.by == ServingBy::Listening => Verification::Checked(look.checks()),
            Some(look) if look.by == ServingBy::Working && has_worked => {
                Verification::Checked(look.checks())
            }
            None => Verification::unknown("the server ended before it could be read"),
            Some(_) if has_ended => Verification::unknown("the server ended before it listened"),
            Some(_) => Verification::Unknown(format!(
                "after {} s no Ruby listens or was forked from one that does",
                PATIENCE.as_secs()
            )),
        }
    }
}

fn is_pending(check: &SettingCheck) -> bool {
    matches!(check.status, SettingStatus::NotYet(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(looks: &[(u64, SettingsLook)], ended: bool) -> (bool, Verification) {
        let mut watch = Watch::default();
        let mut now = Duration::ZERO;
        for (at, look) in looks {
            now = Duration::from_secs(*at);
            watch.add(look.clone(), now);
        }
        (watch.is_decided(now), watch.conclude(now, ended))
    }

    fn look(by: ServingBy, pid: u32, status: SettingStatus) -> SettingsLook {
        SettingsLook::of_one(by, pid, SettingCheck { setting: "trim=idle".into(), status })
    }

    fn applied() -> SettingStatus {
        SettingStatus::Applied("reported".into())
    }

    fn working(at: u64) -> (u64, SettingsLook) {
        (at, look(ServingBy::Working, 2, applied()))
    }

    fn listening(at: u64) -> (u64, SettingsLook) {
        (at, look(ServingBy::Listening, 2, applied()))
    }

    fn lost() -> SettingStatus {
        SettingStatus::NotApplied("not loaded".into())
    }

    #[test]
    fn a_launcher_alone_is_never_verified() {
        let (decided, found) = verified(&[working(1), working(3)], true);
        assert_eq!((decided, found.checks().len()), (false, 0));
        let watchdog = |at| (at, look(ServingBy::Nothing, 3, applied()));
        let (decided, found) = verified(&[working(1), watchdog(20), watchdog(59)], false);
        assert_eq!((decided, found.checks().len()), (false, 0));
    }

    #[test]
    fn a_launcher_that_is_left_behind_is_never_verified() {
        let both = look(ServingBy::Working, 3, applied()).with_bystander(2);
        let looks = [working(1), (2, both), working(8), working(20)];
        for ended in [false, true] {
            let (decided, found) = verified(&looks, ended);
            assert_eq!((decided, found.checks().len()), (false, 0));
        }
    }

    #[test]
    fn a_ruby_that_worked_and_has_ended_is_verified() {
        assert_eq!(verified(&[working(1), working(4)], true).1.checks().len(), 1);
    }

    #[test]
    fn a_server_that_listens_is_verified_soon_and_one_that_does_not_once_it_has_settled() {
        for (looks, expected) in [
            (&[listening(1)][..], false),
            (&[listening(1), listening(3)], false),
            (&[listening(1), listening(4)], true),
            (&[working(1), working(9)], false),
            (&[working(1), working(11)], true),
        ] {
            assert_eq!(verified(looks, false).0, expected, "{looks:?}");
        }
    }

    #[test]
    fn workers_that_load_the_application_themselves_may_fork_others_until_the_server_has_settled() {
        // Puma's `fork_worker`: the first worker loads the application, and the others are forked from it.
        let server = |at, status| (at, look(ServingBy::Listening, 3, status));
        let alone = |at| server(at, SettingStatus::NotPreloaded);
        assert!(!verified(&[alone(1), alone(9)], false).0);
        let (decided, found) = verified(&[alone(1), alone(11)], false);
        assert!(decided && found.checks()[0].to_string().contains("NOT APPLIED"), "{found:?}");
    }

    #[test]
    fn a_setting_that_is_lost_where_it_serves_is_reported_once_the_server_has_settled() {
        let server = |at| (at, look(ServingBy::Listening, 3, lost()));
        let launcher = (1, look(ServingBy::Working, 2, applied()));
        assert!(!verified(&[launcher.clone(), server(2), server(9)], false).0);
        let (decided, found) = verified(&[launcher, server(2), server(12)], false);
        assert!(decided);
        assert!(found.checks()[0].to_string().contains("NOT APPLIED: not loaded"), "{found:?}");
    }

    #[test]
    fn what_a_server_leaves_behind_while_it_ends_does_not_count() {
        let server = (4, look(ServingBy::Listening, 3, lost()));
        let launcher = (20, look(ServingBy::Working, 2, applied()));
        let (_, found) = verified(&[server, launcher], true);
        assert!(found.checks()[0].to_string().contains("NOT APPLIED"), "{found:?}");
    }

    #[test]
    fn a_failed_intermediate_process_is_an_error() {
        for (code, expected) in [(0, None), (libc::EAGAIN, Some(libc::EAGAIN))] {
            let child = fork().unwrap();
            let Some(child) = child else { exit(code) };
            let found = wait_for(child).err().and_then(|error| error.raw_os_error());
            assert_eq!(found, expected);
        }
    }
}
