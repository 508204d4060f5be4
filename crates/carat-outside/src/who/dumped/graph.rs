//! The references of a dump, and the names of its classes.

use super::line::{DumpLine, address};
use super::objects::{DumpObject, DumpObjects, NO_LENGTH};
use crate::hash::AddressMap;
use crate::heap::{ClassId, SlotType};
use crate::number_set::NumberSet;
use crate::printable::printable;
use crate::reach::record::Lists;
use crate::who::data::{Holder, KeeperKind, Way, WayLink, WayRoot, WayStep};
use crate::who::dominators::References;
use crate::who::subject::WhoSubject;
use crate::who::traced::{STEPS, TracedWay, is_end};
use crate::who::ways::{NodeKinds, Ways};
use std::collections::HashMap;
use std::ops::Range;

/// A node without a list.
const NONE: u32 = u32::MAX;
/// Different names of references; more have none.
const NAMES: usize = 1 << 20;
/// References of a class, and of another object, among which one is searched for each object that it keeps, at most.
const OF_CLASS: usize = 4096;
const OF_OTHERS: usize = 130;
/// Superclasses that are followed to one with a name.
const CHAIN: usize = 300;

/// The references of a dump. Nodes are objects in the order of addresses, then roots.
pub(super) struct DumpGraph {
    pub(super) objects: DumpObjects,
    roots: Vec<String>,
    /// The roots whose lines came so far in the second reading.
    next_root: u32,
    starts: Vec<u32>,
    /// For each list its length and then its nodes.
    targets: Vec<u32>,
    /// The name of each target, where references have names.
    labels: Vec<u32>,
    label_numbers: HashMap<String, u32>,
    label_names: Vec<String>,
    /// References to objects that are not there.
    pub(super) unknown: u64,
    reached: NumberSet,
}

impl DumpGraph {
    /// Bytes of memory for so many objects and references.
    pub(super) const fn bytes(objects: u64, references: u64, names: bool) -> u64 {
        let each = if names { 8 } else { 4 };
        // The class of each object is a reference too.
        let lists = objects.saturating_mul(3).saturating_add(references);
        lists.saturating_mul(each).saturating_add(objects.saturating_mul(4))
    }

    pub(super) fn new(objects: DumpObjects, roots: Vec<String>) -> Option<Self> {
        let nodes = objects.list.len() + roots.len();
        let words = objects.references as usize + nodes * 2;
        // Of the numbers of nodes a bit is left for other purposes.
        (words < NONE as usize && nodes + 1 < NONE as usize >> 1).then_some(())?;
        let labels = if objects.has_names { words } else { 0 };
        Some(Self {
            starts: vec![NONE; nodes],
            targets: Vec::with_capacity(words),
            labels: Vec::with_capacity(labels),
            label_numbers: HashMap::new(),
            label_names: vec![String::new()],
            unknown: 0,
            next_root: 0,
            reached: NumberSet::new(objects.list.len()),
            objects,
            roots,
        })
    }

    /// Adds the references of a line. False if there are more than in the first reading.
    pub(super) fn add(&mut self, line: DumpLine<'_>) -> bool {
        let first_root = self.objects.list.len() as u32;
        let node = match &line.root {
            Some(_) => {
                let node = first_root + self.next_root;
                self.next_root += 1;
                ((node as usize) < self.starts.len()).then_some(node)
            }
            None => {
                line.address.as_deref().and_then(address).and_then(|at| self.objects.number(at))
            }
        };
        let Some(node) = node.filter(|node| self.starts[*node as usize] == NONE) else {
            return true;
        };
        let class = self.objects.list.get(node as usize).map_or(0, |object| object.class);
        if self.targets.len() + line.references.0.len() + 2 > self.targets.capacity() {
            return false;
        }
        let start = self.targets.len();
        self.targets.push(0);
        let mut names = line.reference_names.unwrap_or_default().into_iter();
        let has_names = self.objects.has_names;
        self.labels.extend(has_names.then_some(0));
        for to in line.references.0.iter().copied() {
            let name = names.next().flatten();
            self.target(node, to, name);
        }
        if class != 0 && !line.references.0.contains(&class) {
            self.target(node, class, None);
        }
        self.targets[start] = (self.targets.len() - start - 1) as u32;
        self.starts[node as usize] = start as u32;
        true
    }

    fn target(&mut self, node: u32, to: u64, name: Option<String>) {
        match self.objects.number(to) {
            Some(target) if target != node => {
                self.targets.push(target);
                if self.objects.has_names {
                    let label = name.map_or(0, |name| self.label(name));
                    self.labels.push(label);
                }
            }
            Some(_) => {}
            // A dump that was cut, or written while objects were made, refers to objects that it does not have.
            None => self.unknown += 1,
        }
    }

