//! What keeps more than before, as a few lines for a terminal.

use crate::lists::largest_first;
use crate::numbers::{grouped, grouped_count, signed_integer};
use crate::text::{one_line, written};
use carat_analysis::{GrownKind, HolderGrowth, HolderGrowths};
use carat_model::Bytes;
use carat_outside::who::KeptBy;
use std::fmt::{self, Write};

/// Lines of what grew by old objects, and by young ones.
const LINES: usize = 6;
const YOUNG_LINES: usize = 3;

/// What keeps more than before: `since` is the name of the first reading.
pub fn holder_growth_text(growths: &Result<HolderGrowths, String>, since: &str) -> String {
    written(|out| match growths {
        Ok(growths) => write_growths(out, growths, since),
        Err(reason) => writeln!(
            out,
            "What keeps more than before is unknown: {}; each reading must come from `carat explain PID --who --json`",
            one_line(reason)
        ),
    })
}

fn write_growths(out: &mut String, growths: &HolderGrowths, since: &str) -> fmt::Result {
    let since = one_line(since);
    let HolderGrowths { before, after, grown, young, processes, incomplete } = growths;
    let (one, two) = processes;
    if one != two {
        write!(out, "The readings have {one} and {two} processes; ")?;
        writeln!(out, "the growth is that of the sums.")?;
    }
    for reason in incomplete {
        writeln!(out, "A reading may lack part of what was kept: {}", one_line(reason))?;
    }
    let data = data_by_sum(grown, young, "young");
    let young = data_by_sum(young, grown, "old");
    // A fresh leak has no old objects yet, so what grew most leads, whatever its age.
    // Of one that leads both, the age that has more of it.
    let most = |list: &[SummedGrowth<'_>]| list.first().map(|one| (one.sum, one.growth.bytes));
    let leads = most(&young) > most(&data);
    if leads {
        write_young(out, &young)?;
    }
    if grown.is_empty() {
        writeln!(out, "Nothing keeps more old objects than in {since}.")?;
    } else {
        writeln!(out, "What keeps more old objects than in {since}:")?;
        write_list(out, &data, grown)?;
    }
    let objects = signed(i128::from(after.old_objects) - i128::from(before.old_objects));
    let bytes = signed_bytes(i128::from(after.old_bytes) - i128::from(before.old_bytes));
    write!(out, "All old objects: {objects} and {bytes}. ")?;
    writeln!(out, "Old is what some collections have left.")?;
    if leads { Ok(()) } else { write_young(out, &young) }
}

/// What grew by objects of one age, and by how much together with those of the other age.
struct SummedGrowth<'a> {
    growth: &'a HolderGrowth,
    /// Bytes of both ages.
    sum: i128,
    other_age: &'static str,
}

/// Objects of the program, those first whose growth by objects of any age is most: half of a leak may be old.
fn data_by_sum<'a>(
    growths: &'a [HolderGrowth],
    others: &[HolderGrowth],
    other_age: &'static str,
) -> Vec<SummedGrowth<'a>> {
    let data = growths.iter().filter(|one| one.kind == GrownKind::Data).map(|growth| {
        let same = |one: &&HolderGrowth| one.kind == growth.kind && one.by == growth.by;
        let other = others.iter().find(same).map_or(0, |one| one.bytes);
        SummedGrowth { growth, sum: growth.bytes + other, other_age }
    });
    largest_first(data, |one| one.sum)
}

