//! The census at the end of a trial: the objects of every Ruby of the tree by class, read from outside.
//!
//! It follows the final figures, so its own work is in none of them. Nothing in the server is stopped or written.

use crate::run::trial::running::RunningTrial;
use crate::run::trial::steps::{TrialEnd, TrialSteps};
use crate::run::trial::{TrialError, TrialPhase};
use carat_analysis::classes_of;
use carat_model::OutsideReading;
use carat_model::{ClassAmount, Observations, TrialCensus};
use carat_outside::census::{CensusPart, LookOptions};
use carat_proc::observe::{memory_gate, read_outside};
use carat_proc::process::{Identity, ProcRoot};
use std::collections::{BTreeMap, BTreeSet};

impl TrialSteps<'_> {
    /// The census, if the experiment asks for one; a note says why there is none. Of a tree that could not be read as a whole
    /// nothing is kept: its sums would be too small.
    pub(super) fn take_census(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
    ) -> Result<Option<Box<TrialCensus>>, TrialEnd> {
        if !self.experiment.measure.census {
            return Ok(None);
        }
        trial.begin(TrialPhase::Census);
        let memory = memory_gate(&ProcRoot::default(), |_| {});
        let options = LookOptions { owners: true, memory, ..LookOptions::default() };
        let members: BTreeSet<Identity> = trial.server.members().into_iter().collect();
        // One by one, so that Ctrl-C does not wait for all of them.
        let mut reading = OutsideReading::default();
        for member in &members {
            if self.context.interrupt.requested() {
                return Err(TrialError::Interrupted.into());
            }
            let mut one = read_outside(std::slice::from_ref(member), &options);
            reading.processes.append(&mut one.processes);
            reading.refused.append(&mut one.refused);
        }
        // By identity, so that a worker which was replaced meanwhile is noticed.
        let now: BTreeSet<Identity> = trial.server.members().into_iter().collect();
        match census_of(&reading, now == members) {
            Ok(census) => Ok(Some(Box::new(census))),
            Err(reason) => {
                observed.notes.push(format!("objects were not counted by class: {reason}"));
                Ok(None)
            }
        }
    }
}

/// The sum over all processes; `same` says that none began or ended meanwhile.
fn census_of(reading: &OutsideReading, same: bool) -> Result<TrialCensus, String> {
    if let Some((process, reason)) = reading.refused.first() {
        return Err(format!("process {process}: {reason}"));
    }
    if !same {
        return Err("a process began or ended while the others were read".to_owned());
    }
    let Some(classes) = classes_of(&reading.processes) else {
        let unknown = reading.processes.iter().find_map(|one| one.reason(CensusPart::Classes));
        return Err(unknown.unwrap_or("no process of the server is a Ruby").to_owned());
    };
    let classes: BTreeMap<String, ClassAmount> =
        classes.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    Ok(TrialCensus::new(reading.processes.len() as u32, classes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::census::{Census, UnknownPart};
    use carat_outside::heap::ClassCount;

    fn ruby(classes: Option<u64>) -> Census {
        let reason = "class names are unknown".to_owned();
        let unknown = match classes {
            Some(_) => Vec::new(),
            None => vec![UnknownPart { part: CensusPart::Classes, reason }],
        };
        let classes = classes.map(|objects| {
            let (name, slot_bytes) = ("String".to_owned(), objects * 40);
            let malloc_bytes = Some(objects);
            vec![ClassCount { name, objects, slot_bytes, malloc_bytes, ..ClassCount::default() }]
        });
        Census { classes, unknown, ..Census::default() }
    }

    fn reading(processes: Vec<Census>) -> OutsideReading {
        OutsideReading { processes, ..OutsideReading::default() }
    }

    #[test]
    fn the_rubies_of_a_tree_are_summed_by_class() {
        let census = census_of(&reading(vec![ruby(Some(3)), ruby(Some(4))]), true).unwrap();
        assert_eq!((census.rubies, census.all().objects), (2, 7));
        assert_eq!(census.amount("String").and_then(|strings| strings.malloc_bytes), Some(7));
    }

    #[test]
    fn a_tree_that_was_not_read_as_a_whole_has_a_reason_instead() {
        let mut refused = reading(vec![ruby(Some(3))]);
        refused.refused.push((7, "permission denied; run as root".into()));
        for (reading, same, expected) in [
            (refused, true, "process 7: permission denied; run as root"),
            (reading(vec![ruby(Some(3))]), false, "began or ended"),
            (reading(vec![ruby(Some(3)), ruby(None)]), true, "class names are unknown"),
            (reading(Vec::new()), true, "no process of the server is a Ruby"),
        ] {
            let reason = census_of(&reading, same).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
