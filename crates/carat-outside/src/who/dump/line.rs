//! The line of one object.

use super::edges::{Edge, Edges};
use crate::elf::RubyAnchors;
use crate::hash::AddressMap;
use crate::heap::{SlotType, imemo_kind, string_bytes};
use crate::reach::fields::SlotView;
use crate::who::data::WayLink;
use crate::who::links::{Names, contents};
use carat_ruby::version::{OBJECT_FIELDS_OUTSIDE_BY_FLAG, SHAPES, SHARED_STRINGS_BY_FIRST_FLAG};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Flags of every object (`RUBY_FL_FREEZE`), and of strings and arrays (`RSTRING_NOEMBED`, `RARRAY_EMBED_FLAG`, `ELTS_SHARED`,
/// `RSTRING_FSTR`).
const FROZEN: u64 = 1 << 11;
const EMBED: u64 = 1 << 13;
const SHARED: u64 = 1 << 14;
/// The same of strings in later versions.
const SHARED_FIRST: u64 = 1 << 12;
const FSTRING: u64 = 1 << 29;
/// References of one object that are named, at most: a name is searched in the contents of the object.
const NAMED: usize = 2000;
/// Bytes of the name of a type of C structs.
const TYPE_NAME: u64 = 64;

/// Writes the lines of objects.
pub(super) struct ObjectLines<'a, 'n> {
    names: &'a Names<'n>,
    strings: bool,
    /// The object `Object`, for classes without a superclass.
    basic: Option<u64>,
    types: AddressMap<Option<String>>,
    line: String,
}

impl<'a, 'n> ObjectLines<'a, 'n> {
    pub(super) fn new(names: &'a Names<'n>, anchors: &RubyAnchors, strings: bool) -> Self {
        let basic = anchors.value(names.memory(), "rb_cBasicObject");
        Self { names, strings, basic, types: AddressMap::default(), line: String::new() }
    }

    /// Writes the line of the object of a slot, whose references were followed; returns their number.
    pub(super) fn write(
        &mut self,
        out: &mut dyn Write,
        view: &SlotView<'_>,
        (node, edges): (u32, &Edges<'_, '_>),
        memsize: u64,
    ) -> io::Result<u64> {
        self.line.clear();
        let kind = view.kind();
        let name = kind.name().unwrap_or("T_UNKNOWN");
        let name = name.strip_prefix("T_").unwrap_or(name);
        self.put(format_args!("{{\"address\":\"0x{:x}\", \"type\":\"{name}\"", view.address));
        let version = view.heap.version();
        if SHAPES.contains(version) && !OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(version) {
            self.put(format_args!(", \"shape_id\":{}", view.flags >> 32));
        }
        self.put(format_args!(", \"slot_size\":{}", view.bytes));
        let class = view.memory.word_at(view.address, 8).unwrap_or(0);
        let class = if kind.has_class() || kind == SlotType::ICLASS { class } else { 0 };
        if class != 0 {
            self.put(format_args!(", \"class\":\"0x{class:x}\""));
        }
        if view.flags & FROZEN != 0 && kind != SlotType::IMEMO {
            self.put(format_args!(", \"frozen\":true"));
        }
        self.of_type(view);
        self.code(view, node);
        let count = self.references(view, class, (node, edges));
        self.put(format_args!(", \"memsize\":{memsize}"));
        let head = self.names.nodes.head(node);
        if head.is_some_and(|head| head.old(version)) {
            self.put(format_args!(", \"flags\":{{\"old\":true}}"));
        }
        self.line.push_str("}\n");
        out.write_all(self.line.as_bytes())?;
        Ok(count)
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.line.write_fmt(text);
    }

    fn put_text(&mut self, key: &str, text: &str) {
        let text = serde_json::to_string(text).unwrap_or_default();
        self.put(format_args!(", \"{key}\":{text}"));
    }

    /// What only objects of this type have.
    fn of_type(&mut self, view: &SlotView<'_>) {
        match view.kind() {
            SlotType::STRING => self.string(view),
            SlotType::ARRAY => self.array(view),
            SlotType::HASH => {
                let entries = self.names.entries(view);
                self.put(format_args!(", \"size\":{entries}"));
            }
            SlotType::CLASS | SlotType::MODULE | SlotType::ICLASS => self.class(view),
            SlotType::OBJECT => {
                if view.flags & EMBED != 0 && self.is_in_slots(view) {
                    self.put(format_args!(", \"embedded\":true"));
                }
                if let Some((_, count)) = contents(view).filter(|_| self.counts_fields(view)) {
                    self.put(format_args!(", \"ivars\":{count}"));
                }
            }
            SlotType::DATA => {
                if let Some(name) = self.type_name(view) {
                    self.put_text("struct", &name);
                }
            }
            SlotType::IMEMO => {
                let kind = imemo_kind(view.flags, view.heap.version()).unwrap_or("unknown");
                self.put(format_args!(", \"imemo_type\":\"{kind}\""));
            }
            SlotType::SYMBOL if self.strings => {
                let symbols = self.names.symbols.as_ref();
                if let Some(name) = symbols.and_then(|symbols| symbols.symbol(view.address)) {
                    self.put_text("value", &name);
                }
            }
            _ => {}
        }
    }

    /// The place of a block, of what it captured, and of bytecode.
    fn code(&mut self, view: &SlotView<'_>, node: u32) {
        let has_place = match view.kind() {
            SlotType::DATA => true,
            SlotType::IMEMO => {
                matches!(imemo_kind(view.flags, view.heap.version()), Some("env" | "iseq"))
            }
            _ => false,
        };
        let place = has_place.then(|| self.names.holder(node, false).code).flatten();
        if let Some(place) = place {
            let place = serde_json::to_string(&place).unwrap_or_default();
            self.put(format_args!(", \"code\":{place}"));
        }
    }

    /// Whether the number of instance variables is known: their shape was found.
    fn counts_fields(&self, view: &SlotView<'_>) -> bool {
        !SHAPES.contains(view.heap.version())
            || (self.names.nodes.words().shapes.is_some()
                && !OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(view.heap.version()))
    }

    /// Whether the flag that says that variables are in the slot is known and told.
    fn is_in_slots(&self, view: &SlotView<'_>) -> bool {
        let version = view.heap.version();
        SHAPES.contains(version) && !OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(version)
    }

    fn string(&mut self, view: &SlotView<'_>) {
        let embedded = view.flags & EMBED == 0;
        if embedded {
            self.put(format_args!(", \"embedded\":true"));
        }
        let shared = match SHARED_STRINGS_BY_FIRST_FLAG.contains(view.heap.version()) {
            true => SHARED_FIRST,
            false => SHARED,
        };
        if !embedded && view.flags & shared != 0 {
            self.put(format_args!(", \"shared\":true"));
        }
        if view.flags & FSTRING != 0 {
            self.put(format_args!(", \"fstring\":true"));
        }
        let Some((start, length)) = string_bytes(view.memory, view.heap, view.address) else {
            return;
        };
        self.put(format_args!(", \"bytesize\":{length}"));
        if self.strings {
            let bytes = view.memory.copy(start, length);
            match bytes.map(String::from_utf8) {
                Some(Ok(text)) => self.put_text("value", &text),
                Some(Err(_)) => self.put(format_args!(", \"invalid_encoding\":true")),
                None => {}
            }
        }
    }

    fn array(&mut self, view: &SlotView<'_>) {
        let length = contents(view).map(|(_, count)| count);
        let shared = length.is_none();
        let length = length.or_else(|| view.memory.word_at(view.address, 16)).unwrap_or(0);
        self.put(format_args!(", \"length\":{length}"));
        if view.flags & EMBED != 0 {
            let is_told = length > 0 || SHAPES.contains(view.heap.version());
            self.put(format_args!("{}", if is_told { ", \"embedded\":true" } else { "" }));
        } else if shared {
            self.put(format_args!(", \"shared\":true"));
        }
    }

    fn class(&mut self, view: &SlotView<'_>) {
        let names = self.names;
        let above = names.classes.borrow().superclass(view.memory, view.address);
        let above = above.filter(|class| names.nodes.words().object(*class).is_some());
        let has_above = view.kind() != SlotType::MODULE && self.basic != Some(view.address);
        if let Some(class) = above.filter(|_| has_above) {
            self.put(format_args!(", \"superclass\":\"0x{class:x}\""));
        }
        if view.kind() == SlotType::ICLASS {
            return;
        }
        let name = names.name_of_class(view.address);
        let is_singleton =
            view.kind() == SlotType::CLASS && names.classes.borrow().is_singleton(view.flags);
        if is_singleton {
            self.put_text("real_class_name", &name);
            self.put(format_args!(", \"singleton\":true"));
        } else if !name.starts_with('(') {
            self.put_text("name", &name);
        }
    }

    /// The name of the type of a struct of C (`rb_data_type_t`, whose first word is the name).
    fn type_name(&mut self, view: &SlotView<'_>) -> Option<String> {
        let later = OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(view.heap.version());
        // A struct without a type has a function in its place, and something else than 1 behind.
        let (at, typed) = if later { (24, None) } else { (16, Some(24)) };
        let is_typed = typed
            .is_none_or(|offset| matches!(view.memory.word_at(view.address, offset), Some(1..=3)));
        let at = view.memory.word_at(view.address, at).filter(|_| is_typed)? & !7;
        let words = self.names.nodes.words();
        let name = self.types.entry(at).or_insert_with(|| {
            if !words.is_static(at) {
                return None;
            }
            let start = words.memory.word(at).filter(|start| words.is_static(*start))?;
            // Shorter each time, because behind the name there may be a page that is not present.
            let bytes = (1..=TYPE_NAME)
                .rev()
                .step_by(7)
                .find_map(|length| words.memory.copy(start, length))?;
            let end = bytes.iter().position(|byte| *byte == 0)?;
            let text = bytes.get(..end).filter(|text| !text.is_empty())?;
            String::from_utf8(text.to_vec()).ok().filter(|text| text.is_ascii())
        });
        name.clone()
    }

    /// The references but that to the class, and the names of those that have one.
    fn references(
        &mut self,
        view: &SlotView<'_>,
        class: u64,
        (node, edges): (u32, &Edges<'_, '_>),
    ) -> u64 {
        let mut named: Vec<(u64, Option<String>)> = Vec::new();
        let all = edges.found();
        let is_few = all.len() <= NAMED;
        for edge in all {
            let Some(to) = self.names.nodes.address(edge.to).filter(|to| *to != class) else {
                continue;
            };
            let name = is_few.then(|| self.name(view, (node, edges), *edge)).flatten();
            named.push((to, name));
        }
        if named.is_empty() {
            return 0;
        }
        self.line.push_str(", \"references\":[");
        for (place, (to, _)) in named.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            self.put(format_args!("{comma}\"0x{to:x}\""));
        }
        self.line.push(']');
        if named.iter().any(|(_, name)| name.is_some()) {
            self.line.push_str(", \"reference_names\":[");
            for (place, (_, name)) in named.iter().enumerate() {
                let comma = if place > 0 { ", " } else { "" };
                let name = serde_json::to_string(name).unwrap_or_default();
                self.put(format_args!("{comma}{name}"));
            }
            self.line.push(']');
        }
        named.len() as u64
    }

    /// The name of a reference: of an instance variable, a member, a constant, a captured variable, the value of a symbol.
    fn name(
        &self,
        view: &SlotView<'_>,
        (node, edges): (u32, &Edges<'_, '_>),
        edge: Edge,
    ) -> Option<String> {
        match view.kind() {
            SlotType::OBJECT | SlotType::STRUCT | SlotType::CLASS | SlotType::MODULE => {}
            SlotType::HASH if self.names.entries(view) <= 64 => {}
            SlotType::IMEMO if imemo_kind(view.flags, view.heap.version()) == Some("env") => {}
            _ => return None,
        }
        let passage = self.names.passage(node, &edges.between(edge), edge.to)?;
        reference_name(&self.names.link(node, &passage))
    }
}

/// The text of a link in a dump; `None` for one without a name.
fn reference_name(link: &WayLink) -> Option<String> {
    Some(match link {
        WayLink::Variable(name) | WayLink::Constant(name) => name.clone(),
        WayLink::Member(name) => format!(".{name}"),
        WayLink::Captured(name) => format!("captured {name}"),
        WayLink::Symbol(name) if !name.is_empty() => format!("[:{name}]"),
        WayLink::Method(name) => format!("method {name}"),
        _ => return None,
    })
}