    fn label(&mut self, name: String) -> u32 {
        if let Some(known) = self.label_numbers.get(&name) {
            return *known;
        }
        // Otherwise a dump with a name of its own for every reference would fill our memory.
        if self.label_names.len() >= NAMES {
            return 0;
        }
        let number = self.label_names.len() as u32;
        self.label_names.push(name.clone());
        self.label_numbers.insert(name, number);
        number
    }

    /// Finds what the roots lead to, after the last line.
    pub(super) fn finish(&mut self) {
        // A list of what waits instead of recursion, which a long chain of objects would overflow.
        let mut waiting: Vec<u32> = self.roots().collect();
        while let Some(node) = waiting.pop() {
            let start = self.starts[node as usize] as usize;
            let length = self.targets.get(start).copied().unwrap_or(0) as usize;
            for at in start + 1..start.saturating_add(1 + length).min(self.targets.len()) {
                let target = self.targets[at];
                if self.reached.insert(target as usize) {
                    waiting.push(target);
                }
            }
        }
    }

    fn roots(&self) -> Range<u32> {
        self.objects.list.len() as u32..self.starts.len() as u32
    }

    pub(super) fn has_no_roots(&self) -> bool {
        self.roots.is_empty()
    }

    pub(super) fn has_names(&self) -> bool {
        self.objects.has_names
    }

    pub(super) fn references(&self) -> u64 {
        (self.targets.len() - self.starts.iter().filter(|start| **start != NONE).count()) as u64
    }

    pub(super) fn is_reached(&self, node: u32) -> bool {
        self.reached.contains(node as usize)
    }

    pub(super) fn reached_objects(&self) -> u64 {
        (0..self.objects.list.len()).filter(|node| self.reached.contains(*node)).count() as u64
    }

    /// The node of the class `Object`.
    pub(super) fn object_class(&self) -> Option<u32> {
        let mut found = self.objects.list.iter().enumerate().filter(|(_, object)| {
            let class = self.objects.classes.get(&object.address);
            class
                .is_some_and(|class| !class.is_singleton && class.name.as_deref() == Some("Object"))
        });
        // Ways begin at what the roots lead to.
        let found = found.next().map(|(number, _)| number as u32);
        found.filter(|node| self.is_reached(*node))
    }

    pub(super) fn subject<'a>(&'a self, names: &'a DumpNames) -> DumpSubject<'a> {
        DumpSubject { graph: self, names }
    }

    fn list(&self, node: u32) -> (usize, usize) {
        let start = self.starts.get(node as usize).copied().unwrap_or(NONE) as usize;
        let length = self.targets.get(start).copied().unwrap_or(0) as usize;
        (start.saturating_add(1), length)
    }

