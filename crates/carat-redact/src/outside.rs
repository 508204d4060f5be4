//! Readings from outside for an audience: every name printable; in a shared report only Ruby's own classes and common
//! libraries keep theirs.

use crate::class_aliases::ClassAliases;
use crate::forms::is_common_library;
use crate::rules::{Audience, DistinctNames, RedactionRules};
use crate::who::{NameEditor, edit_who};
use carat_model::OutsideReading;
use carat_outside::census::Census;
use carat_outside::owners::HolderKind;
use std::collections::BTreeSet;

/// A reading for that audience.
pub fn redact_outside(reading: &OutsideReading, audience: Audience) -> OutsideReading {
    let mut shown = reading.clone();
    let rules = RedactionRules::new(reading, BTreeSet::new(), audience);
    // One name for a class in all processes, so that they can be compared.
    let (classes, libraries) = Default::default();
    let mut names = OutsideNames { rules, classes, libraries };
    names.rules.edit_line(&mut shown.schema);
    shown.refused.iter_mut().for_each(|(_, reason)| names.rules.edit_line(reason));
    let unshared = shown.unshared.iter_mut().flat_map(|table| &mut table.unknown);
    unshared.for_each(|reason| names.rules.edit_line(reason));
    shown.processes.iter_mut().for_each(|census| names.edit(census));
    shown
}

/// The rules, and the names that were given so far.
struct OutsideNames {
    rules: RedactionRules,
    classes: ClassAliases,
    libraries: DistinctNames,
}

impl OutsideNames {
    fn edit(&mut self, census: &mut Census) {
        self.rules.edit_line(&mut census.ruby);
        census.unknown.iter_mut().for_each(|unknown| self.rules.edit_line(&mut unknown.reason));
        if let Some(serving) = &mut census.serving {
            serving.allocator.iter_mut().for_each(|name| self.rules.edit_name(name));
            self.edit_library(&mut serving.file);
        }
        let types = census.heap.iter_mut().flat_map(|heap| &mut heap.types);
        types.for_each(|one| self.rules.edit_name(&mut one.name));
        let counted = census.classes.iter_mut().flatten().map(|class| &mut class.name);
        counted
            .chain(census.class.iter_mut().map(|class| &mut class.name))
            .for_each(|name| self.edit_class(name));
        let jemalloc = census.malloc.iter_mut().flat_map(|malloc| &mut malloc.jemalloc);
        for copy in jemalloc.flat_map(|own| &mut own.copies) {
            self.edit_library(&mut copy.file);
            self.rules.edit_name(&mut copy.form);
        }
        for holder in census.owners.iter_mut().flat_map(|owners| &mut owners.holders) {
            match holder.kind {
                HolderKind::Class => self.edit_class(&mut holder.name),
                HolderKind::Library => self.edit_library(&mut holder.name),
                HolderKind::Thread if self.rules.is_shared() => holder.name = "thread".into(),
                HolderKind::OtherMemory if self.rules.is_shared() => {
                    holder.name = "other anonymous memory".into();
                }
                _ => self.rules.edit_name(&mut holder.name),
            }
        }
        if let Some(who) = &mut census.who {
            edit_who(self, who);
        }
    }
}

impl NameEditor for OutsideNames {
    fn rules(&self) -> &RedactionRules {
        &self.rules
    }

    fn edit_class(&mut self, name: &mut String) {
        // Secrets first, also in a report of one's own.
        self.rules.edit_name(name);
        if self.rules.is_shared() {
            *name = self.classes.alias(name);
        }
    }

