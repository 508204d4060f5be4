//! The difference of two readings from outside as text for a terminal.

use crate::census_cells::padded;
use crate::environment_format::shell_line;
use crate::numbers::{beyond, grouped, or_question_mark, signed_integer};
use crate::text::{one_line, written};
use carat_analysis::{
    CensusDifference, CensusFigure, ClassChange, FigureChange, GrownFile, GrownMost, LostSize,
};
use carat_model::ledger::PartKind;
use carat_model::{Bytes, shorten};
use std::fmt::{self, Write};

/// Sizes of chunks that nobody holds.
const LOST_SIZES: usize = 3;
/// Files named in a row.
const FILES: usize = 3;
/// Characters of a name.
const NAME: usize = 48;

/// Totals before and after, and the classes that changed most.
pub fn difference_text(difference: &CensusDifference, classes: usize) -> String {
    written(|out| write_difference(out, difference, classes))
}

/// What to type next to learn who keeps more: `file` is the name of the second reading, and `has_kept` whether it has what is kept by
/// what keeps it. No process is named: a reading does not say of which host it is nor when its process started, so that a
/// process that has its id now can be another.
pub fn after_difference(file: &str, has_kept: bool) -> String {
    let command = match has_kept {
        true => {
            let words = ["carat", "explain", "PID", "--who", "--since", file].map(one_line);
            format!("{}    what keeps more since then, if it still runs", shell_line(&words))
        }
        false => "carat explain PID --who --json > who.json; later carat explain PID --who --since who.json    \
                       who keeps more, by name"
            .to_owned(),
    };
    format!("Next     {command}\n")
}

/// What grew most, a row each, in the form of a diagnosis.
pub fn grown_most_text(grown: &GrownMost) -> String {
    written(|out| {
        let Some((before, after)) = grown.all else {
            return writeln!(out, "size     unknown in one of the readings");
        };
        let change = signed(i128::from(after) - i128::from(before), true);
        writeln!(out, "size     {} → {} (PSS), {change}", Bytes(before), Bytes(after))?;
        if let Some(part) = &grown.part {
            writeln!(out, "most     {}", part_text(part, grown))?;
        }
        if let Some(lost) = grown.lost
            && let Some((bytes, chunks)) = lost.growth()
        {
            let (bytes, chunks) = (signed(bytes, true), signed(chunks, false));
            let size = Bytes(lost.size);
            writeln!(
                out,
                "nobody   {chunks} chunks of {size} that nobody is known to hold, {bytes}: native code keeps them, or leaks them"
            )?;
        }
        if let Some(class) = &grown.class {
            let (objects, bytes) = (signed(class.objects(), false), signed(class.bytes(), true));
            writeln!(out, "class    {}: {objects} objects, {bytes}", shorten(&class.name, NAME))?;
        }
        match grown.open.as_slice() {
            [] => Ok(()),
            open => writeln!(out, "beside   {}, held open", files_text(open)),
        }
    })
}

fn part_text(part: &FigureChange, grown: &GrownMost) -> String {
    let bytes = or_question_mark(part.growth().map(|bytes| signed(bytes, true)));
    let mut text = format!("{}: {bytes}", figure_name(part.figure).0);
    if let Some(threads) = grown.threads {
        text += &format!(", {} threads", signed(threads, false));
    }
    if !grown.mapped.is_empty() {
        text += &format!(", in {}", files_text(&grown.mapped));
    }
    text
}

/// The files that grew most by name, and how much the others did.
fn files_text(files: &[GrownFile]) -> String {
    let name = |file: &GrownFile| {
        let name = file.name.rsplit('/').next().unwrap_or(&file.name);
        format!("{} {}", shorten(name, NAME), signed(file.bytes, true))
    };
    let shown: Vec<String> = files.iter().take(FILES).map(name).collect();
    let rest = files.get(FILES..).unwrap_or_default();
    let more = match rest.len() {
        0 => String::new(),
        more => format!(", {more} more {}", signed(rest.iter().map(|one| one.bytes).sum(), true)),
    };
    shown.join(", ") + &more
}

