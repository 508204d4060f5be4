//! Who keeps what, as a few lines for a terminal.

use crate::census_text::live_bytes;
use crate::environment_format::shell_line;
use crate::numbers::{beyond, grouped, grouped_count};
use crate::text::{one_line, written};
use carat_model::{Bytes, OutsideReading};
use carat_outside::census::{Census, CensusPart};
use carat_outside::who::{ClassHolders, CountedWay, KeeperKind, WhoCensus};
use carat_redact::{Audience, redact_outside};
use std::fmt::{self, Write};

/// Who keeps what in the largest Ruby of a tree. `class` is the class that was asked for.
pub fn who_text(reading: &OutsideReading, class: Option<&str>) -> String {
    let reading = redact_outside(reading, Audience::Own);
    written(|out| {
        // Of a cluster one worker is like the other.
        if let Some(largest) = reading.processes.iter().max_by_key(|census| live_bytes(census)) {
            write_process(out, largest, class)?;
        }
        if let Some(others) = beyond(reading.processes.len(), 1, "other Ruby process") {
            writeln!(out, "The tree has {others}; give its id with --alone")?;
        }
        reading.refused.iter().try_for_each(|(process, reason)| {
            writeln!(out, "Not read: process {process}: {}", one_line(reason))
        })
    })
}

/// Who keeps what in a heap dump of this name.
pub fn dump_who_text(who: &WhoCensus, target: &str, class: Option<&str>) -> String {
    let target = one_line(target);
    let all = grouped_count(who.reached_objects + who.unreached_objects, "object");
    let unreached = grouped(who.unreached_objects);
    written(|out| {
        writeln!(out, "Heap dump {target}: {all}; no root leads to {unreached} of them")?;
        write_who(out, who, true, (&target, class))
    })
}

fn write_process(out: &mut String, census: &Census, class: Option<&str>) -> fmt::Result {
    let target = census.process.to_string();
    let Some(who) = &census.who else {
        let reason = one_line(census.reason(CensusPart::Who).unwrap_or("it was not read"));
        return writeln!(out, "Process {target}: who keeps what is unknown: {reason}");
    };
    let all = grouped_count(who.reached_objects + who.unreached_objects, "object");
    let unknown = census.reason(CensusPart::Reach).map(one_line);
    let garbage = match &unknown {
        Some(reason) => format!("what a collection would free is not known: {reason}"),
        None => format!("a collection would free {}", grouped(who.unreached_objects)),
    };
    writeln!(out, "Process {target}, Ruby {}: {all}; {garbage}", one_line(&census.ruby))?;
    write_who(out, who, unknown.is_none(), (&target, class))?;
    if class.is_none() && own_class(who).is_none() {
        let who = explain_who(&target, None);
        writeln!(out, "Next: {who} --json > who.json; later {who} --since who.json")?;
    }
    Ok(())
}

/// What is told of a process or a dump; `target` is how it is called on the command line, and `knows_garbage` whether what the
/// roots do not reach is garbage.
fn write_who(
    out: &mut String,
    who: &WhoCensus,
    knows_garbage: bool,
    (target, class): (&str, Option<&str>),
) -> fmt::Result {
    match class {
        Some(_) => {
            who.classes.iter().try_for_each(|class| write_class(out, class, knows_garbage))?;
        }
        None => {
            write_holders(out, who, knows_garbage)?;
            writeln!(out, "Classes with most bytes of old objects, each with all of its objects:")?;
            who.classes.iter().try_for_each(|class| write_brief_class(out, class))?;
        }
    }
    for reason in &who.unnamed {
        writeln!(out, "  {}", one_line(reason))?;
    }
    if who.left_out > 0 {
        let ways = grouped_count(who.left_out, "way");
        writeln!(out, "  {ways} changed while they were read, and are left out")?;
    }
    match (class, own_class(who)) {
        (None, Some(own)) => writeln!(out, "Next: {}", explain_who(target, Some(own))),
        _ => Ok(()),
    }
}