    /// The name of the reference from one node to another.
    fn label_between(&self, from: u32, to: u32) -> Option<&str> {
        let (start, length) = self.list(from);
        let kind = self.objects.list.get(from as usize).map(|object| SlotType(object.kind));
        let is_class = matches!(kind, Some(SlotType::CLASS | SlotType::MODULE));
        // In a long list the search would take longer than a name is worth.
        if length > if is_class { OF_CLASS } else { OF_OTHERS } {
            return None;
        }
        let targets = self.targets.get(start..start + length)?;
        let at = targets.iter().position(|target| *target == to)?;
        let label = *self.labels.get(start + at)? as usize;
        self.label_names.get(label).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// The names of the classes of a dump, each with a number.
pub(super) struct DumpNames {
    pub(super) list: Vec<String>,
    by_class: AddressMap<ClassId>,
    /// Numbers of what has no class, by type and kind.
    by_kind: HashMap<(u8, u16), ClassId>,
}

impl DumpNames {
    pub(super) fn of(objects: &DumpObjects) -> Self {
        let mut names =
            Self { list: Vec::new(), by_class: AddressMap::default(), by_kind: HashMap::new() };
        let mut numbers = HashMap::new();
        for object in &objects.list {
            let known = match object.class {
                0 => names.by_kind.contains_key(&(object.kind, object.internal)),
                class => names.by_class.contains_key(&class),
            };
            if known {
                continue;
            }
            let name = match object.class {
                0 => internal_name(objects, object),
                class => class_name(objects, class),
            };
            // Classes with equal names count as one, as in a running process.
            let next = ClassId(numbers.len() as u32);
            let id = *numbers.entry(name.clone()).or_insert(next);
            if id == next {
                names.list.push(name);
            }
            match object.class {
                0 => drop(names.by_kind.insert((object.kind, object.internal), id)),
                class => drop(names.by_class.insert(class, id)),
            }
        }
        names
    }

    /// The class of an object.
    pub(super) fn of_object(&self, object: &DumpObject) -> ClassId {
        let found = match object.class {
            0 => self.by_kind.get(&(object.kind, object.internal)),
            class => self.by_class.get(&class),
        };
        found.copied().unwrap_or(ClassId(u32::MAX))
    }

    fn name(&self, id: ClassId) -> &str {
        self.list.get(id.index()).map_or("(unresolved)", String::as_str)
    }
}

/// The name of what has no class.
fn internal_name(objects: &DumpObjects, object: &DumpObject) -> String {
    let kind = SlotType(object.kind);
    match kind {
        SlotType::IMEMO => {
            let kind = objects.internal.get(object.internal as usize).map_or("", String::as_str);
            format!("(internal) imemo {}", printable(kind))
        }
        SlotType::ICLASS => "(internal) iclass".to_owned(),
        _ => format!("(internal) {}", kind.name().unwrap_or("of an unknown type")),
    }
}

/// The name under which the objects of a class count: its own, or that of the nearest ancestor with a name.
fn class_name(objects: &DumpObjects, class: u64) -> String {
    let mut at = class;
    let mut anonymous = false;
    // A file can say anything, also that a class is its own superclass.
    for _ in 0..CHAIN {
        let Some(found) = objects.classes.get(&at) else { break };
        match &found.name {
            Some(name) if anonymous => return format!("(anonymous < {})", printable(name)),
            Some(name) => return printable(name),
            None => anonymous |= !found.is_singleton,
        }
        at = found.superclass;
    }
    "(unresolved)".to_owned()
}

/// A dump as a graph that is searched.
pub(super) struct DumpSubject<'a> {
    graph: &'a DumpGraph,
    names: &'a DumpNames,
}

impl DumpSubject<'_> {
    fn object(&self, node: u32) -> Option<&DumpObject> {
        self.graph.objects.list.get(node as usize)
    }

    /// Which references an internal object of Ruby's is a part of its owner for.
    fn is_fields(&self, object: &DumpObject) -> bool {
        let kind = self.graph.objects.internal.get(object.internal as usize);
        object.kind == SlotType::IMEMO.0 && kind.is_some_and(|kind| kind == "fields")
    }
}

impl References for DumpSubject<'_> {
    fn roots(&self) -> Range<u32> {
        self.graph.roots()
    }

    fn lists(&self) -> Lists<'_> {
        Lists { starts: &self.graph.starts, targets: &self.graph.targets }
    }
}

impl NodeKinds for DumpSubject<'_> {
    fn slot_type(&self, node: u32) -> Option<SlotType> {
        self.object(node).map(|object| SlotType(object.kind))
    }

    fn root_cost(&self, root: u32) -> u32 {
        // The cheaper, the more a root says: an old word on a stack must not win over a named variable.
        let number = root.saturating_sub(self.graph.roots().start) as usize;
        match self.graph.roots.get(number).map(String::as_str) {
            Some("machine_context") => 30,
            Some(name) if name.contains("stack of") || name == "other memory" => 60,
            Some(name) if name.starts_with("ruby_current_execution_context_ptr") => 60,
            Some(name) if name.starts_with("static data") || name == "vm" => 6,
            _ => 3,
        }
    }
}