fn write_difference(out: &mut String, difference: &CensusDifference, most: usize) -> fmt::Result {
    let (before, after) = &difference.rubies;
    writeln!(out, "Ruby {} → {}\n", before.join(", "), after.join(", "))?;
    writeln!(out, "{:<44}{:>14}{:>14}{:>14}", "", "before", "after", "difference")?;
    for change in &difference.figures {
        // A figure that neither reading has would be a row of question marks.
        if change.before.is_some() || change.after.is_some() {
            write_figure(out, change)?;
        }
    }
    write_lost(out, &difference.lost)?;
    let Some(classes) = &difference.classes else {
        return writeln!(out, "\nClasses are unknown in one of the readings.");
    };
    if classes.is_empty() {
        return writeln!(out, "\nNo class changed.");
    }
    write_classes(out, classes, most)
}

fn write_figure(out: &mut String, change: &FigureChange) -> fmt::Result {
    let (name, is_bytes) = figure_name(change.figure);
    let value = |value: Option<u64>| or_question_mark(value.map(|one| shown(one, is_bytes)));
    let [before, after] = [change.before, change.after].map(value);
    let growth = or_question_mark(change.growth().map(|growth| signed(growth, is_bytes)));
    writeln!(out, "{name:<44}{before:>14}{after:>14}{growth:>14}")
}

/// Sizes of chunks that nobody holds and that became more.
fn write_lost(out: &mut String, lost: &[LostSize]) -> fmt::Result {
    for one in lost.iter().take(LOST_SIZES) {
        let [size, after] = [one.size, one.after.present].map(Bytes);
        let before = or_question_mark(one.before.map(|before| Bytes(before.present)));
        let (bytes, chunks) = one.growth().unzip();
        let bytes = or_question_mark(bytes.map(|bytes| signed(bytes, true)));
        let chunks = or_question_mark(chunks.map(|chunks| signed(chunks, false)));
        write!(out, "  in chunks of {size:<29}{before:>14}{after:>14}{bytes:>14}")?;
        writeln!(out, "  ({chunks} chunks)")?;
    }
    Ok(())
}

fn write_classes(out: &mut String, classes: &[ClassChange], most: usize) -> fmt::Result {
    writeln!(out, "\n{:<44}{:>14}{:>14}{:>14}", "class", "objects", "± objects", "± bytes")?;
    for change in classes.iter().take(most) {
        let (name, objects) = (padded(&change.name), grouped(change.after.objects));
        let (more, bytes) = (signed(change.objects(), false), signed(change.bytes(), true));
        writeln!(out, "{name}{objects:>14}{more:>14}{bytes:>14}")?;
    }
    let held = classes.iter().any(|one| one.after.malloc_bytes.is_some());
    let of = if held { "slots and what the objects hold in malloc" } else { "slots" };
    writeln!(out, "Bytes are those of {of}.")?;
    match beyond(classes.len(), most, "more class") {
        None => Ok(()),
        Some(classes) => writeln!(out, "{classes} changed; `--classes N` prints N."),
    }
}

/// The name of a figure, and whether it is in bytes.
fn figure_name(figure: CensusFigure) -> (&'static str, bool) {
    match figure {
        CensusFigure::Processes => ("processes", false),
        CensusFigure::Objects => ("objects", false),
        CensusFigure::LiveSlotBytes => ("slots with an object", true),
        CensusFigure::FreeSlotBytes => ("slots without an object", true),
        CensusFigure::EmptyPages => ("heap pages without an object", false),
        CensusFigure::MallocChunks => ("chunks of malloc in use", false),
        CensusFigure::MallocBytes => ("malloc in use", true),
        CensusFigure::FreeMallocBytes => ("malloc free", true),
        CensusFigure::ThinMallocBytes => ("malloc on pages less than a tenth full", true),
        CensusFigure::LostBytes => ("malloc held by nobody", true),
        CensusFigure::UnsweptBytes => ("garbage: slots not yet swept", true),
        CensusFigure::UnreachedSlotBytes => ("garbage: slots that nothing reaches", true),
        CensusFigure::UnreachedMallocBytes => ("garbage: malloc that only these hold", true),
        CensusFigure::Part(PartKind::CodeAndFiles) => ("code and mapped files (PSS)", true),
        CensusFigure::Part(PartKind::Stacks) => ("thread and fiber stacks (PSS)", true),
        CensusFigure::Part(kind) => (kind.label(), true),
        CensusFigure::AllMemory => ("all memory (PSS)", true),
    }
}

