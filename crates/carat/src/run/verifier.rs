//! `exec --verify`: a process beside the server that checks whether the settings are in effect.

use crate::observe::{SampleOptions, check_settings};
use crate::process::{ProcRoot, Tree};
use crate::run::Interrupt;
use crate::run::session::{Session, SessionOptions};
use crate::settings::{Environment, SettingCheck, SettingStatus, Settings};
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// How long settings that act after booting may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server may boot before its settings are reported.
const MINIMUM: Duration = Duration::from_secs(3);
const INTERVAL: Duration = Duration::from_millis(250);

/// Starts the verifier for this process, which is about to become the server. The verifier calls `report` with
/// its findings. It is an orphan in its own session, so that the server has no child that it did not fork.
pub(crate) fn start_verifier(
    settings: &Settings,
    applied: &Environment,
    report: impl FnOnce(&[SettingCheck]),
) -> io::Result<()> {
    let server = std::process::id();
    // SAFETY: this process has one thread, so the child may call any function.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        child => {
            // SAFETY: waits for the child above, which exits at once.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            return Ok(());
        }
    }
    // SAFETY: as above; the intermediate process exits without running exit handlers.
    unsafe {
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
    }
    report(&verify_until_applied(server, settings, applied).unwrap_or_default());
    // SAFETY: exits without running the exit handlers of the process it was forked from.
    unsafe { libc::_exit(0) }
}

/// Checks the settings until all are in effect, the server ends or the time is over.
fn verify_until_applied(
    server: u32,
    settings: &Settings,
    applied: &Environment,
) -> io::Result<Vec<SettingCheck>> {
    let options = SessionOptions {
        sampling: SampleOptions::default(),
        rescan_after: Duration::ZERO,
        longest_pause: INTERVAL,
        full_at_requests: Vec::new(),
    };
    let mut session = Session::new(options, Interrupt::default(), None)?;
    let leader = ProcRoot::default().identify(server).map_err(io::Error::other)?;
    session.attach(Tree::new(ProcRoot::default(), leader, "no token"));
    let mut checks = Vec::new();
    while session.elapsed() < PATIENCE {
        sleep(INTERVAL);
        let members = session.members();
        if members.is_empty() {
            break;
        }
        let found = check_settings(session.root(), &members, settings, applied);
        // What was read of a server that was ending says nothing.
        if !session.members().is_empty() {
            checks = keep_applied(checks, found);
        }
        if session.elapsed() >= MINIMUM && checks.iter().all(is_applied) {
            break;
        }
    }
    Ok(checks)
}

/// The latest findings, but what was once seen in effect stays so: a worker that showed it may have ended first.
fn keep_applied(known: Vec<SettingCheck>, found: Vec<SettingCheck>) -> Vec<SettingCheck> {
    let mut known = known.into_iter();
    let kept = found.into_iter().map(|latest| match known.next() {
        Some(earlier) if is_applied(&earlier) && !is_applied(&latest) => earlier,
        _ => latest,
    });
    kept.collect()
}

fn is_applied(check: &SettingCheck) -> bool {
    matches!(check.status, SettingStatus::Applied(_) | SettingStatus::Partly(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_in_effect_stays_so_while_the_server_ends() {
        let check = |status| SettingCheck { setting: "trim=idle".into(), status };
        let applied = check(SettingStatus::Applied("a worker reports it".into()));
        let ending = check(SettingStatus::NotApplied("no Ruby is left".into()));
        let partly = check(SettingStatus::Partly("without compaction".into()));
        for (known, found, expected) in [
            (vec![], ending.clone(), &ending),
            (vec![applied.clone()], ending.clone(), &applied),
            (vec![ending.clone()], applied.clone(), &applied),
            (vec![applied.clone()], partly.clone(), &partly),
        ] {
            assert_eq!(keep_applied(known, vec![found]).first(), Some(expected));
        }
    }
}