/// The class to ask about next: of those with most bytes the first that is the app's or a library's, or else the one nearest to the
/// largest holder.
fn own_class(who: &WhoCensus) -> Option<&str> {
    let largest = who.classes.iter().map(|class| class.name.as_str());
    let of_holders = who.holders.iter().flat_map(|holder| {
        let steps = holder.way.steps.iter().map(|step| &step.of);
        let objects = std::iter::once(&holder.way.object).chain(steps);
        objects.filter(|one| one.kind == KeeperKind::Object).map(|one| one.name.as_str())
    });
    largest.chain(of_holders).find(|name| says_something(name))
}

/// Classes of Ruby itself, of which every program has objects for many reasons: who keeps them is a long list that answers nothing.
const EVERYWHERE: &str = "Array BasicObject Binding Class Complex Encoding Enumerator Fiber File Float Hash IO Integer MatchData \
     Method Module Monitor Object Proc Range Rational Regexp Set String Struct Symbol Thread Thread::Mutex Time UnboundMethod";

/// Whether a name is that of a class, and of one that few parts of a program use.
fn says_something(name: &str) -> bool {
    // Objects without a class, and classes without a name, are called otherwise.
    name.starts_with(char::is_uppercase) && !EVERYWHERE.split(' ').any(|one| one == name)
}

/// The command that says who keeps the objects of a class, or those with most memory; the latter also where the class says nothing.
pub fn explain_who(target: &str, class: Option<&str>) -> String {
    let name = class.filter(|name| says_something(name)).map(one_line);
    let mut words: Vec<String> = ["carat", "explain", target].map(one_line).into();
    words.extend(["--who".to_owned()].into_iter().chain(name));
    // Quoted, because who copies the line runs what an observed process has chosen.
    shell_line(&words)
}

fn counted(class: &ClassHolders) -> String {
    let objects = grouped(class.objects);
    format!("{objects} {}, {}", one_line(&class.name), Bytes(class.bytes))
}

/// One line: how many, and the commonest way.
fn write_brief_class(out: &mut String, class: &ClassHolders) -> fmt::Result {
    write!(out, "  {}", counted(class))?;
    match class.ways.first() {
        Some(CountedWay { objects, way }) => {
            write!(out, "; {} of them: {}", grouped(*objects), one_line(&way.to_string()))?;
        }
        None => write!(out, "; no way is commoner than others")?,
    }
    // The way above is one of them.
    let others = class.other_ways + (class.ways.len() as u64).saturating_sub(1);
    match others {
        0 => writeln!(out),
        _ => writeln!(out, "; and {}", grouped_count(others, "other way")),
    }
}

/// Every way of a class that is told, and who keeps most of its objects.
fn write_class(out: &mut String, class: &ClassHolders, knows_garbage: bool) -> fmt::Result {
    writeln!(out, "  {}, {} old", counted(class), grouped(class.old_objects))?;
    let garbage = match knows_garbage {
        true => "would be freed by a collection",
        false => "are garbage, or kept in a way that was not found",
    };
    let others = grouped_count(class.other_ways, "other way") + ", each with fewer";
    let rest = [
        (class.other_objects, others.as_str()),
        (class.changed_objects, "by a way that no longer held when it was read again"),
        (class.unreached_objects, garbage),
    ];
    for CountedWay { objects, way } in &class.ways {
        writeln!(out, "  {:>11}  {}", grouped(*objects), one_line(&way.to_string()))?;
    }
    for (objects, how) in rest.into_iter().filter(|(objects, _)| *objects > 0) {
        writeln!(out, "  {:>11}  {how}", grouped(objects))?;
    }
    match &class.holder {
        Some(holder) => {
            let of_class = holder.of_class.map(|objects| format!("{} of them", grouped(objects)));
            let of_class = of_class.unwrap_or_else(|| "them".to_owned());
            let way = one_line(&holder.way.to_string());
            writeln!(out, "  Kept alive only by {way}: {of_class};")?;
            let objects = grouped_count(holder.objects, "object");
            writeln!(out, "    without it {objects} and {} would go", Bytes(holder.bytes))
        }
        None if knows_garbage && class.unreached_objects == class.objects => Ok(()),
        None if knows_garbage => {
            let them = if class.unreached_objects > 0 { "the others" } else { "them" };
            writeln!(out, "  No single object keeps nine tenths of {them}")
        }
        None => writeln!(out, "  Whether one object keeps nine tenths of them is not known"),
    }
}

