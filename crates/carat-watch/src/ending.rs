//! Why a process is gone: pure conclusions from what was seen of its end.

use carat_model::count;
use carat_model::watch::{EndCause, WatchCensus};

/// What is known of the end of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndSigns {
    /// How it ended, where the kernel tells that to those who are not its parent.
    pub status: Option<ExitStatus>,
    /// Whether the kernel's log names it as killed for lack of memory; `None` where the log cannot be read.
    pub in_kernel_log: Option<bool>,
    /// The count of such kills in its group at the last sample and now.
    pub group_kills: Option<(u64, u64)>,
    /// The same of the whole machine.
    pub machine_kills: Option<(u64, u64)>,
    /// Processes of its group that vanished in the same round and may have been killed by SIGKILL, itself included.
    pub vanished_together: usize,
    /// Its pid runs another program now.
    pub is_replaced: bool,
}

/// How a process ended, as wait(2) tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    Exited(i32),
    Signal(i32),
}

/// A server loads its app in this time, in milliseconds.
const START_MS: u64 = 5 * 60_000;
/// SIGKILL, by which the kernel kills (mm/oom_kill.c).
const KILL: i32 = 9;

/// The cause, and the evidence for it.
pub fn cause(signs: &EndSigns) -> (EndCause, Vec<String>) {
    let mut evidence = Vec::new();
    let risen = signs.group_kills.filter(|(before, now)| now > before);
    match signs.status {
        Some(ExitStatus::Exited(code)) => evidence.push(format!("it exited with code {code}")),
        Some(ExitStatus::Signal(KILL)) => evidence.push("SIGKILL ended it".into()),
        Some(ExitStatus::Signal(number)) => evidence.push(format!("signal {number} ended it")),
        None => {}
    }
    if let Some((before, now)) = risen {
        evidence.push(format!(
            "its control group counts {now} killed for lack of memory, and counted {before} at the sample before"
        ));
    }
    if signs.status == Some(ExitStatus::Signal(KILL)) && risen.is_none() {
        evidence.push(match (signs.group_kills, signs.machine_kills) {
            (Some(_), _) => "its control group counted no kill for lack of memory meanwhile".into(),
            (None, Some((before, now))) if now <= before => {
                "the kernel killed nothing on this machine for lack of memory meanwhile".into()
            }
            _ => {
                "whether that was for lack of memory is unknown: no count of it can be read".into()
            }
        });
    }
    if signs.in_kernel_log == Some(true) {
        evidence.push("the kernel's log names it as killed for lack of memory".into());
    }
    if let (None, Some((before, now))) = (risen, signs.machine_kills)
        && now > before
    {
        evidence.push(format!(
            "the kernel killed {} for lack of memory somewhere on this machine meanwhile",
            count(now - before, "process")
        ));
    }
    (of(signs, risen.map(|(before, now)| now - before), &mut evidence), evidence)
}

fn of(signs: &EndSigns, risen: Option<u64>, evidence: &mut Vec<String>) -> EndCause {
    // The log names the process itself, so it decides whatever else is known.
    if signs.in_kernel_log == Some(true)
        && signs.status.is_none_or(|status| status == ExitStatus::Signal(KILL))
    {
        return EndCause::Oom;
    }
    match signs.status {
        Some(ExitStatus::Exited(code)) => return EndCause::Exited(code),
        Some(ExitStatus::Signal(number)) if number != KILL => return EndCause::Signal(number),
        _ => {}
    }
    let enough = risen.is_some_and(|kills| kills >= signs.vanished_together as u64);
    // The count may be of another program of the group: the log names every process that the kernel kills (mm/oom_kill.c).
    let is_denied = signs.in_kernel_log == Some(false);
    match (signs.status, risen) {
        (Some(_), Some(_)) if enough && !is_denied => EndCause::Oom,
        (_, Some(kills)) => {
            if is_denied {
                evidence.push("the kernel's log does not name it".into());
            }
            if !enough {
                evidence.push(format!(
                    "{} of its group vanished meanwhile, and the kernel killed {kills}",
                    count(signs.vanished_together as u64, "process")
                ));
            }
            EndCause::ProbablyOom
        }
        // Where its group was removed with it, the machine's count is all there is.
        (Some(_), None) if signs.group_kills.is_none() && machine_killed(signs) => {
            EndCause::ProbablyOom
        }
        (Some(_), None) => EndCause::Signal(KILL),
        (None, None) if signs.is_replaced => EndCause::Replaced,
        (None, None) => EndCause::Unknown,
    }
}

fn machine_killed(signs: &EndSigns) -> bool {
    signs.machine_kills.is_some_and(|(before, now)| now > before)
}

