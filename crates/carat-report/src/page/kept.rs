//! Who keeps the memory of a process, by name: an icicle of what leads to it, closer pictures of the largest holders, and tables.

use crate::chart::Caption;
use crate::chart::icicle::{IcicleBox, IcicleShape, icicle};
use crate::holders_text::path_text;
use crate::numbers::{grouped, grouped_count, percent_of};
use crate::page::elements::{scrollable, value_cell};
use crate::page::gallery::Gallery;
use crate::text::one_line;
use carat_model::{Bytes, Unit};
use carat_outside::census::Census;
use carat_outside::who::{
    KeeperKind, KeptAmount, KeptBy, KeptTree, SoleHolder, WayRoot, WhoCensus,
};
use maud::{Markup, html as markup};
use std::collections::HashMap;

/// Holders with a picture and a table of their own.
const CLOSER: usize = 6;
/// Boxes inside one box; the rest is one box.
const BOXES: usize = 24;
/// The share of all memory that a holder with a closer picture keeps, at least.
const CLOSER_SHARE: f64 = 0.02;
/// Rows of a table.
const ROWS: usize = 30;
/// Rows of less than this share of all memory are left out behind the first few.
const ROW_SHARE: f64 = 0.001;
const FIRST_ROWS: usize = 8;
/// Steps of a way that are drawn.
const DEPTH: usize = 5;

/// Everything that is kept, by holder and two steps.
const WHOLE: IcicleShape = IcicleShape { height: 460.0, edges: &[0.0, 70.0, 360.0, 680.0, 980.0] };
/// What one holder keeps.
const CLOSE: IcicleShape = IcicleShape { height: 320.0, edges: &[0.0, 200.0, 470.0, 740.0, 980.0] };

/// One holder with everything that begins there.
struct Top {
    label: String,
    class: usize,
    amount: KeptAmount,
    nodes: Vec<usize>,
}

/// Pictures and tables of one process; empty if it was not asked who keeps what.
pub(super) fn section(census: &Census, gallery: &mut Gallery) -> Markup {
    let Some(who) = &census.who else { return markup! {} };
    let Some(tree) = who.kept.as_ref().filter(|tree| !tree.nodes.is_empty()) else {
        return markup! {};
    };
    let below = below(tree);
    let tops = tops(tree);
    let process = census.process;
    let title = format!("Who keeps the memory of process {process}");
    let id = format!("kept-{process}");
    let whole = whole(tree, &tops, &below);
    let description = "Heights are bytes; the tables below have the numbers.";
    let picture = icicle(&whole, &WHOLE, &Caption { id: &id, title: &title, description });
    markup! {
        figure {
            h3 { (title) }
            figcaption {
                "What roots lead to, in slots and in malloc: by holder, and from there step by step. Every object counts once, on the way \
                that says most; something else may keep it too. Point at a box to read it; the largest holders have a closer picture below."
            }
            (gallery.show(picture))
        }
        (sole_holders(who))
        details { summary { "Numbers" } (top_table(tree, &tops)) }
        @for (number, top) in tops.iter().filter(|top| is_worth_a_look(tree, top, &below)).take(CLOSER).enumerate() {
            (closer(tree, top, &below, (&id, number), gallery))
        }
    }
}

/// Whether a closer picture of a holder shows what the first one cannot.
fn is_worth_a_look(tree: &KeptTree, top: &Top, below: &HashMap<usize, Vec<usize>>) -> bool {
    let has_parts = top.nodes.len() > 1 || top.nodes.iter().any(|node| below.contains_key(node));
    has_parts && share(top.amount, tree) >= CLOSER_SHARE
}

fn share(amount: KeptAmount, tree: &KeptTree) -> f64 {
    amount.bytes as f64 / tree.all.bytes.max(1) as f64
}

/// What is directly below each node, the largest first.
fn below(tree: &KeptTree) -> HashMap<usize, Vec<usize>> {
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, node) in tree.nodes.iter().enumerate() {
        // Above comes before, also in a file that somebody else made.
        if let Some(above) = node.above.map(|above| above as usize).filter(|above| *above < number)
        {
            below.entry(above).or_default().push(number);
        }
    }
    for list in below.values_mut() {
        list.sort_by_key(|number| std::cmp::Reverse(tree.nodes[*number].all.bytes));
    }
    below
}

