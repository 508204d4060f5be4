//! Readings from outside for an audience: in a shared report only Ruby's own classes keep their names.

use crate::observe::OutsideReading;
use crate::report::class_aliases::ClassAliases;
use crate::report::redact::Audience;
use carat_outside::census::Census;
use carat_outside::owners::HolderKind;

/// The readings for that audience.
pub(crate) fn prepare_outside(reading: &OutsideReading, audience: Audience) -> OutsideReading {
    let mut shown = reading.clone();
    if audience == Audience::Own {
        return shown;
    }
    // One name for a class in all processes, so that they can be compared.
    let mut names = ClassAliases::default();
    for census in &mut shown.processes {
        hide_names(census, &mut names);
    }
    shown
}

fn hide_names(census: &mut Census, names: &mut ClassAliases) {
    for class in census.classes.iter_mut().flatten() {
        class.name = names.alias(&class.name);
    }
    if let Some(places) = &mut census.class {
        places.name = names.alias(&places.name);
    }
    for holder in census.owners.iter_mut().flat_map(|owners| &mut owners.holders) {
        match holder.kind {
            HolderKind::Class => holder.name = names.alias(&holder.name),
            HolderKind::Thread => holder.name = "thread".into(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::heap::ClassCount;

    fn reading() -> OutsideReading {
        let class = |name: &str| ClassCount { name: name.into(), ..ClassCount::default() };
        let names =
            ["String", "Acme::Payroll", "(internal) imemo iseq", "(anonymous < Acme::Payroll)"];
        let census = Census { classes: Some(names.map(class).into()), ..Census::default() };
        OutsideReading { processes: vec![census.clone(), census], ..OutsideReading::default() }
    }

    #[test]
    fn a_shared_report_names_only_rubys_own_classes() {
        let own = prepare_outside(&reading(), Audience::Own);
        assert_eq!(own, reading());
        let shared = prepare_outside(&reading(), Audience::Shared);
        assert!(!format!("{shared:?}").contains("Acme"), "{shared:?}");
        for census in shared.processes {
            let names: Vec<String> =
                census.classes.into_iter().flatten().map(|class| class.name).collect();
            assert_eq!(names, ["String", "class 1", "(internal) imemo iseq", "class 2"]);
        }
    }
}
