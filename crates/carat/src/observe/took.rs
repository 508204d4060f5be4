//! Whether the settings that were asked for are really in effect in a running tree.

use crate::observe::ProbePage;
use crate::process::{Identity, ProcRoot};
use crate::settings::{Check, Environment, Seen, Settings, Took, verify};

/// Every chosen setting with the best evidence that any process of the tree shows: only workers know
/// what they do.
pub fn took(
    root: &ProcRoot,
    members: &[Identity],
    settings: &Settings,
    applied: &Environment,
) -> Vec<Check> {
    best(members.iter().map(|&member| checks(root, member, settings, applied)).collect())
}

/// The best evidence for each setting; a process without Ruby says nothing where another has one.
fn best(mut seen: Vec<(bool, Vec<Check>)>) -> Vec<Check> {
    let any_ruby = seen.iter().any(|(is_ruby, _)| *is_ruby);
    seen.retain(|(is_ruby, _)| *is_ruby || !any_ruby);
    let all = seen.into_iter().map(|(_, checks)| checks);
    let better = |known: Check, now: Check| if rank(&now) > rank(&known) { now } else { known };
    all.reduce(|known, now| known.into_iter().zip(now).map(|(k, n)| better(k, n)).collect())
        .unwrap_or_default()
}

/// Whether carat's libraries are in this process, and what it shows of every setting.
fn checks(
    root: &ProcRoot,
    member: Identity,
    settings: &Settings,
    applied: &Environment,
) -> (bool, Vec<Check>) {
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
    (page.is_some(), verify(settings, applied, &seen))
}

fn rank(check: &Check) -> u8 {
    match check.took {
        Took::Yes(_) => 3,
        Took::No(_) => 2,
        Took::NotYet(_) => 1,
        Took::Unknown(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(took: Took) -> Vec<Check> {
        vec![Check { setting: "prepare_fork=full".into(), took }]
    }

    #[test]
    fn a_shell_beside_the_server_does_not_say_that_a_setting_did_not_take() {
        let shell = (false, check(Took::No("no Ruby".into())));
        let server = (true, check(Took::NotYet("no fork".into())));
        let worker = (true, check(Took::Yes("prepared".into())));
        assert_eq!(best(vec![shell.clone(), server.clone()]), server.1);
        assert_eq!(best(vec![shell.clone(), server, worker.clone()]), worker.1);
        assert_eq!(best(vec![shell.clone()]), shell.1);
        assert_eq!(best(Vec::new()), []);
    }
}