/// Where ways begin, by holder, the largest first.
fn tops(tree: &KeptTree) -> Vec<Top> {
    let mut tops: Vec<Top> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (number, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.above.is_none()) {
        let label = holder(&node.by);
        let place = *places.entry(label.clone()).or_insert_with(|| {
            let class = colour(&node.by);
            tops.push(Top { label, class, amount: KeptAmount::default(), nodes: Vec::new() });
            tops.len() - 1
        });
        tops[place].amount = tops[place].amount.plus(node.all);
        tops[place].nodes.push(number);
    }
    for top in &mut tops {
        top.nodes.sort_by_key(|number| std::cmp::Reverse(tree.nodes[*number].all.bytes));
    }
    tops.sort_by_key(|top| std::cmp::Reverse(top.amount.bytes));
    tops
}

fn holder(by: &KeptBy) -> String {
    one_line(&match by {
        KeptBy::Step(step) => step.of.to_string(),
        KeptBy::Itself(holder) => holder.to_string(),
        KeptBy::Root(root) => root.to_string(),
    })
}

const fn colour(by: &KeptBy) -> usize {
    let of = match by {
        KeptBy::Step(step) => &step.of,
        KeptBy::Itself(holder) => holder,
        KeptBy::Root(WayRoot::Global { .. }) => return 4,
        KeptBy::Root(WayRoot::Symbol { .. } | WayRoot::StaticData { .. }) => return 3,
        KeptBy::Root(WayRoot::Frame { .. } | WayRoot::Stack { .. }) => return 2,
        KeptBy::Root(_) => return 0,
    };
    match of.kind {
        KeeperKind::Code | KeeperKind::Internal | KeeperKind::Variables => 5,
        KeeperKind::Object => 7,
        _ => 1,
    }
}

fn amount_words(amount: KeptAmount, all: KeptAmount) -> String {
    let share = percent_of(amount.bytes as f64, Bytes(all.bytes), 1);
    format!("{share}, in {}", grouped_count(amount.objects, "object"))
}

fn whole(tree: &KeptTree, tops: &[Top], below: &HashMap<usize, Vec<usize>>) -> IcicleBox {
    let boxes = tops.iter().map(|top| top_box(tree, top, below));
    let inner = with_rest(boxes.collect(), tree.all.bytes);
    let size = tree.all.bytes as f64;
    IcicleBox { label: "all".into(), size, inner, ..IcicleBox::default() }
}

fn top_box(tree: &KeptTree, top: &Top, below: &HashMap<usize, Vec<usize>>) -> IcicleBox {
    let inner = top.nodes.iter().map(|number| node_box(tree, *number, below, (top.class, DEPTH)));
    IcicleBox {
        label: top.label.clone(),
        class: top.class,
        size: top.amount.bytes as f64,
        inner: with_rest(inner.collect(), top.amount.bytes),
        hover: format!("{}: {}", top.label, amount_words(top.amount, tree.all)),
    }
}

fn node_box(
    tree: &KeptTree,
    number: usize,
    below: &HashMap<usize, Vec<usize>>,
    (class, depth): (usize, usize),
) -> IcicleBox {
    let node = &tree.nodes[number];
    let path: Vec<KeptBy> = tree.path(number).into_iter().cloned().collect();
    let inner = below.get(&number).filter(|_| depth > 1).into_iter().flatten();
    let inner = inner.map(|inner| node_box(tree, *inner, below, (class, depth - 1)));
    let what = node.classes.first().map_or_else(String::new, |class| one_line(&class.name) + " ← ");
    let words = amount_words(node.all, tree.all);
    IcicleBox {
        label: format!("{what}{}", link(&node.by)),
        class,
        size: node.all.bytes as f64,
        inner: inner.collect(),
        hover: format!("{what}{}: {words}", one_line(&path_text(&path))),
    }
}

/// One step, without what the box beside it says.
fn link(by: &KeptBy) -> String {
    let text = one_line(&by.to_string());
    match by {
        KeptBy::Step(step) => {
            let of = format!(" of {}", step.of);
            text.strip_suffix(of.as_str()).map(str::to_owned).unwrap_or(text)
        }
        KeptBy::Itself(_) => "itself".into(),
        KeptBy::Root(_) => "directly".into(),
    }
}