impl WhoSubject for DumpSubject<'_> {
    fn objects(&self) -> u32 {
        self.graph.objects.list.len() as u32
    }

    fn bytes(&self, node: u32) -> u64 {
        self.object(node).map_or(0, |object| object.bytes)
    }

    fn is_old(&self, node: u32) -> bool {
        self.object(node).is_some_and(|object| object.is_old)
    }

    fn is_reached(&self, node: u32) -> bool {
        self.graph.is_reached(node)
    }

    fn class_id(&self, node: u32) -> Option<ClassId> {
        self.object(node).map(|object| self.names.of_object(object))
    }

    fn classes(&self) -> usize {
        self.names.list.len()
    }

    fn class_name(&self, class: ClassId) -> String {
        self.names.name(class).to_owned()
    }

    fn is_step(&self, node: u32) -> bool {
        self.object(node).is_some_and(|object| !self.is_fields(object))
    }

    fn is_known(&self, _node: u32) -> bool {
        false
    }

    fn is_main(&self, _node: u32) -> bool {
        false
    }

    fn common_link(&self, from: u32, between: &[u32], to: u32) -> WayLink {
        let (Some(object), Some(target)) = (self.object(from), self.object(to)) else {
            return WayLink::Unnamed;
        };
        if between.is_empty() && object.class == target.address && object.class != 0 {
            return WayLink::Class;
        }
        if SlotType(object.kind) == SlotType::ARRAY {
            return WayLink::Element(None);
        }
        let next = between.first().copied().unwrap_or(to);
        self.graph.label_between(from, next).map_or(WayLink::Unnamed, named_link)
    }

    fn describe(&self, node: u32, in_full: bool) -> Holder {
        let Some(object) = self.object(node) else { return Holder::default() };
        let kind = SlotType(object.kind);
        let name = self.names.name(self.names.of_object(object)).to_owned();
        let length = (object.length != NO_LENGTH && in_full).then_some(u64::from(object.length));
        let code = self.graph.objects.code(object.address);
        let holder = Holder { name, length, code, ..Holder::default() };
        match kind {
            SlotType::CLASS | SlotType::MODULE => {
                let class = self.graph.objects.classes.get(&object.address);
                let is_singleton = class.is_some_and(|class| class.is_singleton);
                let kind = if is_singleton { KeeperKind::Singleton } else { KeeperKind::Class };
                let name = class_name(&self.graph.objects, object.address);
                Holder { kind, name, ..Holder::default() }
            }
            SlotType::ICLASS => {
                let name = class_name(&self.graph.objects, object.class);
                Holder { kind: KeeperKind::Included, name, ..Holder::default() }
            }
            SlotType::IMEMO => {
                let name = self.graph.objects.internal.get(object.internal as usize);
                let name = name.map_or("object", String::as_str);
                let kind = match name {
                    "env" => KeeperKind::Variables,
                    "iseq" => KeeperKind::Code,
                    _ => KeeperKind::Internal,
                };
                Holder { kind, name: printable(name), ..holder }
            }
            SlotType::ARRAY if object.class == 0 => Holder { name: "Array".into(), ..holder },
            SlotType::HASH if object.class == 0 => Holder { name: "Hash".into(), ..holder },
            SlotType::STRING if object.class == 0 => Holder { name: "String".into(), ..holder },
            _ => holder,
        }
    }

    fn trace(&self, ways: &Ways, node: u32) -> Option<TracedWay> {
        let mut way = Way { object: self.describe(node, true), ..Way::default() };
        let mut at = node;
        while let Some(before) = self.before(ways, at) {
            let Some(object) = before.object else {
                way.root = before.root.and_then(|root| self.place_of_root(root));
                break;
            };
            let (link, of) =
                (self.common_link(object, &before.between, at), self.describe(object, true));
            let ends = is_end(&of, &link);
            way.steps.push(WayStep { link, of });
            if ends || way.steps.len() >= STEPS {
                break;
            }
            at = object;
        }
        Some(TracedWay { way, ..TracedWay::default() })
    }

    fn as_root(&self, _node: u32) -> Option<WayRoot> {
        None
    }

    fn as_root_of(&self, _keeper: u32, _between: &[u32], _object: u32) -> Option<WayRoot> {
        None
    }

    fn may_name_root(&self, _between: &[u32]) -> bool {
        false
    }

    fn named_root_of(&self, _between: &[u32], _object: u32) -> Option<WayRoot> {
        None
    }

    fn place_of_root(&self, root: u32) -> Option<WayRoot> {
        let name = self.graph.roots.get(root.checked_sub(self.graph.roots().start)? as usize)?;
        Some(named_root(name))
    }
}

/// The root with a name in a dump.
fn named_root(name: &str) -> WayRoot {
    match name {
        "vm" => WayRoot::Vm,
        "finalizers" => WayRoot::Finalizer,
        "other memory" => WayRoot::OtherMemory,
        name => match name.strip_prefix("global variable ") {
            Some(global) => WayRoot::Global { name: printable(global) },
            None => WayRoot::Named { name: printable(name) },
        },
    }
}

/// The link with a name in a dump of `carat heap-dump`.
fn named_link(name: &str) -> WayLink {
    if let Some(symbol) = name.strip_prefix("[:").and_then(|name| name.strip_suffix(']')) {
        return WayLink::Symbol(printable(symbol));
    }
    if let Some(name) = name.strip_prefix("captured ") {
        return WayLink::Captured(printable(name));
    }
    if let Some(name) = name.strip_prefix("method ") {
        return WayLink::Method(printable(name));
    }
    if let Some(name) = name.strip_prefix('.') {
        return WayLink::Member(printable(name));
    }
    match name.starts_with('@') {
        true => WayLink::Variable(printable(name)),
        false => WayLink::Constant(printable(name)),
    }
}
