//! By what one object keeps another: the name of the reference between two slots, and of the chunks on its way.

use super::code::CodeLayout;
use super::data::WayLink;
use super::nodes::{Nodes, Spot};
use crate::hash::AddressHash;
use crate::heap::{ClassNames, SlotHead, SlotType, imemo_kind};
use crate::memory::Memory;
use crate::owners::ThreadPlace;
use crate::printable::printable;
use crate::reach::fields::{CLASS_FIELDS, Reference, SlotView};
use crate::reach::forms::{StTable, TableKind};
use crate::reach::symbols::{Symbols, is_static_symbol};
use carat_ruby::version::{SHAPES, VARIABLE_ENTRIES};
use std::cell::RefCell;
use std::collections::HashMap;

/// Entries of a hash among which a key is searched for one of many objects.
const FEW: u64 = 64;
/// Bytes of the contents of a node that are searched for one of many objects.
const SMALL: u64 = 8 << 10;
/// Instance variables of a class, at most.
const VARIABLES: u64 = 4096;

/// What is known of names.
pub(super) struct Names<'a> {
    pub(super) nodes: Nodes<'a>,
    pub(super) symbols: Option<Symbols<'a>>,
    pub(super) code: CodeLayout<'a>,
    /// Bytes of a control frame, if they are known.
    pub(super) frame: Option<u64>,
    pub(super) classes: RefCell<ClassNames>,
    /// The main object.
    pub(super) main: Option<u32>,
    pub(super) threads: &'a [ThreadPlace],
    /// Whether an object is a thread that runs, or a fiber of one.
    pub(super) running: RefCell<HashMap<u32, bool>>,
    /// Names of instance variables and members that were asked for: millions of objects have the same few.
    pub(super) known: RefCell<HashMap<NameKey, Option<String>, AddressHash>>,
}

/// A class or shape, the number of a variable or member in it, and what else tells it apart.
pub(super) type NameKey = (u64, u64, u64);

/// The third part of a key: a variable by class, and one by shape. A member has the length of its struct, and so more.
const BY_CLASS: u64 = 0;
const BY_SHAPE: u64 = 1;
const MEMBER: u64 = 2;
/// Names that are remembered, at most.
const MOST_NAMES: usize = 1 << 16;

/// The way from one slot to another: the chunks between them, and where each refers to the next.
pub(super) struct Passage {
    /// The nodes between, the outermost first.
    pub(super) between: Vec<u32>,
    /// Where the first slot, and each node between, refers to the next one.
    pub(super) spots: Vec<Spot>,
}