/// The largest boxes, and one for the rest of so many bytes.
fn with_rest(mut boxes: Vec<IcicleBox>, all: u64) -> Vec<IcicleBox> {
    boxes.truncate(BOXES);
    let shown: f64 = boxes.iter().map(|one| one.size).sum();
    let rest = all as f64 - shown;
    if rest > 0.0 {
        let hover = format!("smaller parts: {}", Unit::Bytes.show(rest));
        let label = "smaller parts".into();
        boxes.push(IcicleBox { label, size: rest, hover, ..IcicleBox::default() });
    }
    boxes
}

/// What would go without one object; empty if none keeps much.
fn sole_holders(who: &WhoCensus) -> Markup {
    let row = |holder: &SoleHolder| {
        markup! {
            tr {
                (value_cell(Unit::Bytes, Some(holder.bytes as f64)))
                td { (grouped(holder.objects)) }
                td.w { (one_line(&holder.way.to_string())) }
            }
        }
    };
    let table = markup! {
        table {
            caption { "What would go without one object" }
            thead { tr { th scope="col" { "size" } th scope="col" { "objects" } th.w scope="col" { "object, and what keeps it" } } }
            tbody { @for holder in &who.holders { (row(holder)) } }
        }
    };
    markup! { @if !who.holders.is_empty() { (scrollable("What would go without one object", &table)) } }
}

fn top_table(tree: &KeptTree, tops: &[Top]) -> Markup {
    let rows = tops.iter().map(|top| (top.label.clone(), top.amount));
    amounts("Holders", "holder", rows.collect(), tree)
}

/// A table of the largest rows, which are sorted by size.
fn amounts(label: &str, head: &str, rows: Vec<(String, KeptAmount)>, tree: &KeptTree) -> Markup {
    let all = rows.len();
    let large = rows.iter().take_while(|(_, amount)| share(*amount, tree) >= ROW_SHARE).count();
    let shown = large.clamp(FIRST_ROWS, ROWS);
    let table = markup! {
        table {
            thead { tr { th.w scope="col" { (head) } th scope="col" { "size" } th scope="col" { "share" } th scope="col" { "objects" } th scope="col" { "old" } } }
            tbody { @for (name, amount) in rows.into_iter().take(shown) { tr {
                th scope="row" { (name) }
                (value_cell(Unit::Bytes, Some(amount.bytes as f64)))
                (value_cell(Unit::Fraction, Some(share(amount, tree))))
                td data-v=(amount.objects) { (grouped(amount.objects)) }
                td data-v=(amount.old_objects) { (grouped(amount.old_objects)) }
            } } }
        }
    };
    markup! {
        (scrollable(label, &table))
        @if all > shown { p { (grouped_count((all - shown) as u64, "smaller one")) " not listed" } }
    }
}

/// One holder in a picture of its own.
fn closer(
    tree: &KeptTree,
    top: &Top,
    below: &HashMap<usize, Vec<usize>>,
    (id, number): (&str, usize),
    gallery: &mut Gallery,
) -> Markup {
    let id = format!("{id}-{number}");
    let picture_id = format!("{id}-picture");
    let title = format!("What {} keeps", top.label);
    let description = "Heights are bytes; the table has the numbers.";
    let caption = Caption { id: &picture_id, title: &title, description };
    let picture = icicle(&top_box(tree, top, below), &CLOSE, &caption);
    let mut rows: Vec<(usize, u64)> = Vec::new();
    let mut waiting = top.nodes.clone();
    while let Some(number) = waiting.pop() {
        rows.push((number, tree.nodes[number].all.bytes));
        waiting.extend(below.get(&number).into_iter().flatten());
    }
    rows.sort_by_key(|(number, bytes)| (std::cmp::Reverse(*bytes), *number));
    let rows = rows.into_iter().map(|(number, _)| {
        let path: Vec<KeptBy> = tree.path(number).into_iter().cloned().collect();
        (one_line(&path_text(&path)), tree.nodes[number].all)
    });
    let words = amount_words(top.amount, tree.all);
    markup! {
        details {
            summary { (top.label) ": " (words) }
            figure id=(id) { (gallery.show(picture)) (amounts(&title, "kept by", rows.collect(), tree)) }
        }
    }
}
