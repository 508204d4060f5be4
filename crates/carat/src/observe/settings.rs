//! Whether the requested settings are in effect in a running tree.

use crate::observe::ProbePage;
use crate::process::{Identity, ProcRoot};
use crate::settings::{
    Environment, ProcessObservation, RuntimeReport, SettingCheck, SettingStatus, Settings, verify,
};

/// Every chosen setting with the best evidence of any process of the tree, because some settings act
/// only in workers.
pub fn check_settings(
    root: &ProcRoot,
    members: &[Identity],
    settings: &Settings,
    applied: &Environment,
) -> Vec<SettingCheck> {
    best(members.iter().map(|&member| checks(root, member, settings, applied)).collect())
}

/// The best evidence for each setting; processes without Ruby count only where no process has one.
fn best(mut observed: Vec<(bool, Vec<SettingCheck>)>) -> Vec<SettingCheck> {
    let any_ruby = observed.iter().any(|(is_ruby, _)| *is_ruby);
    observed.retain(|(is_ruby, _)| *is_ruby || !any_ruby);
    let all = observed.into_iter().map(|(_, checks)| checks);
    all.reduce(|known, other| known.into_iter().zip(other).map(stronger).collect())
        .unwrap_or_default()
}

fn stronger((known, other): (SettingCheck, SettingCheck)) -> SettingCheck {
    if rank(&other) > rank(&known) { other } else { known }
}

/// Whether carat's libraries are in this process, and its evidence for every setting.
fn checks(
    root: &ProcRoot,
    member: Identity,
    settings: &Settings,
    applied: &Environment,
) -> (bool, Vec<SettingCheck>) {
    let environ = root.read(member.pid, "environ").ok();
    let (maps, status) = (text(root, member, "maps"), text(root, member, "status"));
    let page = ProbePage::find(root, member).and_then(|page| page.read());
    let root_link = std::fs::read_link(root.file(member.pid, "root")).ok();
    let observed = ProcessObservation {
        root: root_link.as_deref(),
        maps: maps.as_deref(),
        environ: environ.as_deref(),
        status: status.as_deref(),
        runtime: page.as_ref().map(RuntimeReport::read),
    };
    (page.is_some(), verify(settings, applied, &observed))
}

fn text(root: &ProcRoot, member: Identity, file: &str) -> Option<String> {
    let bytes = root.read(member.pid, file).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// How strong the evidence of a status is compared with that of other processes.
fn rank(check: &SettingCheck) -> u8 {
    match check.status {
        // What one process left out is said, although another has the whole setting.
        SettingStatus::Partly(_) => 4,
        SettingStatus::Applied(_) => 3,
        SettingStatus::NotApplied(_) => 2,
        SettingStatus::NotYet(_) => 1,
        SettingStatus::Unknown(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: SettingStatus) -> Vec<SettingCheck> {
        vec![SettingCheck { setting: "prepare_fork=full".into(), status }]
    }

    #[test]
    fn a_shell_beside_the_server_is_no_evidence_against_a_setting() {
        let shell = (false, check(SettingStatus::NotApplied("no Ruby".into())));
        let server = (true, check(SettingStatus::NotYet("no fork".into())));
        let worker = (true, check(SettingStatus::Applied("prepared".into())));
        assert_eq!(best(vec![shell.clone(), server.clone()]), server.1);
        assert_eq!(best(vec![shell.clone(), server, worker.clone()]), worker.1);
        assert_eq!(best(vec![shell.clone()]), shell.1);
        assert_eq!(best(Vec::new()), []);
    }
}