/// What grew by young objects.
fn write_young(out: &mut String, young: &[SummedGrowth<'_>]) -> fmt::Result {
    if !young.is_empty() {
        writeln!(out, "Young objects, a leak if they stay; a collection may free them:")?;
    }
    young.iter().take(YOUNG_LINES).try_for_each(|one| write_growth(out, one))
}

/// The objects of the program line by line, and in one line each the rest of them, code, and names of symbols.
fn write_list(out: &mut String, data: &[SummedGrowth<'_>], grown: &[HolderGrowth]) -> fmt::Result {
    data.iter().take(LINES).try_for_each(|one| write_growth(out, one))?;
    let others: i128 = data.iter().skip(LINES).map(|one| one.growth.bytes).sum();
    let of =
        |kind| -> i128 { grown.iter().filter(|one| one.kind == kind).map(|one| one.bytes).sum() };
    let stacks = "on stacks of threads and fibers, beyond the variables of their code";
    for (bytes, what) in [
        (others, "other holders, each with less"),
        (of(GrownKind::Stack), stacks),
        (of(GrownKind::Symbols), "names of symbols"),
        (of(GrownKind::Code), "code that was loaded, and what Ruby keeps beside it"),
    ] {
        if bytes > 0 {
            writeln!(out, "  {:>10}  {what}", signed_bytes(bytes))?;
        }
    }
    Ok(())
}

/// One line: the growth, the objects themselves, and by what they are kept.
fn write_growth(
    out: &mut String,
    SummedGrowth { growth, sum, other_age }: &SummedGrowth<'_>,
) -> fmt::Result {
    write!(out, "  {:>10}  ", signed_bytes(growth.bytes))?;
    if growth.at_least {
        write!(out, "at least: ")?;
    }
    match growth.classes.first().filter(|class| class.grown > 0) {
        Some(class) => {
            let name = one_line(&class.name);
            write!(out, "{} {name}, now {}", signed(class.grown), grouped(class.now))?;
            if growth.objects > class.grown {
                let objects = u64::try_from(growth.objects).unwrap_or(u64::MAX);
                let objects = grouped_count(objects, "object");
                write!(out, ", {objects} with all they lead to")?;
            }
        }
        None => write!(out, "{} objects", signed(growth.objects))?,
    }
    write!(out, " ← {}", one_line(&path_text(&growth.by)))?;
    if *sum != growth.bytes {
        write!(out, "; {} with its {other_age} objects", signed_bytes(*sum))?;
    }
    writeln!(out)
}

/// By what something is kept, the nearest first.
pub(crate) fn path_text(path: &[KeptBy]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (number, by) in path.iter().enumerate() {
        let before = number.checked_sub(1).and_then(|before| path.get(before));
        // The step before has named it.
        let is_named = matches!((by, before), (KeptBy::Itself(one), Some(KeptBy::Step(step))) if step.of == *one);
        if !is_named {
            parts.push(by.to_string());
        }
    }
    parts.join(" ← ")
}

fn signed(difference: i128) -> String {
    signed_integer(difference, grouped)
}

fn signed_bytes(difference: i128) -> String {
    signed_integer(difference, |bytes| Bytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_analysis::ClassGrown;
    use carat_outside::who::{Holder, KeptAmount, KeptBy, WayLink, WayStep};

    fn step(link: WayLink, name: &str) -> KeptBy {
        KeptBy::Step(WayStep { link, of: Holder { name: name.into(), ..Holder::default() } })
    }

    fn growths() -> HolderGrowths {
        let posts = HolderGrowth {
            kind: GrownKind::Data,
            by: vec![
                step(WayLink::Element(None), "Array"),
                step(WayLink::Variable("@seen".into()), "Recent"),
            ],
            classes: vec![ClassGrown { name: "Post".into(), grown: 187, now: 1890 }],
            objects: 1484,
            bytes: 210_000,
            at_least: false,
            now: KeptAmount::default(),
        };
        let all =
            |old_objects, old_bytes| KeptAmount { old_objects, old_bytes, ..KeptAmount::default() };
        HolderGrowths {
            processes: (1, 1),
            incomplete: Vec::new(),
            before: all(100_000, 9_000_000),
            after: all(101_500, 9_300_000),
            grown: vec![posts],
            young: Vec::new(),
        }
    }

    #[test]
    fn a_line_has_the_growth_the_objects_and_what_keeps_them() {
        assert_eq!(
            holder_growth_text(&Ok(growths()), "a.json"),
            "What keeps more old objects than in a.json:\n    \
             +0.21 MB  +187 Post, now 1,890, 1,484 objects with all they lead to ← an element of Array ← @seen of Recent\n\
             All old objects: +1,500 and +0.30 MB. Old is what some collections have left.\n"
        );
    }

    #[test]
    fn a_reading_that_lacks_part_says_so_before_anything_that_grew() {
        let incomplete = vec!["process 7: contents moved".to_owned()];
        let text = holder_growth_text(&Ok(HolderGrowths { incomplete, ..growths() }), "a.json");
        let first =
            "A reading may lack part of what was kept: process 7: contents moved\nWhat keeps more";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn code_and_names_of_symbols_are_one_line_each_and_young_objects_have_their_own_heading() {
        let mut all = growths();
        let posts = all.grown[0].clone();
        let many = |kind| vec![HolderGrowth { kind, ..posts.clone() }; 9];
        all.grown.extend([many(GrownKind::Code), many(GrownKind::Symbols)].concat());
        all.young = many(GrownKind::Data);
        let text = holder_growth_text(&Ok(all), "a.json");
        text.assert_contains([
            "    +1.89 MB  code that was loaded, and what Ruby keeps beside it\n",
            "    +1.89 MB  names of symbols\n",
            "Young objects, a leak if they stay; a collection may free them:\n",
        ]);
        assert_eq!(text.lines().filter(|line| line.contains("+187 Post")).count(), 4, "{text}");
    }

    #[test]
    fn a_fresh_leak_leads_where_its_young_objects_grew_more_than_any_old_ones() {
        let mut all = growths();
        let young = HolderGrowth { bytes: all.grown[0].bytes + 1, ..all.grown[0].clone() };
        all.young = vec![young.clone()];
        let text = holder_growth_text(&Ok(all.clone()), "a.json");
        assert!(text.starts_with("Young objects, a leak if they stay; a collection"), "{text}");
        assert_eq!(text.matches("Young objects").count(), 1, "{text}");
        all.young = vec![HolderGrowth { bytes: 1, ..young }];
        let text = holder_growth_text(&Ok(all), "a.json");
        assert!(text.starts_with("What keeps more old objects"), "{text}");
    }

    #[test]
    fn a_holder_with_young_and_old_objects_is_ordered_by_their_sum_which_is_said() {
        let mut all = growths();
        let posts = all.grown[0].clone();
        let other = |name: &str, bytes| {
            let by = vec![step(WayLink::Variable("@all".into()), name)];
            HolderGrowth { by, bytes, ..posts.clone() }
        };
        all.grown = vec![other("OldOnly", 300_000), posts.clone()];
        all.young = vec![other("Fresh", 250_000), HolderGrowth { bytes: 200_000, ..posts }];
        let text = holder_growth_text(&Ok(all), "a.json");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("What keeps more old"), "{text}");
        let ends = "@seen of Recent; +0.41 MB with its young objects";
        assert!(lines[1].contains("+0.21 MB") && lines[1].ends_with(ends), "{text}");
        assert!(lines[2].ends_with("@all of OldOnly"), "{text}");
        let ends = "@seen of Recent; +0.41 MB with its old objects";
        assert!(lines[5].contains("+0.20 MB") && lines[5].ends_with(ends), "{text}");
        assert!(lines[6].ends_with("@all of Fresh"), "{text}");
    }

    #[test]
    fn what_is_uncertain_or_unknown_is_not_told_as_if_it_were_known() {
        let mut uncertain = growths();
        uncertain.grown[0].at_least = true;
        uncertain.processes.1 = 2;
        let text = holder_growth_text(&Ok(uncertain), "a.json");
        text.assert_contains(["at least: +187 Post", "1 and 2 processes"]);
        let nothing = HolderGrowths { grown: Vec::new(), ..growths() };
        let text = holder_growth_text(&Ok(nothing), "a.json");
        assert!(text.starts_with("Nothing keeps more old objects than in a.json.\n"), "{text}");
        let text = holder_growth_text(&Err("process 7: no room".into()), "a.json");
        let start = "What keeps more than before is unknown: process 7: no room;";
        assert!(text.starts_with(start), "{text}");
    }
}
