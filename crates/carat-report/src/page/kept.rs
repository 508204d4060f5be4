//! Who keeps the memory of a process, by name: an icicle of what leads to it, closer pictures of the largest holders, and tables.

use crate::chart::{Caption, IcicleBox, IcicleShape, icicle};
use crate::holders_text::path_text;
use crate::lists::largest_first;
use crate::numbers::{beyond, grouped, grouped_count, percent_of};
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Bytes, Unit};
use carat_outside::census::Census;
use carat_outside::who::{KeeperKind, KeptAmount, KeptBy, KeptTree, WayRoot, WhoCensus};
use maud::{Markup, html as markup};
use std::cmp::Reverse;
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

/// What is kept, as it is drawn.
struct KeptPicture<'a> {
    tree: &'a KeptTree,
    /// What is directly below each node, the largest first.
    below: HashMap<usize, Vec<usize>>,
    /// Where ways begin, by holder, the largest first.
    tops: Vec<Top>,
}

/// Pictures and tables of one process; empty if it was not asked who keeps what.
pub(super) fn section(census: &Census, gallery: &mut Gallery) -> Markup {
    let Some(who) = &census.who else { return markup! {} };
    let Some(tree) = who.kept.as_ref().filter(|tree| !tree.nodes.is_empty()) else {
        return markup! {};
    };
    // Sorted once: both are needed for the whole and again for each closer picture.
    let kept = KeptPicture { tree, below: below(tree), tops: tops(tree) };
    let title = format!("Who keeps the memory of process {}", census.process);
    let id = format!("kept-{}", census.process);
    let description = "Heights are bytes; the tables below have the numbers.";
    let picture = icicle(&kept.whole(), &WHOLE, Caption::new(&id, &title, description));
    let holders = kept.tops.iter().map(|top| (top.label.clone(), top.amount));
    let closer = kept.tops.iter().filter(|top| kept.is_worth_a_look(top)).take(CLOSER).enumerate();
    markup! {
        figure {
            h3 { (title) }
            figcaption {
                (match who.slots_only {
                    true => "What roots were found to lead to, in slots alone, because malloc was not read",
                    false => "What roots lead to, in slots and in malloc",
                })
                ": by holder, and from there step by step. Every object counts once, on the way \
                that says most; something else may keep it too. Point at a box to read it; the largest holders have a closer picture below."
            }
            (gallery.show(picture))
        }
        (sole_holders(who))
        details.fold { summary { "Numbers" } (kept.amounts("Holders", "holder", holders.collect())) }
        @for (number, top) in closer { (kept.closer(top, format!("{id}-{number}"), gallery)) }
    }
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
        list.sort_by_key(|number| Reverse(tree.nodes[*number].all.bytes));
    }
    below
}

