//! Who holds the memory of a process: a treemap and its table.

use crate::census_text::{by_bytes, class_bytes};
use crate::chart::Caption;
use crate::chart::treemap::{TreemapBox, treemap};
use crate::malloc_text::holder_name;
use crate::numbers::{grouped, grouped_count};
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Bytes, Unit};
use carat_outside::census::Census;
use carat_outside::heap::ClassCount;
use carat_outside::owners::{HolderAmount, HolderKind};
use maud::{Markup, html as markup};

/// Classes and other holders with a box or a row of their own.
const SHOWN: usize = 40;

/// Treemap and table of one process; empty if its classes are unknown.
pub(super) fn section(census: &Census, gallery: &mut Gallery) -> Markup {
    let Some(classes) = census.classes.as_ref().filter(|classes| !classes.is_empty()) else {
        return markup! {};
    };
    let id = format!("holders-{}", census.process);
    let title = format!("Who holds the memory of process {}", census.process);
    let description = "Areas are bytes of slots and of malloc; the table below has the numbers.";
    let picture = treemap(&boxes(census, classes), Caption::new(id, &title, description));
    let with_malloc = classes.iter().any(|class| class.malloc_bytes.is_some());
    markup! {
        figure {
            h3 { (title) }
            figcaption {
                "A class counts with its slots"
                @if with_malloc { " and with the memory of malloc that its objects hold" }
                ". Pale grey is free. Point at a box to read it."
            }
            (gallery.show(picture))
        }
        details.fold { summary { "Numbers" } (table(&class_table(classes))) }
    }
}

fn boxes(census: &Census, classes: &[ClassCount]) -> Vec<TreemapBox> {
    let mut boxes = with_rest(by_bytes(classes).into_iter().map(class_box), "classes");
    match (&census.owners, &census.malloc) {
        (Some(owners), _) => {
            // Classes have boxes of their own, with their malloc inside.
            let others = owners.holders.iter().filter(|holder| !of_a_class(holder, classes));
            boxes.extend(with_rest(others.map(holder_box), "holders"));
            let detail = format!(", {}", grouped_count(owners.nobody.chunks, "chunk"));
            let nobody = TreemapBox::new("held by nobody", 6, owners.nobody.present as f64);
            boxes.push(TreemapBox { detail, ..nobody });
        }
        (None, Some(malloc)) => {
            let detail = "; `--owners` tells by whom".into();
            let size = malloc.total().in_use.present + malloc.mapped.amount.present;
            boxes.push(TreemapBox { detail, ..TreemapBox::new("malloc in use", 2, size as f64) });
        }
        (None, None) => {}
    }
    let free_slots = census.heap.as_ref().map(|heap| heap.free_bytes);
    let free_malloc = census.malloc.as_ref().map(|malloc| malloc.total().free_bytes());
    for (label, bytes) in [("free slots", free_slots), ("free in malloc", free_malloc)] {
        let size = bytes.unwrap_or_default() as f64;
        boxes.push(TreemapBox::new(label, 0, size));
    }
    boxes
}

/// The first boxes, and the rest as one box, so that areas add up to all memory.
fn with_rest(boxes: impl Iterator<Item = TreemapBox>, what: &str) -> Vec<TreemapBox> {
    let mut boxes: Vec<TreemapBox> = boxes.collect();
    let rest = boxes.split_off(SHOWN.min(boxes.len()));
    if !rest.is_empty() {
        let size = rest.iter().map(|one| one.size).sum();
        boxes.push(TreemapBox::new(format!("{} more {what}", rest.len()), 1, size));
    }
    boxes
}

/// Whether the bytes of a holder are already those of a class in the list.
fn of_a_class(holder: &HolderAmount, classes: &[ClassCount]) -> bool {
    let same = |class: &ClassCount| class.malloc_bytes.is_some() && class.name == holder.name;
    holder.kind == HolderKind::Class || classes.iter().any(same)
}

fn class_box(class: &ClassCount) -> TreemapBox {
    let malloc = class.malloc_bytes.map(|bytes| format!(", {} of it in malloc", Bytes(bytes)));
    TreemapBox {
        label: one_line(&class.name),
        detail: format!(
            ", {}{}",
            grouped_count(class.objects, "object"),
            malloc.unwrap_or_default()
        ),
        class: if class.name.starts_with("(internal)") { 5 } else { 1 },
        size: class_bytes(class) as f64,
    }
}

fn holder_box(holder: &HolderAmount) -> TreemapBox {
    TreemapBox {
        label: holder_name(holder),
        detail: format!(", {}", grouped_count(holder.amount.chunks, "chunk")),
        class: match holder.kind {
            HolderKind::Library => 3,
            HolderKind::Thread => 7,
            HolderKind::Bytecode
            | HolderKind::Internal
            | HolderKind::Collector
            | HolderKind::Jit => 5,
            _ => 4,
        },
        size: holder.amount.present as f64,
    }
}

fn class_table(classes: &[ClassCount]) -> FactTable {
    let rows = by_bytes(classes).into_iter().take(SHOWN).map(|class| {
        let old = class.old.map(|old| old as f64 / class.objects.max(1) as f64);
        vec![
            Cell::text(&class.name),
            Cell::text(grouped(class.objects)),
            Cell::bytes(Bytes(class.slot_bytes)),
            Cell::bytes(class.malloc_bytes.map(Bytes)),
            Cell::amount(Unit::Fraction, old),
        ]
    });
    FactTable::new("Classes")
        .name("class")
        .numbers(["objects", "slots", "malloc", "old"])
        .rows(rows)
}
