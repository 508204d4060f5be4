//! What keeps more than before, as a few lines for a terminal.

use crate::numbers::{grouped, grouped_count};
use crate::text::one_line;
use carat_analysis::{HolderGrowth, HolderGrowths};
use carat_model::Bytes;
use std::fmt::{self, Write};

/// Lines of what grew.
const LINES: usize = 8;

/// What keeps more than before: `since` is the name of the first reading.
pub fn holder_growth_text(growths: &Result<HolderGrowths, String>, since: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = match growths {
        Ok(growths) => write_growths(&mut out, growths, since),
        Err(reason) => writeln!(
            out,
            "What keeps more than before is unknown: {}; each reading must come from `carat explain PID --who --json`",
            one_line(reason)
        ),
    };
    out
}

fn write_growths(out: &mut String, growths: &HolderGrowths, since: &str) -> fmt::Result {
    let since = one_line(since);
    let HolderGrowths { before, after, grown, processes } = growths;
    if processes.0 != processes.1 {
        let (one, two) = processes;
        writeln!(
            out,
            "The readings have {one} and {two} processes; the growth is that of the sums."
        )?;
    }
    if grown.is_empty() {
        writeln!(out, "Nothing keeps more old objects than in {since}.")?;
    } else {
        writeln!(out, "What keeps more old objects than in {since}:")?;
    }
    grown.iter().take(LINES).try_for_each(|one| write_growth(out, one))?;
    let others = grown.len().saturating_sub(LINES);
    if others > 0 {
        let bytes: i128 = grown[LINES..].iter().map(|one| one.bytes).sum();
        let others = grouped_count(others as u64, "other way");
        writeln!(out, "  {:>10}  {others}, each with less", signed_bytes(bytes))?;
    }
    let objects = i128::from(after.old_objects) - i128::from(before.old_objects);
    let bytes = i128::from(after.old_bytes) - i128::from(before.old_bytes);
    writeln!(
        out,
        "All old objects: {} and {}; an object is old after some collections.",
        signed(objects),
        signed_bytes(bytes)
    )
}

/// One line: the growth, the objects themselves, and by what they are kept.
fn write_growth(out: &mut String, growth: &HolderGrowth) -> fmt::Result {
    let by: Vec<String> = growth.by.iter().map(ToString::to_string).collect();
    write!(out, "  {:>10}  ", signed_bytes(growth.bytes))?;
    if growth.at_least {
        write!(out, "at least: ")?;
    }
    match growth.classes.first().filter(|class| class.grown > 0) {
        Some(class) => {
            write!(
                out,
                "{} {}, now {}",
                signed(class.grown),
                one_line(&class.name),
                grouped(class.now)
            )?;
            if growth.objects > class.grown {
                write!(
                    out,
                    ", {} with all they lead to",
                    grouped_count(growth.objects as u64, "object")
                )?;
            }
        }
        None => write!(out, "{} objects", signed(growth.objects))?,
    }
    writeln!(out, " ← {}", one_line(&by.join(" ← ")))
}

fn size(difference: i128) -> u64 {
    u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX)
}

fn sign(difference: i128) -> &'static str {
    match difference {
        0 => "",
        1.. => "+",
        _ => "−",
    }
}

fn signed(difference: i128) -> String {
    format!("{}{}", sign(difference), grouped(size(difference)))
}

fn signed_bytes(difference: i128) -> String {
    format!("{}{}", sign(difference), Bytes(size(difference)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_analysis::ClassGrown;
    use carat_outside::who::{Holder, KeptAmount, KeptBy, WayLink, WayStep};

    fn growths() -> HolderGrowths {
        let step = |link, name: &str| {
            KeptBy::Step(WayStep { link, of: Holder { name: name.into(), ..Holder::default() } })
        };
        let posts = HolderGrowth {
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
            before: all(100_000, 9_000_000),
            after: all(101_500, 9_300_000),
            grown: vec![posts],
        }
    }

    #[test]
    fn a_line_has_the_growth_the_objects_and_what_keeps_them() {
        assert_eq!(
            holder_growth_text(&Ok(growths()), "a.json"),
            "What keeps more old objects than in a.json:\n    \
             +0.21 MB  +187 Post, now 1,890, 1,484 objects with all they lead to ← an element of Array ← @seen of Recent\n\
             All old objects: +1,500 and +0.30 MB; an object is old after some collections.\n"
        );
    }

    #[test]
    fn what_is_uncertain_or_unknown_is_not_told_as_if_it_were_known() {
        let mut uncertain = growths();
        uncertain.grown[0].at_least = true;
        uncertain.processes.1 = 2;
        let text = holder_growth_text(&Ok(uncertain), "a.json");
        assert!(
            text.contains("at least: +187 Post") && text.contains("1 and 2 processes"),
            "{text}"
        );
        let nothing = HolderGrowths { grown: Vec::new(), ..growths() };
        let text = holder_growth_text(&Ok(nothing), "a.json");
        assert!(text.starts_with("Nothing keeps more old objects than in a.json.\n"), "{text}");
        let text = holder_growth_text(&Err("process 7: no room".into()), "a.json");
        assert!(
            text.starts_with("What keeps more than before is unknown: process 7: no room;"),
            "{text}"
        );
    }
}