/// Where ways begin, by holder, the largest first.
fn tops(tree: &KeptTree) -> Vec<Top> {
    let mut tops: Vec<Top> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (number, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.above.is_none()) {
        // By its words: two ways of one holder begin at different nodes and are one box.
        let label = holder(&node.by);
        let place = *places.entry(label.clone()).or_insert_with(|| {
            let class = colour(&node.by);
            tops.push(Top { label, class, amount: KeptAmount::default(), nodes: Vec::new() });
            tops.len() - 1
        });
        tops[place].amount = tops[place].amount.plus(node.all);
        tops[place].nodes.push(number);
    }
    // By their bytes, because boxes beyond a number become one.
    for top in &mut tops {
        top.nodes.sort_by_key(|number| Reverse(tree.nodes[*number].all.bytes));
    }
    largest_first(tops, |top| top.amount.bytes)
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

impl KeptPicture<'_> {
    fn share(&self, amount: KeptAmount) -> f64 {
        amount.bytes as f64 / self.tree.all.bytes.max(1) as f64
    }

    /// Whether a closer picture of a holder shows what the first one cannot.
    fn is_worth_a_look(&self, top: &Top) -> bool {
        let mut nodes = top.nodes.iter();
        // A holder of a single box would be drawn once more as the same box.
        let has_parts = top.nodes.len() > 1 || nodes.any(|node| self.below.contains_key(node));
        has_parts && self.share(top.amount) >= CLOSER_SHARE
    }

    fn words(&self, amount: KeptAmount) -> String {
        let share = percent_of(amount.bytes as f64, Bytes(self.tree.all.bytes), 1);
        format!("{share}, in {}", grouped_count(amount.objects, "object"))
    }

    /// The way from a node to its root.
    fn way(&self, number: usize) -> String {
        let path: Vec<KeptBy> = self.tree.path(number).into_iter().cloned().collect();
        one_line(&path_text(&path))
    }

    fn whole(&self) -> IcicleBox {
        let all = self.tree.all.bytes;
        let inner = with_rest(self.tops.iter().map(|top| self.top_box(top)).collect(), all);
        IcicleBox::new("all", all as f64, inner)
    }

    fn top_box(&self, top: &Top) -> IcicleBox {
        let inner = top.nodes.iter().map(|number| self.node_box(*number, (top.class, DEPTH)));
        IcicleBox {
            label: top.label.clone(),
            class: top.class,
            size: top.amount.bytes as f64,
            inner: with_rest(inner.collect(), top.amount.bytes),
            hover: format!("{}: {}", top.label, self.words(top.amount)),
        }
    }

    fn node_box(&self, number: usize, (class, depth): (usize, usize)) -> IcicleBox {
        let node = &self.tree.nodes[number];
        // A way can have hundreds of steps, and boxes deeper than these are too thin to be read.
        let inner = self.below.get(&number).filter(|_| depth > 1).into_iter().flatten();
        let inner = inner.map(|inner| self.node_box(*inner, (class, depth - 1)));
        let what = node.classes.first();
        let what = what.map_or_else(String::new, |class| one_line(&class.name) + " ← ");
        IcicleBox {
            label: format!("{what}{}", link(&node.by)),
            class,
            size: node.all.bytes as f64,
            inner: inner.collect(),
            hover: format!("{what}{}: {}", self.way(number), self.words(node.all)),
        }
    }

    /// A table of the largest rows, which are sorted by size.
    fn amounts(&self, label: &str, head: &str, all: Vec<(String, KeptAmount)>) -> Markup {
        // The rows are sorted, so behind the first small one all are small.
        let large = all.iter().take_while(|(_, amount)| self.share(*amount) >= ROW_SHARE).count();
        let shown = large.clamp(FIRST_ROWS, ROWS);
        let counted = |count: u64| Cell::shown(count as f64, |_| grouped(count));
        let rows = all.iter().take(shown).map(|(name, amount)| {
            let size = Cell::bytes(Bytes(amount.bytes));
            let share = Cell::amount(Unit::Fraction, self.share(*amount));
            let objects = [amount.objects, amount.old_objects].map(counted);
            Cell::row(name, [size, share].into_iter().chain(objects))
        });
        let amounts = FactTable::new(label).long_texts([head]);
        markup! {
            (table(&amounts.numbers(["size", "share", "objects", "old"]).rows(rows)))
            @if let Some(more) = beyond(all.len(), shown, "smaller one") { p { (more) " not listed" } }
        }
    }

    /// One holder in a picture of its own.
    fn closer(&self, top: &Top, id: String, gallery: &mut Gallery) -> Markup {
        let title = format!("What {} keeps", top.label);
        let description = "Heights are bytes; the table has the numbers.";
        let caption = Caption::new(format!("{id}-picture"), &title, description);
        let picture = icicle(&self.top_box(top), &CLOSE, caption);
        let mut nodes: Vec<usize> = Vec::new();
        let mut waiting = top.nodes.clone();
        // With a list and not by calls: a file that somebody else made may be deeper than the stack.
        while let Some(number) = waiting.pop() {
            nodes.push(number);
            waiting.extend(self.below.get(&number).into_iter().flatten());
        }
        nodes.sort_by_key(|number| (Reverse(self.tree.nodes[*number].all.bytes), *number));
        let rows = nodes.into_iter().map(|number| (self.way(number), self.tree.nodes[number].all));
        markup! {
            details.fold {
                summary { (top.label) ": " (self.words(top.amount)) }
                figure id=(id) { (gallery.show(picture)) (self.amounts(&title, "kept by", rows.collect())) }
            }
        }
    }
}

/// One step, without what the box beside it says.
fn link(by: &KeptBy) -> String {
    let text = one_line(&by.to_string());
    match by {
        KeptBy::Step(step) => {
            // The box beside it is its holder and has that name already.
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
    // Of the whole and not of the boxes left out: small parts are not in the list at all.
    let rest = all as f64 - shown;
    if rest > 0.0 {
        let hover = format!("smaller parts: {}", Unit::Bytes.show(rest));
        boxes.push(IcicleBox { hover, ..IcicleBox::new("smaller parts", rest, Vec::new()) });
    }
    boxes
}

/// What would go without one object; empty if none keeps much.
fn sole_holders(who: &WhoCensus) -> Markup {
    let rows = who.holders.iter().map(|holder| {
        let (size, way) = (Cell::bytes(Bytes(holder.bytes)), Cell::text(holder.way.to_string()));
        vec![way, size, Cell::text(grouped(holder.objects))]
    });
    let shown = FactTable::new("What would go without one object");
    let shown =
        shown.long_texts(["object, and what keeps it"]).numbers(["size", "objects"]).rows(rows);
    markup! { @if !shown.rows.is_empty() { h3 { (shown.label) } (table(&shown)) } }
}