/// The earlier reading with which the last one is compared: the first one after the start of a server, in which it grows
/// without a leak, or the very first where all are of that time.
pub(crate) fn compared(before_last: Vec<WatchCensus>, first_ms: u64) -> Option<WatchCensus> {
    let started_ms = first_ms.saturating_add(START_MS);
    let place = before_last.iter().position(|census| census.at_ms >= started_ms).unwrap_or(0);
    before_last.into_iter().nth(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs() -> EndSigns {
        EndSigns { vanished_together: 1, ..EndSigns::default() }
    }

    #[test]
    fn a_kill_that_its_group_counted_and_a_line_in_the_log_are_lack_of_memory() {
        let killed = Some(ExitStatus::Signal(KILL));
        let counted = EndSigns { status: killed, group_kills: Some((0, 1)), ..signs() };
        let (found, evidence) = cause(&counted);
        assert_eq!(found, EndCause::Oom);
        assert_eq!(evidence.len(), 2, "{evidence:?}");
        let denied = EndSigns { in_kernel_log: Some(false), ..counted };
        let (found, evidence) = cause(&denied);
        assert_eq!(found, EndCause::ProbablyOom, "the group may have counted another program");
        assert!(evidence[2].contains("log does not name it"), "{evidence:?}");
        let logged = EndSigns { in_kernel_log: Some(true), ..signs() };
        assert_eq!(cause(&logged).0, EndCause::Oom);
    }

    #[test]
    fn a_kill_that_nobody_counted_is_somebody_elses() {
        let killed = EndSigns {
            status: Some(ExitStatus::Signal(KILL)),
            group_kills: Some((2, 2)),
            ..signs()
        };
        let (found, evidence) = cause(&killed);
        assert_eq!(found, EndCause::Signal(KILL));
        assert!(evidence[1].contains("counted no kill for lack of memory"), "{evidence:?}");
        // Another process of the machine ran out of memory in its own group.
        let elsewhere = EndSigns { machine_kills: Some((4, 5)), ..killed.clone() };
        assert_eq!(cause(&elsewhere).0, EndCause::Signal(KILL));
        let unseen = EndSigns { group_kills: None, ..elsewhere };
        assert_eq!(cause(&unseen).0, EndCause::ProbablyOom);
        let blind = EndSigns { machine_kills: None, ..unseen };
        let (found, evidence) = cause(&blind);
        assert_eq!(found, EndCause::Signal(KILL));
        assert!(
            evidence[1].contains("whether that was for lack of memory is unknown"),
            "{evidence:?}"
        );
    }

    #[test]
    fn an_exit_is_an_exit_although_another_process_of_the_group_was_killed() {
        let exited = EndSigns {
            status: Some(ExitStatus::Exited(0)),
            group_kills: Some((0, 1)),
            vanished_together: 2,
            ..signs()
        };
        assert_eq!(cause(&exited).0, EndCause::Exited(0));
        let term = EndSigns { status: Some(ExitStatus::Signal(15)), ..exited };
        assert_eq!(cause(&term).0, EndCause::Signal(15));
    }

    #[test]
    fn without_the_status_a_count_is_a_probability_and_nothing_is_unknown() {
        let counted = EndSigns { group_kills: Some((0, 1)), ..signs() };
        assert_eq!(cause(&counted).0, EndCause::ProbablyOom);
        let of_two = EndSigns { vanished_together: 2, ..counted };
        let (found, evidence) = cause(&of_two);
        assert_eq!(found, EndCause::ProbablyOom);
        assert!(evidence.iter().any(|line| line.contains("2 processes of its group")));
        assert_eq!(cause(&signs()), (EndCause::Unknown, Vec::new()));
        assert_eq!(cause(&EndSigns { is_replaced: true, ..signs() }).0, EndCause::Replaced);
    }

    #[test]
    fn what_grew_is_told_since_the_server_had_started() {
        let census = |at_ms| WatchCensus { at_ms, ..WatchCensus::default() };
        let of = |times: &[u64]| {
            let all = times.iter().map(|at_ms| census(*at_ms)).collect();
            compared(all, 1_000).map(|census| census.at_ms)
        };
        assert_eq!(of(&[2_000, 200_000, 400_000, 900_000]), Some(400_000));
        assert_eq!((of(&[2_000, 200_000]), of(&[])), (Some(2_000), None));
    }

    #[test]
    fn two_that_sigkill_ended_while_the_group_counted_one_are_not_told_apart() {
        let one_of_two = EndSigns {
            status: Some(ExitStatus::Signal(KILL)),
            group_kills: Some((0, 1)),
            vanished_together: 2,
            ..signs()
        };
        assert_eq!(cause(&one_of_two).0, EndCause::ProbablyOom);
    }
}
