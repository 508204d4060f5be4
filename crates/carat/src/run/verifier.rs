//! `exec --verify`: a process beside the server that checks whether the settings are in effect where it serves.

use crate::run::Interrupt;
use crate::run::sampled_tree::{SampledTree, TreeOptions};
use crate::run::{SettingsLook, look_at_settings};
use carat_proc::observe::SampleOptions;
use carat_proc::process::{ProcRoot, ServingBy, Tree};
use carat_settings::{Environment, SettingCheck, SettingStatus, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::discriminant;
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

/// Starts the verifier for this process, which is about to become the server and whose environment will carry `token`. The
/// verifier calls `say` with each of its findings, and `done` at its end. It is an orphan in its own session, so that the
/// server has no child that it did not fork.
///
/// # Errors
/// If the kernel allows no further process. Nothing is left of the verifier then.
pub(crate) fn start_verifier(
    settings: &Settings,
    applied: &Environment,
    token: &str,
    mut say: impl FnMut(&str),
    done: impl FnOnce(),
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
    if let Err(error) = verify_until_applied(server, settings, (applied, token), &mut say) {
        say(&not_verified(&error.to_string()));
    }
    done();
    exit(0)
}

fn not_verified(why: &str) -> String {
    format!("not verified: {why}")
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

/// Checks the settings until all are in effect, the server ends or the time is over, and says what it finds as soon as it is
/// certain.
fn verify_until_applied(
    server: u32,
    settings: &Settings,
    (applied, token): (&Environment, &str),
    say: &mut impl FnMut(&str),
) -> io::Result<()> {
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
    let mut has_ended = false;
    while tree.elapsed() < PATIENCE && !watch.is_decided(tree.elapsed()) {
        sleep(INTERVAL);
        let members = tree.members();
        if members.is_empty() {
            has_ended = true;
            break;
        }
        let look = look_at_settings(tree.root(), &members, settings, applied);
        watch.add(look, tree.elapsed());
        watch.news(tree.elapsed()).iter().for_each(|line| say(line));
    }
    watch.conclude(tree.elapsed(), has_ended).iter().for_each(|line| say(line));
    Ok(())
}

/// What was seen and said so far.
#[derive(Debug, Default)]
struct Watch {
    latest: Option<SettingsLook>,
    /// The programs that serve, and since when it is these.
    programs: BTreeSet<u64>,
    since: Duration,
    /// Whether none of them was seen beside a fork of itself.
    is_unforked: bool,
    /// Programs beside others that served: launchers.
    bystanders: BTreeSet<u64>,
    /// The status that was said of each setting.
    said: BTreeMap<String, SettingStatus>,
    has_said_that_none_serves: bool,
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
            (self.programs, self.since, self.is_unforked) = (programs, at, true);
        }
        self.is_unforked &= look.is_unforked();
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
            _ => self.lasts(now, SETTLED) && !checks.iter().any(|check| check.status.is_pending()),
        }
    }

    /// What is certain by now and was not said before.
    fn news(&mut self, now: Duration) -> Vec<String> {
        let looking = format!("still looking for {} s", PATIENCE.saturating_sub(now).as_secs());
        let by = self.latest.as_ref().map_or(ServingBy::Nothing, |look| look.by);
        if by == ServingBy::Nothing {
            let is_late = now >= SETTLED && !self.has_said_that_none_serves;
            self.has_said_that_none_serves |= is_late;
            let line = || format!("after {} s no process serves yet; {looking}", now.as_secs());
            return is_late.then(line).into_iter().collect();
        }
        let settled = self.lasts(now, SETTLED);
        let soon = settled || by == ServingBy::Listening && self.lasts(now, MINIMUM);
        // What is lost may come yet, as long as the server has not settled.
        let is_certain =
            |status: &SettingStatus| settled || status.is_final() || status.is_pending();
        let checks = self.latest.iter().flat_map(SettingsLook::checks);
        let due = checks.filter(|check| soon && is_certain(&check.status)).collect();
        self.say(due, |check| match check.status.is_pending() {
            true => format!("{check}; {looking}"),
            false => check.to_string(),
        })
    }

    /// The lines of the checks whose status was not said yet.
    fn say(
        &mut self,
        checks: Vec<SettingCheck>,
        line: impl Fn(&SettingCheck) -> String,
    ) -> Vec<String> {
        let new = |check: SettingCheck| {
            let earlier = self.said.insert(check.setting.clone(), check.status.clone());
            let is_same =
                |earlier: &SettingStatus| discriminant(earlier) == discriminant(&check.status);
            match earlier {
                Some(earlier) if is_same(&earlier) => None,
                Some(earlier) if earlier.is_final() => Some(format!("no longer: {}", line(&check))),
                _ => Some(line(&check)),
            }
        };
        checks.into_iter().filter_map(new).collect()
    }

    /// What remains to be said while the server runs, or once it has ended.
    fn conclude(mut self, now: Duration, has_ended: bool) -> Vec<String> {
        // A launcher ends sooner.
        let has_worked = self.lasts(now, if has_ended { MINIMUM } else { SETTLED });
        let Some(look) = &self.latest else {
            return vec![not_verified("the server ended before it could be read")];
        };
        let is_server = match look.by {
            ServingBy::Listening => true,
            ServingBy::Working => has_worked,
            ServingBy::Nothing => false,
        };
        if !is_server {
            return vec![not_verified(&match has_ended {
                true => "the server ended before it listened".to_owned(),
                false => format!(
                    "after {} s no Ruby listens or was forked from one that does",
                    PATIENCE.as_secs()
                ),
            })];
        }
        let (pending, others): (Vec<_>, Vec<_>) =
            look.checks().into_iter().partition(|check| check.status.is_pending());
        let mut lines = self.say(others, SettingCheck::to_string);
        lines.extend(pending.iter().map(|check| self.never_applied(check, now, has_ended)));
        lines
    }

    /// A setting whose moment did not come, or of which no worker showed otherwise.
    fn never_applied(&self, check: &SettingCheck, now: Duration, has_ended: bool) -> String {
        let served = now.saturating_sub(self.since).as_secs();
        if check.status == SettingStatus::Assumed {
            return format!(
                "{} applied: the runtime reports it, and no worker loaded the application itself in {served} s",
                check.setting
            );
        }
        let when = match has_ended {
            true => "before the server ended".to_owned(),
            false => format!("in the {served} s that the server was seen to serve"),
        };
        let why = match &check.status {
            SettingStatus::NotForked(_) if self.is_unforked => {
                "no process was forked, and it acts only where a server forks workers (Puma: `workers 2` and `preload_app!`)"
            }
            SettingStatus::NotForked(why) => why,
            SettingStatus::NotYet(why) => why,
            _ => "",
        };
        format!("{} not applied {when}: {why}", check.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether that is enough, and all that is said.
    fn verified(looks: &[(u64, SettingsLook)], ended: bool) -> (bool, Vec<String>) {
        let mut watch = Watch::default();
        let mut said = Vec::new();
        let mut now = Duration::ZERO;
        for (at, look) in looks {
            now = Duration::from_secs(*at);
            watch.add(look.clone(), now);
            said.extend(watch.news(now));
        }
        let is_decided = watch.is_decided(now);
        said.extend(watch.conclude(now, ended));
        (is_decided, said)
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

    const ENDED: &str = "not verified: the server ended before it listened";

    fn lost() -> SettingStatus {
        SettingStatus::NotApplied("not loaded".into())
    }

    #[test]
    fn a_launcher_alone_is_never_verified() {
        let (decided, said) = verified(&[working(1), working(3)], true);
        assert_eq!((decided, said), (false, vec![ENDED.to_owned()]));
        let watchdog = |at| (at, look(ServingBy::Nothing, 3, applied()));
        let (decided, said) = verified(&[working(1), watchdog(20), watchdog(59)], false);
        let expected = [
            "after 20 s no process serves yet; still looking for 40 s",
            "not verified: after 60 s no Ruby listens or was forked from one that does",
        ];
        assert_eq!((decided, said), (false, expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_launcher_that_is_left_behind_is_never_verified() {
        let both = look(ServingBy::Working, 3, applied()).with_bystander(2);
        let looks = [working(1), (2, both), working(8), working(20)];
        for ended in [false, true] {
            let (decided, said) = verified(&looks, ended);
            assert!(!decided && !said.concat().contains("applied"), "{said:?}");
        }
    }

    #[test]
    fn a_ruby_that_worked_and_has_ended_is_verified() {
        assert_eq!(verified(&[working(1), working(4)], true).1, ["trim=idle applied: reported"]);
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
    fn a_server_that_forks_nothing_is_told_soon_what_waits_for_a_fork_and_at_the_end_that_none_came()
     {
        let status = SettingStatus::NotForked("no preloaded application has forked");
        let alone = |at| (at, look(ServingBy::Listening, 2, status.clone()));
        let soon = "trim=idle not applied yet: no preloaded application has forked; still looking for 55 s";
        for (ended, when) in [
            (false, "in the 58 s that the server was seen to serve"),
            (true, "before the server ended"),
        ] {
            let looks = [alone(2), alone(4), alone(5), alone(30), alone(60)];
            let (decided, said) = verified(&looks, ended);
            let last = format!("trim=idle not applied {when}: no process was forked, and");
            assert!(!decided && said.len() == 2, "{said:?}");
            assert!(said[0] == soon && said[1].starts_with(&last), "{said:?}");
        }
        // Where something was forked, its workers have loaded the application, or nobody knows.
        let forked = |at| (at, alone(0).1.with_fork(7));
        let (_, said) = verified(&[forked(2), alone(60)], false);
        assert!(
            said.last().unwrap().ends_with(": no preloaded application has forked"),
            "{said:?}"
        );
    }

    #[test]
    fn what_was_done_for_an_assumed_application_is_called_applied_only_at_the_end() {
        let server = |at, status| (at, look(ServingBy::Listening, 2, status));
        let assumed = |at| server(at, SettingStatus::Assumed);
        let (decided, said) = verified(&[assumed(1), assumed(4), assumed(59)], false);
        assert!(!decided);
        assert!(said[0].starts_with("trim=idle seems applied: "), "{said:?}");
        let end = "trim=idle applied: the runtime reports it, and no worker loaded the application itself in 58 s";
        assert_eq!(said[1..], [end]);
        let own = |at| server(at, SettingStatus::NotPreloaded);
        let (decided, said) = verified(&[assumed(1), assumed(4), own(12)], false);
        assert!(
            decided && said.len() == 2 && said[1].starts_with("trim=idle NOT APPLIED"),
            "{said:?}"
        );
    }

    #[test]
    fn each_status_is_said_once_and_one_that_does_not_hold_any_more_is_taken_back() {
        let waits = || SettingStatus::NotYet("it boots".into());
        let server = |at, pid, status| (at, look(ServingBy::Listening, pid, status));
        let (decided, said) = verified(
            &[server(1, 2, waits()), server(5, 2, waits()), server(9, 2, applied())],
            false,
        );
        assert!(decided);
        let expected = [
            "trim=idle not applied yet: it boots; still looking for 55 s",
            "trim=idle applied: reported",
        ];
        assert_eq!(said, expected);
        let (_, said) = verified(
            &[listening(1), listening(4), server(5, 3, lost()), server(15, 3, lost())],
            false,
        );
        assert_eq!(
            said,
            ["trim=idle applied: reported", "no longer: trim=idle NOT APPLIED: not loaded"]
        );
    }

    #[test]
    fn workers_that_load_the_application_themselves_may_fork_others_until_the_server_has_settled() {
        // Puma's `fork_worker`: the first worker loads the application, and the others are forked from it.
        let server = |at, status| (at, look(ServingBy::Listening, 3, status));
        let alone = |at| server(at, SettingStatus::NotPreloaded);
        assert!(!verified(&[alone(1), alone(9)], false).0);
        let (decided, said) = verified(&[alone(1), alone(11)], false);
        assert!(decided && said.concat().contains("NOT APPLIED"), "{said:?}");
    }

    #[test]
    fn a_setting_that_is_lost_where_it_serves_is_reported_once_the_server_has_settled() {
        let server = |at| (at, look(ServingBy::Listening, 3, lost()));
        let launcher = (1, look(ServingBy::Working, 2, applied()));
        assert!(!verified(&[launcher.clone(), server(2), server(9)], false).0);
        let (decided, said) = verified(&[launcher, server(2), server(12)], false);
        assert!(decided);
        assert_eq!(said, ["trim=idle NOT APPLIED: not loaded"]);
    }

    #[test]
    fn what_a_server_leaves_behind_while_it_ends_does_not_count() {
        let server = (4, look(ServingBy::Listening, 3, lost()));
        let launcher = (20, look(ServingBy::Working, 2, applied()));
        let (_, said) = verified(&[server, launcher], true);
        assert_eq!(said, ["trim=idle NOT APPLIED: not loaded"]);
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