impl Names<'_> {
    pub(super) fn memory(&self) -> &dyn Memory {
        self.nodes.memory()
    }

    fn type_of(&self, object: u64) -> Option<SlotType> {
        let flags = self.nodes.words().object(object)?;
        Some(SlotHead { flags, class: 0 }.slot_type())
    }

    /// The name of the class of an object.
    pub(super) fn class_of(&self, node: u32) -> Option<String> {
        let head = self.nodes.head(node)?;
        let words = self.nodes.words();
        let mut classes = self.classes.borrow_mut();
        let class = classes.of_slot(words.memory, words.heap, head);
        Some(classes.name(class).to_owned())
    }

    /// The name of a class or module.
    pub(super) fn name_of_class(&self, class: u64) -> String {
        let words = self.nodes.words();
        let mut classes = self.classes.borrow_mut();
        let id = classes.of_class(words.memory, words.heap, class);
        classes.name(id).to_owned()
    }

    /// The name of an ID that is the key of a table of Ruby itself.
    fn serial(&self, serial: u64) -> Option<String> {
        self.symbols.as_ref()?.serial(serial).map(|name| printable(&name))
    }

    fn id(&self, id: u64) -> Option<String> {
        self.symbols.as_ref()?.id(id).map(|name| printable(&name))
    }

    /// By what an object keeps the one at the end of a passage.
    pub(super) fn link(&self, from: u32, passage: &Passage) -> WayLink {
        let Some(view) = self.nodes.view(from) else { return WayLink::Unnamed };
        let first = passage.spots.first().copied();
        if let Some(link) = self.generic_field(&view, passage) {
            return link;
        }
        let Some(at) = first.and_then(Spot::address) else { return WayLink::Unnamed };
        // The second word of a slot is its class (`struct RBasic`, rbasic.h).
        if at == view.address + 8 && view.kind().has_class() {
            return WayLink::Class;
        }
        match view.kind() {
            SlotType::ARRAY => self.element(&view, at),
            SlotType::HASH => self.entry(&view, at),
            SlotType::OBJECT => self.field(&view, at, passage),
            SlotType::STRUCT => self.member(&view, at),
            // A string refers to nothing but the string whose bytes it shares.
            SlotType::STRING => WayLink::Shared,
            SlotType::CLASS | SlotType::MODULE | SlotType::ICLASS => self.of_class(&view, passage),
            SlotType::DATA => self.of_data(passage),
            SlotType::IMEMO => self.of_internal(&view, passage),
            _ => WayLink::Unnamed,
        }
    }

    /// The same without what differs from one object of a container to the next, and without a search in large contents.
    pub(super) fn link_in_common(&self, from: u32, between: &[u32], to: u32) -> WayLink {
        let Some(view) = self.nodes.view(from) else { return WayLink::Unnamed };
        let class = self.memory().word_at(view.address, 8).filter(|_| view.kind().has_class());
        // Without a search, because nearly every object refers to its class.
        if between.is_empty() && class.is_some() && class == self.nodes.address(to) {
            return WayLink::Class;
        }
        match view.kind() {
            SlotType::ARRAY => return WayLink::Element(None),
            SlotType::HASH if self.entries(&view) > FEW => return self.key_of_many(&view),
            _ => {}
        }
        let is_small = between.iter().all(|node| match self.nodes.chunk(*node) {
            Some((number, chunk)) => {
                let table = self.nodes.reach.own_table(number);
                chunk.size <= SMALL && table.is_none_or(|(table, _)| table.bound <= FEW)
            }
            None => true,
        });
        match is_small.then(|| self.passage(from, between, to)).flatten() {
            Some(passage) => match self.link(from, &passage) {
                // A number without a name differs from one object to the next.
                WayLink::MemberNumber(_) | WayLink::VariableNumber(_) => WayLink::Unnamed,
                link => link,
            },
            None if view.kind() == SlotType::DATA && !is_small => self.link_of_large(between),
            None => WayLink::Unnamed,
        }
    }

    /// By what a thread or fiber keeps one of many objects: by its stack if nothing is between its context and the object,
    /// otherwise by a table of its variables.
    fn link_of_large(&self, between: &[u32]) -> WayLink {
        let last = between.last().and_then(|node| self.nodes.chunk(*node));
        match last.and_then(|(number, _)| self.nodes.reach.context(number)) {
            Some(_) => WayLink::Frame { variable: None, code: None },
            None => WayLink::Symbol(String::new()),
        }
    }

    /// Where each node on the way refers to the next; `None` where one is not found again.
    pub(super) fn passage(&self, from: u32, between: &[u32], to: u32) -> Option<Passage> {
        let mut spots = Vec::with_capacity(between.len() + 1);
        let mut at = from;
        for next in between.iter().copied().chain([to]) {
            spots.push(self.nodes.spot(at, next)?);
            at = next;
        }
        Some(Passage { between: between.to_vec(), spots })
    }

    fn element(&self, view: &SlotView<'_>, at: u64) -> WayLink {
        match contents(view) {
            Some((start, count)) if at >= start && (at - start) / 8 < count => {
                WayLink::Element(Some((at - start) / 8))
            }
            _ => WayLink::Shared,
        }
    }

    /// Entries of a hash.
    pub(super) fn entries(&self, view: &SlotView<'_>) -> u64 {
        let mut entries = 0;
        view.references(&mut |reference| match reference {
            Reference::Table(table) => entries = self.memory().word_at(table, 16).unwrap_or(0),
            // The size of a small hash is in its flags (`RHASH_AR_TABLE_SIZE_MASK`).
            Reference::Values(..) => entries = view.flags >> 16 & 15,
            _ => {}
        });
        entries
    }

    fn entry(&self, view: &SlotView<'_>, at: u64) -> WayLink {
        // What is in no entry is the default, the only other reference of a hash.
        let mut link = WayLink::Default;
        view.references(&mut |reference| match reference {
            Reference::Table(table) => {
                if let Some((number, offset)) = self.table_place(table, at) {
                    // An entry is {hash; key; record} (`st_table_entry`, st.c).
                    link = self.pair(offset == 16, at, number);
                }
            }
            Reference::Values(start, count)
                if at >= start && at < start.saturating_add(count * 8) =>
            {
                // A small hash has keys and values in turn (`ar_table_pair`, hash.c).
                link = self.pair((at - start) / 8 % 2 == 1, at, 0);
            }
            _ => {}
        });
        link
    }

    fn pair(&self, is_value: bool, at: u64, _number: u64) -> WayLink {
        // In both forms the key is the word before its value.
        let key = self.memory().word(at.wrapping_sub(8));
        match key.filter(|_| is_value) {
            Some(key) => self.key(key),
            None => WayLink::Key,
        }
    }

    /// The number of an entry in a table whose entries cover an address, and the offset in the entry.
    fn table_place(&self, table: u64, at: u64) -> Option<(u64, u64)> {
        let table = StTable::read(self.memory(), table)?;
        let within = at.checked_sub(table.entries)?;
        (within / 24 < table.bound).then_some((within / 24, within % 24))
    }

    /// The value of a key. Only symbols and classes are named: strings may hold anything.
    fn key(&self, key: u64) -> WayLink {
        let words = self.nodes.words();
        if is_static_symbol(key) || self.type_of(key) == Some(SlotType::SYMBOL) {
            let name = self.symbols.as_ref().and_then(|symbols| symbols.symbol(key));
            return name
                .map_or(WayLink::KeyOf("Symbol".into()), |name| WayLink::Symbol(printable(&name)));
        }
        // Small integers have the lowest bit set (`RUBY_FIXNUM_FLAG`, special_consts.h).
        if key & 1 == 1 {
            return WayLink::KeyOf("Integer".into());
        }
        match self.type_of(key) {
            Some(SlotType::CLASS | SlotType::MODULE) => WayLink::ClassKey(self.name_of_class(key)),
            Some(_) => {
                let class = self.nodes.reach.slot_number(key).and_then(|node| self.class_of(node));
                class.map_or(WayLink::Unnamed, WayLink::KeyOf)
            }
            // true, nil and numbers.
            None if words.heap.page_at(key).is_none() => WayLink::KeyOf("Object".into()),
            None => WayLink::Unnamed,
        }
    }

    /// The kind of the first key stands for those of all.
    fn key_of_many(&self, view: &SlotView<'_>) -> WayLink {
        let mut first = None;
        view.references(&mut |reference| {
            if let Reference::Table(table) = reference
                && let Some(table) = StTable::read(self.memory(), table)
            {
                first = table.pairs(self.memory(), FEW).next();
            }
        });
        match first.map(|(key, _)| self.key(key)) {
            Some(WayLink::Symbol(_)) => WayLink::Symbol(String::new()),
            Some(WayLink::ClassKey(_)) => WayLink::KeyOf("Class".into()),
            Some(link) => link,
            None => WayLink::Unnamed,
        }
    }

    fn field(&self, view: &SlotView<'_>, at: u64, passage: &Passage) -> WayLink {
        if let Some(link) = self.fields_object(view.flags, passage) {
            return link;
        }
        let mut start = None;
        let mut key = None;
        view.references(&mut |reference| match reference {
            Reference::Values(first, _) => start = Some(first),
            Reference::Fields(chunk, _) => match self.nodes.words().chunk_at(chunk) {
                Some((_, found)) if self.nodes.words().table_in(&found).is_some() => {
                    let place = self.table_place(chunk, at);
                    key = place.and_then(|_| self.memory().word(at.wrapping_sub(8)));
                }
                Some((_, found)) => start = Some(found.user()),
                None => {}
            },
            _ => {}
        });
        if let Some(name) = key.and_then(|key| self.id(key)) {
            return WayLink::Variable(name);
        }
        let Some(number) = start.and_then(|start| at.checked_sub(start)).map(|bytes| bytes / 8)
        else {
            return WayLink::Unnamed;
        };
        self.variable(view.flags, self.memory().word_at(view.address, 8).unwrap_or(0), number)
    }

    /// Instance variable number `number` of an object with these flags and this class.
    fn variable(&self, flags: u64, class: u64, number: u64) -> WayLink {
        let name = match SHAPES.contains(self.nodes.words().heap.version()) {
            true => self.by_shape(flags, number),
            false => self.remembered((class, number, BY_CLASS), || self.indexed(class, number)),
        };
        let named = name.map(|name| WayLink::Variable(printable(&name)));
        named.unwrap_or(WayLink::VariableNumber(number))
    }

    /// The name for a key, looked up once.
    fn remembered(&self, key: NameKey, find: impl FnOnce() -> Option<String>) -> Option<String> {
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let found = find();
        let mut known = self.known.borrow_mut();
        if known.len() < MOST_NAMES {
            known.insert(key, found.clone());
        }
        found
    }

    /// The name of the variable at a place, by the shape in these flags.
    fn by_shape(&self, flags: u64, number: u64) -> Option<String> {
        let shapes = self.nodes.words().shapes?;
        // The shape is in the upper half of the flags.
        self.remembered((flags >> 32, number, BY_SHAPE), || {
            self.symbols.as_ref()?.id(shapes.variable(self.memory(), flags, number)?)
        })
    }

    /// The name of a variable in the table of the class (`iv_index_tbl`): of the first class up the chain that has it.
    fn indexed(&self, class: u64, number: u64) -> Option<String> {
        let words = self.nodes.words();
        let mut class = class;
        // In memory that changes while it is read a chain of classes may be a circle.
        for _ in 0..64 {
            let extension = words.memory.word_at(class, 24)?;
            let table = words.memory.word(extension);
            if let Some((_, chunk)) = table.and_then(|table| words.chunk_at(table))
                && let Some(table) = words.table_in(&chunk)
            {
                let place = |record: u64| match VARIABLE_ENTRIES.contains(words.heap.version()) {
                    true => words.memory.word(record).map(|word| word & 0xffff_ffff),
                    false => Some(record),
                };
                let mut pairs = table.pairs(words.memory, VARIABLES);
                let found = pairs.find(|(_, record)| place(*record) == Some(number));
                // Other names are Ruby's own, or show that this is no table of variables.
                return self.id(found?.0).filter(|name| name.starts_with('@'));
            }
            // Only the class itself, not its singleton class, has the table.
            let flags = words.object(class)?;
            let is_passed = flags & 31 == u64::from(SlotType::ICLASS.0)
                || self.classes.borrow().is_singleton(flags);
            if !is_passed {
                return None;
            }
            class = self.classes.borrow().superclass(words.memory, class)?;
        }
        None
    }

    /// A field in an object of Ruby's own that holds the fields of another one (4.0).
    fn fields_object(&self, flags: u64, passage: &Passage) -> Option<WayLink> {
        let object = *passage.between.first().filter(|node| self.is_fields(**node))?;
        let at = passage.spots.get(1)?.address()?;
        let view = self.nodes.view(object)?;
        // In the slot behind its owner, or in a chunk.
        let start = match passage.between.get(1).and_then(|chunk| self.nodes.chunk(*chunk)) {
            Some((_, chunk)) => chunk.user(),
            None => view.address + 16,
        };
        let at = if passage.between.len() > 1 { passage.spots.get(2)?.address()? } else { at };
        let number = at.checked_sub(start)? / 8;
        let name = self.by_shape(view.flags, number).or_else(|| self.by_shape(flags, number));
        Some(
            name.map_or(WayLink::VariableNumber(number), |name| {
                WayLink::Variable(printable(&name))
            }),
        )
    }

    /// Whether a node is an object that only holds the fields of another one.
    pub(super) fn is_fields(&self, node: u32) -> bool {
        let flags = self.nodes.view(node).map_or(0, |view| view.flags);
        flags & 31 == u64::from(SlotType::IMEMO.0)
            && imemo_kind(flags, self.nodes.words().heap.version()) == Some("fields")
    }

    /// An instance variable of an object that has no room for any.
    fn generic_field(&self, view: &SlotView<'_>, passage: &Passage) -> Option<WayLink> {
        if passage.spots.first() != Some(&Spot::GenericFields) {
            return None;
        }
        if let Some(link) = self.fields_object(view.flags, passage) {
            return Some(link);
        }
        let (_, chunk) = self.nodes.chunk(*passage.between.first()?)?;
        // The number of variables comes first (`struct gen_ivtbl`, variable.c).
        let number =
            (passage.spots.get(1)?.address()?.checked_sub(chunk.user())? / 8).checked_sub(1)?;
        Some(self.variable(view.flags, self.memory().word_at(view.address, 8)?, number))
    }

    fn member(&self, view: &SlotView<'_>, at: u64) -> WayLink {
        let Some((start, count)) = contents(view) else { return WayLink::Unnamed };
        let Some(number) = at.checked_sub(start).map(|bytes| bytes / 8) else {
            return WayLink::Unnamed;
        };
        let class = self.memory().word_at(view.address, 8).unwrap_or(0);
        let key = (class, number, count.saturating_add(MEMBER));
        let name = self.remembered(key, || self.member_name(class, number, count));
        name.map_or(WayLink::MemberNumber(number), WayLink::Member)
    }

    /// The name of a struct's member: the class has an array of all of them, as long as the struct (`__members__`).
    fn member_name(&self, class: u64, number: u64, count: u64) -> Option<String> {
        let words = self.nodes.words();
        let mut class = class;
        // A struct is few classes below the one with the list; what goes on longer is no chain.
        for _ in 0..20 {
            for value in self.class_values(class) {
                let node = words.object(value).and_then(|_| self.nodes.reach.slot_number(value));
                let view = node.and_then(|node| self.nodes.view(node));
                let Some(view) = view.filter(|view| view.kind() == SlotType::ARRAY) else {
                    continue;
                };
                let Some((start, length)) = contents(&view) else { continue };
                // A struct of three members may have room for more.
                let fits = length <= count && number < length && count <= length + 2;
                let member = words.memory.word_at(start, number * 8).filter(|_| fits);
                if let Some(name) = member.and_then(|member| self.symbols.as_ref()?.symbol(member))
                {
                    return Some(printable(&name));
                }
            }
            class = self.classes.borrow().superclass(words.memory, class)?;
        }
        None
    }

    /// Values of the first variables of a class.
    fn class_values(&self, class: u64) -> Vec<u64> {
        let words = self.nodes.words();
        let word = |at: u64, offset: u64| words.memory.word_at(at, offset).unwrap_or(0);
        if !SHAPES.contains(words.heap.version()) {
            let table = word(word(class, 24), 8);
            let table = words.chunk_at(table).and_then(|(_, chunk)| words.table_in(&chunk));
            let pairs =
                table.map(|table| table.pairs(words.memory, 64).map(|pair| pair.1).collect());
            return pairs.unwrap_or_default();
        }
        // A buffer, or from 4.0 on an object with the variables in it.
        [32, 40]
            .into_iter()
            .flat_map(|offset| {
                let start = word(class, offset);
                let start = if words.object(start).is_some() { start + 16 } else { start };
                (0..16).map(move |number| word(start, number * 8))
            })
            .collect()
    }

    fn of_class(&self, view: &SlotView<'_>, passage: &Passage) -> WayLink {
        if let Some((serial, place)) = self.id_item(passage) {
            let Some(name) = self.serial(serial) else { return WayLink::Unnamed };
            return match self.is_constant(passage, place) {
                true => WayLink::Constant(name),
                // An item refers to a method itself, and to a constant through an entry of its own.
                false if place == passage.between.len() - 1 => WayLink::Method(name),
                false => WayLink::Unnamed,
            };
        }
        if let Some(link) = self.fields_object(view.flags, passage) {
            return link;
        }
        if let Some(name) = self.own_key(passage).and_then(|key| self.id(key)) {
            return if name.starts_with('@') { WayLink::Variable(name) } else { WayLink::Unnamed };
        }
        self.class_variable(view, passage).unwrap_or(WayLink::Unnamed)
    }

    /// A variable of a class in the buffer to which the fifth word of its slot leads (3.2 to 3.4). Where it is known how many there are,
    /// they are the class's own references.
    fn class_variable(&self, view: &SlotView<'_>, passage: &Passage) -> Option<WayLink> {
        let start = self.memory().word_at(view.address, CLASS_FIELDS)?;
        let chunk = |node: &u32| self.nodes.chunk(*node).map(|(_, chunk)| chunk.user());
        let is_buffer = passage.between.iter().all(|node| chunk(node) == Some(start));
        let at = passage.spots.last()?.address().filter(|_| is_buffer)?;
        let number = at.checked_sub(start)? / 8;
        let name = self.by_shape(view.flags, number)?;
        Some(WayLink::Variable(printable(&name)))
    }

    /// The key under which a passage leads through an `id_table`, and the place of its items among the nodes between.
    ///
    /// The header is {capacity, number, used, 0; items}, and an item is {key, collision; value} (id_table.c).
    pub(super) fn id_item(&self, passage: &Passage) -> Option<(u64, usize)> {
        // From the inside out: the table nearest to what is kept names it.
        (0..passage.between.len()).rev().find_map(|place| {
            let (_, chunk) = self.nodes.chunk(passage.between[place])?;
            let header = passage.spots.get(place)?.address()?.checked_sub(16)?;
            let at = passage.spots.get(place + 1)?.address()?.checked_sub(chunk.user())?;
            let sizes = self.memory().word(header)?;
            let (capacity, count) = (sizes & 0xffff_ffff, sizes >> 32);
            let used = self.memory().word_at(header, 8)?;
            let sound = capacity.is_power_of_two()
                && count <= used
                && used <= capacity
                && chunk.size >= capacity.checked_mul(16)?
                && at % 16 == 8
                && at / 16 < capacity;
            if !sound {
                return None;
            }
            // An empty item has the key 0, and the collision is one bit.
            let item = self.memory().word_at(chunk.user(), at - 8)?;
            (item & 0xffff_ffff != 0 && item >> 32 <= 1).then_some((item & 0xffff_ffff, place))
        })
    }

    /// Whether the node behind the items of a table is a constant: {flags, line; value; file} (`rb_const_entry_t`, constant.h).
    fn is_constant(&self, passage: &Passage, items: usize) -> bool {
        let is_last = passage.between.len() == items + 2;
        let Some((_, chunk)) =
            passage.between.get(items + 1).and_then(|node| self.nodes.chunk(*node))
        else {
            return false;
        };
        let spot = passage.spots.get(items + 2).and_then(|spot| spot.address());
        let file = self.memory().word_at(chunk.user(), 16).unwrap_or(u64::MAX);
        // The file is a string, or a special constant such as nil where C code has set the constant.
        let has_file = file < 16 || self.type_of(file) == Some(SlotType::STRING);
        is_last && chunk.fits(24) && spot == Some(chunk.user() + 8) && has_file
    }

    /// The key under which a passage leads through a table of Ruby itself, if its record keeps what follows.
    pub(super) fn own_key(&self, passage: &Passage) -> Option<u64> {
        passage.between.iter().enumerate().rev().find_map(|(place, node)| {
            let (number, chunk) = self.nodes.chunk(*node)?;
            let (_, kind) = self.nodes.reach.own_table(number)?;
            let at = passage.spots.get(place + 1)?.address()?;
            let (_, offset) = self.table_place(chunk.user(), at)?;
            // A weak table does not keep its records alive.
            let is_record = offset == 16 && kind == TableKind::Strong;
            self.memory().word(at - 8).filter(|_| is_record)
        })
    }

    fn of_data(&self, passage: &Passage) -> WayLink {
        if let Some((serial, _)) = self.id_item(passage) {
            return self.serial(serial).map_or(WayLink::Unnamed, WayLink::Symbol);
        }
        if let Some(name) = self.own_key(passage).and_then(|key| self.id(key)) {
            return WayLink::Symbol(name);
        }
        match self.frame_variable(passage) {
            Some((variable, code)) => WayLink::Frame { variable, code },
            None => WayLink::Unnamed,
        }
    }

    fn of_internal(&self, view: &SlotView<'_>, passage: &Passage) -> WayLink {
        match imemo_kind(view.flags, self.nodes.words().heap.version()) {
            Some("env") => {
                let at = passage.spots.last().and_then(|spot| spot.address());
                let name = at.and_then(|at| self.code.captured(view.address, at));
                name.map_or(WayLink::Unnamed, WayLink::Captured)
            }
            _ => WayLink::Unnamed,
        }
    }
}

/// The address of the first element of an array or member of a struct, and their number.
pub(super) fn contents(view: &SlotView<'_>) -> Option<(u64, u64)> {
    let mut found = None;
    view.references(&mut |reference| {
        if let Reference::Values(start, count) = reference {
            found = Some((start, count));
        }
    });
    found
}