    fn edit_library(&mut self, name: &mut String) {
        self.rules.edit_name(name);
        if self.rules.is_shared() && !is_common_library(name) {
            // A gem can be named after whom it is for.
            *name = self.libraries.name(name, || "[file].so".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::heap::ClassCount;
    use carat_outside::serving::ServingMalloc;
    use carat_outside::who::{
        ClassHolders, CodePlace, CountedWay, Holder, SoleHolder, Way, WayLink, WayRoot, WayStep,
        WhoCensus,
    };

    fn reading() -> OutsideReading {
        let class = |name: &str| ClassCount { name: name.into(), ..ClassCount::default() };
        let names =
            ["String", "Acme::Payroll", "(internal) imemo iseq", "(anonymous < Acme::Payroll)"];
        let census = Census { classes: Some(names.map(class).into()), ..Census::default() };
        OutsideReading { processes: vec![census.clone(), census], ..OutsideReading::default() }
    }

    #[test]
    fn a_shared_report_has_no_name_of_a_variable_a_key_a_place_or_a_thread() {
        let holder = |name: &str| Holder {
            name: name.into(),
            code: Some(CodePlace { label: "acme".into(), path: "/srv/acme.rb".into(), line: 7 }),
            thread: Some((7, "acme worker".into())),
            ..Holder::default()
        };
        let acme = || "acme".to_owned();
        let frame = || (Some(acme()), holder("").code);
        let ((variable, code), (other, place)) = (frame(), frame());
        let links = [
            WayLink::Symbol(acme()),
            WayLink::KeyOf("Acme".into()),
            WayLink::ClassKey("Acme".into()),
            WayLink::Variable("@acme".into()),
            WayLink::Member(acme()),
            WayLink::Constant("ACME".into()),
            WayLink::Method(acme()),
            WayLink::Captured(acme()),
            WayLink::Frame { variable, code },
        ];
        let steps = links.map(|link| WayStep { link, of: holder("Acme") });
        let roots = [
            WayRoot::Global { name: "$acme".into() },
            WayRoot::Symbol { name: acme(), library: "acme.so".into() },
            WayRoot::StaticData { library: "acme.so".into() },
            WayRoot::Frame { variable: other, code: place },
            WayRoot::Stack { thread: 7, name: acme() },
        ];
        let ways = roots.map(|root| SoleHolder {
            way: Way { object: holder("Acme"), steps: steps.to_vec(), root: Some(root) },
            ..SoleHolder::default()
        });
        let class = ClassHolders {
            name: "Acme".into(),
            ways: vec![CountedWay { objects: 1, way: ways[0].way.clone() }],
            holder: Some(ways[0].clone()),
            ..ClassHolders::default()
        };
        let who = WhoCensus { classes: vec![class], holders: ways.into(), ..WhoCensus::default() };
        let census = Census { who: Some(who), ..Census::default() };
        let reading = OutsideReading { processes: vec![census], ..OutsideReading::default() };
        assert_eq!(redact_outside(&reading, Audience::Own), reading);
        let shared = format!("{:?}", redact_outside(&reading, Audience::Shared)).to_lowercase();
        assert!(!shared.contains("acme"), "{shared}");
    }

    #[test]
    fn a_shared_report_names_only_rubys_own_classes() {
        let own = redact_outside(&reading(), Audience::Own);
        assert_eq!(own, reading());
        let shared = redact_outside(&reading(), Audience::Shared);
        assert!(!format!("{shared:?}").contains("Acme"), "{shared:?}");
        for census in shared.processes {
            let names: Vec<String> =
                census.classes.into_iter().flatten().map(|class| class.name).collect();
            assert_eq!(names, ["String", "class 1", "(internal) imemo iseq", "class 2"]);
        }
    }

    #[test]
    fn a_shared_report_names_only_common_libraries_and_tells_the_others_apart() {
        let reading = |files: [&str; 4]| {
            let serving = |file: &str| ServingMalloc { allocator: None, file: file.to_owned() };
            let census = |file| Census { serving: Some(serving(file)), ..Census::default() };
            OutsideReading { processes: files.map(census).into(), ..OutsideReading::default() }
        };
        let given = reading(["libjemalloc.so.2", "acme.so", "wallaby.so", "acme.so"]);
        assert_eq!(redact_outside(&given, Audience::Own), given);
        let shared = ["libjemalloc.so.2", "[file].so", "[file].so (2)", "[file].so"];
        assert_eq!(redact_outside(&given, Audience::Shared), reading(shared));
    }
}