fn shown(value: u64, is_bytes: bool) -> String {
    if is_bytes { Bytes(value).to_string() } else { grouped(value) }
}

fn signed(difference: i128, is_bytes: bool) -> String {
    signed_integer(difference, |size| shown(size, is_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_model::ClassAmount;
    use carat_outside::malloc::ChunkAmount;

    #[test]
    fn a_reader_finds_totals_and_classes_with_their_signs() {
        let amount =
            |objects| ClassAmount { objects, slot_bytes: objects * 40, malloc_bytes: None };
        let figure = |figure, before, after| FigureChange { figure, before, after };
        let difference = CensusDifference {
            rubies: (vec!["3.1.2".into()], vec!["3.4.1".into()]),
            figures: vec![
                figure(CensusFigure::Objects, Some(1000), Some(3500)),
                figure(CensusFigure::MallocBytes, None, Some(9)),
                figure(CensusFigure::LostBytes, None, None),
            ],
            classes: Some(vec![
                ClassChange { name: "Post".into(), before: amount(0), after: amount(3000) },
                ClassChange { name: "String".into(), before: amount(900), after: amount(400) },
            ]),
            lost: vec![LostSize {
                size: 32,
                before: Some(ChunkAmount::resident(10, 320)),
                after: ChunkAmount::resident(100_010, 3_200_320),
            }],
        };
        let text = difference_text(&difference, 1);
        text.assert_contains([
            "Ruby 3.1.2 → 3.4.1",
            "+2,500",
            "+0.12 MB",
            "1 more class changed",
            "class                                              objects     ± objects       ± bytes",
            "  in chunks of 32 B                                  320 B       3.20 MB      +3.20 MB  (+100,000 chunks)",
        ]);
        assert!(!text.contains("nobody") && !text.contains("String"), "{text}");
        assert!(difference_text(&difference, 2).contains("−500"), "{text}");
    }

    #[test]
    fn the_next_command_compares_what_was_read_and_names_no_process_that_may_be_another() {
        let next = after_difference("b c.json", true);
        let start = "Next     carat explain PID --who --since 'b c.json'  ";
        assert!(next.starts_with(start), "{next}");
        let unread = after_difference("b.json", false);
        assert!(unread.contains("explain PID --who --json > who.json; later"), "{unread}");
    }

    #[test]
    fn what_grew_most_is_said_first_with_its_files_and_chunks() {
        let part = FigureChange {
            figure: CensusFigure::Part(PartKind::CodeAndFiles),
            before: Some(20_000_000),
            after: Some(61_000_000),
        };
        let files = (0..5).map(|n| GrownFile { name: format!("/db/c-{n}.db"), bytes: 8_000_000 });
        let amount = ChunkAmount::resident;
        let lost =
            LostSize { size: 32, before: Some(amount(1, 32)), after: amount(100_001, 3_200_032) };
        let class = ClassChange {
            name: "Post".into(),
            before: ClassAmount::NONE,
            after: ClassAmount { objects: 9, slot_bytes: 360, malloc_bytes: None },
        };
        let grown = GrownMost {
            all: Some((30_000_000, 71_000_000)),
            part: Some(part),
            mapped: files.collect(),
            threads: None,
            class: Some(class),
            lost: Some(lost),
            open: vec![GrownFile { name: "/memfd:x (deleted)".into(), bytes: 67_000_000 }],
        };
        assert_eq!(
            grown_most_text(&grown),
            "size     30.00 MB → 71.00 MB (PSS), +41.00 MB\n\
             most     code and mapped files (PSS): +41.00 MB, in c-0.db +8.00 MB, c-1.db +8.00 MB, c-2.db +8.00 MB, 2 more +16.00 MB\n\
             nobody   +100,000 chunks of 32 B that nobody is known to hold, +3.20 MB: native code keeps them, or leaks them\n\
             class    Post: +9 objects, +360 B\n\
             beside   memfd:x (deleted) +67.00 MB, held open\n"
        );
        let unknown = grown_most_text(&GrownMost::default());
        assert_eq!(unknown, "size     unknown in one of the readings\n");
    }
}
