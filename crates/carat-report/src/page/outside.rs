//! What was read from outside, as sections of the page of a ledger: maps, holders, and why pages are private.

use crate::census_text::live_bytes;
use crate::lists::largest_first;
use crate::page::{Gallery, elements, heap_map, holders, kept};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use crate::unshared_text::{self, area_words};
use carat_model::{Bytes, OutsideReading};
use carat_outside::census::Census;
use carat_outside::unshared::UnsharedTable;
use maud::{Markup, html as markup};

/// Processes with pictures: those with the largest heaps.
const PROCESSES: usize = 3;
/// Reasons listed for processes that were not read.
const REASONS: usize = 20;

/// Every section; empty without a reading.
pub(crate) fn sections(reading: Option<&OutsideReading>, gallery: &mut Gallery) -> Markup {
    let Some(reading) = reading else { return markup! {} };
    let denied = denied(&reading.refused);
    // Only the reasons are left to show.
    if reading.processes.is_empty() {
        return denied;
    }
    let mut largest = largest_first(&reading.processes, |census| live_bytes(census));
    largest.truncate(PROCESSES);
    let left = reading.processes.len() - largest.len();
    let is_kept = |census: &&Census| census.who.as_ref().is_some_and(|who| who.kept.is_some());
    markup! {
        @if largest.iter().any(is_kept) {
            section #kept {
                h2 { "Who keeps it, by name" }
                (of_each(&largest, |census| kept::section(census, gallery)))
            }
        }
        section #holders {
            h2 { "Who holds the memory" }
            (of_each(&largest, |census| holders::section(census, gallery)))
        }
        section #memory-map {
            h2 { "Where it lies" }
            (of_each(&largest, |census| heap_map::section(census, gallery)))
            @if left > 0 { p.soft { "The largest " (PROCESSES) " processes; " (left) " more were read." } }
        }
        @if !reading.unshared.is_empty() { (unshared(&reading.unshared)) }
        (denied)
        p.soft.paper { "Other processes and tables are folded in the page: what is opened there is printed too." }
    }
}

/// A part of each process: that of the first, and the others folded, which keeps the page and its print short.
fn of_each(all: &[&Census], mut part: impl FnMut(&Census) -> Markup) -> Markup {
    let parts = all.iter().map(|census| (census.process, part(census)));
    let parts: Vec<(u32, Markup)> = parts.filter(|(_, part)| !part.0.is_empty()).collect();
    markup! {
        @for (number, (process, part)) in parts.iter().enumerate() {
            @if number == 0 { (part) } @else { details.fold { summary { "Process " (process) } (part) } }
        }
    }
}

/// The Rubies that could not be read, with the reasons.
fn denied(refused: &[(u32, String)]) -> Markup {
    markup! {
        @if !refused.is_empty() {
            section #denied {
                h2 { "Not read from outside" }
                ul.warn { @for (process, reason) in refused.iter().take(REASONS) {
                    li { "Process " (process) ": " (one_line(reason)) }
                } }
                @if refused.len() > REASONS { p.soft { "and " (refused.len() - REASONS) " more" } }
            }
        }
    }
}

fn unshared(tables: &[UnsharedTable]) -> Markup {
    markup! {
        section #unshared {
            h2 { "Why memory is no longer shared" }
            p.soft { "Every private page of a forked process, compared with the parent's page at the same address. A page with several causes is divided among them. Touches: pages on which the cause occurs; alone: pages that would still be shared without it." }
            @for table in tables {
                h3 { "Process " (table.child) ", forked by " (table.parent) }
                (elements::table(&unshared_text::causes(table)))
                details { summary { "By area" } (elements::table(&areas(table))) }
            }
        }
    }
}

fn areas(table: &UnsharedTable) -> FactTable {
    let rows = table.areas.iter().map(|area| {
        let sizes = [area.shared_bytes, area.new_bytes, area.unshared_bytes];
        Cell::row(area_words(area.area), sizes.map(|bytes| Cell::bytes(Bytes(bytes))))
    });
    FactTable::new("Areas").name("area").numbers(["shared", "new", "unshared"]).rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unshared_text::tests::example;

    #[test]
    fn without_a_reading_the_page_has_no_section_of_it_and_a_denied_one_is_named() {
        let mut gallery = Gallery::default();
        assert_eq!(sections(None, &mut gallery).into_string(), "");
        let refused = OutsideReading {
            refused: vec![(1, "permission denied".into())],
            ..OutsideReading::default()
        };
        let page = sections(Some(&refused), &mut gallery).into_string();
        assert!(page.contains("Process 1: permission denied"), "{page}");
    }

    #[test]
    fn only_the_part_of_the_first_process_that_has_one_is_not_folded() {
        let all = [1, 2, 3].map(|process| Census { process, ..Census::default() });
        let all: Vec<&Census> = all.iter().collect();
        let part = |census: &Census| markup! { @if census.process > 1 { h3 { (census.process) } } };
        let text = of_each(&all, part).into_string();
        let folded = "<details class=\"fold\"><summary>Process 3</summary><h3>3</h3></details>";
        assert_eq!(text, format!("<h3>2</h3>{folded}"));
    }

    #[test]
    fn the_table_of_causes_names_what_helps() {
        let reading = OutsideReading {
            processes: vec![Census::default()],
            unshared: vec![example()],
            ..OutsideReading::default()
        };
        let text = sections(Some(&reading), &mut Gallery::default()).into_string();
        assert!(text.contains("Process 11, forked by 10"), "{text}");
        assert!(text.contains("6.00 MB") && text.contains("prepare_fork"), "{text}");
    }
}