fn write_holders(out: &mut String, who: &WhoCensus, knows_garbage: bool) -> fmt::Result {
    if who.holders.is_empty() && !knows_garbage {
        return writeln!(out, "Whether one object alone keeps a hundredth of it is not known.");
    }
    if who.holders.is_empty() {
        return writeln!(out, "No single object keeps a hundredth of it.");
    }
    writeln!(out, "What would go without one object:")?;
    for holder in &who.holders {
        let way = one_line(&holder.way.to_string());
        let bytes = Bytes(holder.bytes).to_string();
        writeln!(out, "  {bytes:>9} in {:>14}  {way}", grouped_count(holder.objects, "object"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_outside::census::UnknownPart;
    use carat_outside::who::{Holder, SoleHolder, Way, WayLink, WayRoot, WayStep};

    fn way(class: &str, root: Option<WayRoot>) -> Way {
        let object = Holder { name: class.into(), ..Holder::default() };
        let list = Holder { name: "Array".into(), length: Some(20_000), ..Holder::default() };
        let log = Holder { name: "AuditLog".into(), ..Holder::default() };
        let class = Holder { kind: KeeperKind::Class, ..log.clone() };
        let mut steps = vec![WayStep { link: WayLink::Element(Some(7)), of: list }];
        if root.is_none() {
            steps.push(WayStep { link: WayLink::Variable("@entries".into()), of: log });
            steps.push(WayStep { link: WayLink::Constant("CURRENT".into()), of: class });
        }
        Way { object, steps, root }
    }

    fn reading(who: Option<WhoCensus>) -> OutsideReading {
        let census = Census { process: 7, ruby: "3.1.2".into(), who, ..Census::default() };
        OutsideReading { processes: vec![census], ..OutsideReading::default() }
    }

    fn who() -> WhoCensus {
        let holder = SoleHolder {
            way: way("Hash", Some(WayRoot::Global { name: "$cache".into() })),
            of_class: Some(19_999),
            objects: 40_001,
            bytes: 1_764_808,
        };
        let class = ClassHolders {
            name: "Visit".into(),
            objects: 20_000,
            old_objects: 19_000,
            bytes: 800_000,
            unreached_objects: 9_000,
            garbage_objects: Some(9_000),
            ways: vec![CountedWay { objects: 19_990, way: way("Visit", None) }],
            other_ways: 2,
            other_objects: 10,
            changed_objects: 0,
            holder: Some(holder.clone()),
        };
        WhoCensus {
            reached_objects: 90_000,
            unreached_objects: 10_000,
            garbage_objects: Some(10_000),
            classes: vec![class],
            holders: vec![holder],
            left_out: 1,
            ..WhoCensus::default()
        }
    }

    #[test]
    fn a_name_that_a_shell_would_obey_is_quoted_in_the_next_command() {
        let mut census = who();
        census.classes[0].name = "X; touch /tmp/p".into();
        let text = who_text(&reading(Some(census)), None);
        assert!(text.ends_with("--who 'X; touch /tmp/p'\n"), "{text}");
        assert_eq!(explain_who("7", Some("--output=/x")), "carat explain 7 --who");
    }

    #[test]
    fn the_next_command_names_a_class_that_says_something_or_none() {
        let mut census = who();
        let string = ClassHolders { name: "String".into(), ..ClassHolders::default() };
        census.classes.insert(0, string.clone());
        let next = |census: &WhoCensus| {
            let text = who_text(&reading(Some(census.clone())), None);
            text.lines().last().unwrap().to_owned()
        };
        assert_eq!(next(&census), "Next: carat explain 7 --who Visit");
        let internal = ClassHolders { name: "(code)".into(), ..ClassHolders::default() };
        census.classes = vec![internal, string];
        let since = "Next: carat explain 7 --who --json > who.json; later carat explain 7 --who --since who.json";
        assert_eq!(next(&census), since);
        assert!(!dump_who_text(&census, "a.jsonl", None).contains("Next"));
        census.holders[0].way = way("Hash", None);
        assert_eq!(next(&census), "Next: carat explain 7 --who AuditLog");
        assert_eq!(explain_who("7", Some("String")), "carat explain 7 --who");
        assert_eq!(explain_who("7", Some("Visit")), "carat explain 7 --who Visit");
    }

    #[test]
    fn the_commonest_ways_and_the_largest_holders_come_first_and_the_next_command_last() {
        assert_eq!(
            who_text(&reading(Some(who())), None),
            "Process 7, Ruby 3.1.2: 100,000 objects; a collection would free 10,000\n\
             What would go without one object:\n    \
             1.76 MB in 40,001 objects  Hash ← [7] of Array (20,000 elements) ← global variable $cache\n\
             Classes with most bytes of old objects, each with all of its objects:\n  \
             20,000 Visit, 0.80 MB; 19,990 of them: Visit ← [7] of Array (20,000 elements) ← @entries of AuditLog ← \
             constant AuditLog::CURRENT; and 2 other ways\n  \
             1 way changed while they were read, and are left out\n\
             Next: carat explain 7 --who Visit\n"
        );
    }

    #[test]
    fn a_class_has_every_way_and_who_keeps_most_of_it() {
        let text = who_text(&reading(Some(who())), Some("Visit"));
        text.assert_contains([
            "  20,000 Visit, 0.80 MB, 19,000 old\n",
            "19,990  Visit ← [7] of Array (20,000 elements) ← @entries of AuditLog ← constant AuditLog::CURRENT\n",
            "10  2 other ways, each with fewer\n",
            "9,000  would be freed by a collection\n",
            "Kept alive only by Hash ← [7] of Array (20,000 elements) ← global variable $cache: 19,999 of them;\n",
            "without it 40,001 objects and 1.76 MB would go\n",
        ]);
        assert!(!text.contains("Next"), "{text}");
        let mut one = who();
        one.classes[0].unreached_objects = 1;
        let text = who_text(&reading(Some(one)), Some("Visit"));
        assert!(text.contains(" 1  would be freed by a collection\n"), "the lines add up\n{text}");
    }

    #[test]
    fn no_holder_is_missed_of_what_would_be_freed() {
        let with_garbage = |garbage: u64| {
            let mut found = who();
            (found.classes[0].holder, found.classes[0].unreached_objects) = (None, garbage);
            who_text(&reading(Some(found)), Some("Visit"))
        };
        let all = who().classes[0].objects;
        assert!(!with_garbage(all).contains("nine tenths"));
        assert!(with_garbage(1).contains("nine tenths of the others\n"));
        assert!(with_garbage(0).contains("nine tenths of them\n"));
    }

    #[test]
    fn where_contents_moved_neither_garbage_nor_a_missing_holder_is_claimed() {
        let mut moved = who();
        moved.classes[0].holder = None;
        moved.classes[0].changed_objects = 4_000;
        let mut reading = reading(Some(moved));
        let reason = "contents moved".to_owned();
        reading.processes[0].unknown.push(UnknownPart { part: CensusPart::Reach, reason });
        let text = who_text(&reading, Some("Visit"));
        text.assert_contains([
            "what a collection would free is not known: contents moved\n",
            "      4,000  by a way that no longer held when it was read again\n",
            "      9,000  are garbage, or kept in a way that was not found\n",
            "  Whether one object keeps nine tenths of them is not known\n",
        ]);
        assert!(!text.contains("would be freed"), "{text}");
    }

    #[test]
    fn what_is_unknown_has_its_reason() {
        let mut unknown = reading(None);
        let reason = "there is no object of class Psot".to_owned();
        unknown.processes[0].unknown.push(UnknownPart { part: CensusPart::Who, reason });
        assert_eq!(
            who_text(&unknown, Some("Psot")),
            "Process 7: who keeps what is unknown: there is no object of class Psot\n"
        );
    }
}
