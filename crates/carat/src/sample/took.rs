//! Whether the settings that were asked for are really in effect in a running tree.

use crate::process::{Identity, ProcRoot};
use crate::sample::ProbePage;
use crate::settings::{Check, Environment, Seen, Settings, Took, verify};

/// Every chosen setting with the best evidence that any process of the tree shows: only workers know
/// what they do.
pub fn took(
    root: &ProcRoot,
    members: &[Identity],
    settings: &Settings,
    applied: &Environment,
) -> Vec<Check> {
    let mut best: Vec<Check> = Vec::new();
    for &member in members {
        let checks = checks(root, member, settings, applied);
        if best.is_empty() {
            best = checks;
            continue;
        }
        for (known, now) in best.iter_mut().zip(checks) {
            if rank(&now) > rank(known) {
                *known = now;
            }
        }
    }
    best
}

fn checks(
    root: &ProcRoot,
    member: Identity,
    settings: &Settings,
    applied: &Environment,
) -> Vec<Check> {
    let read = |name| root.read(member.pid, name).ok();
    let text = |name| read(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (maps, status, environ) = (text("maps"), text("status"), read("environ"));
    let page = ProbePage::find(root, member).and_then(|page| page.read());
    let seen = Seen {
        maps: maps.as_deref(),
        environ: environ.as_deref(),
        status: status.as_deref(),
        page: page.as_ref(),
    };
    verify(settings, applied, &seen)
}

fn rank(check: &Check) -> u8 {
    match check.took {
        Took::Yes(_) => 3,
        Took::No(_) => 2,
        Took::NotYet(_) => 1,
        Took::Unknown(_) => 0,
    }
}
